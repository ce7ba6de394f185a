"""A training that was interrupted, wherever that was, ends with the same bits and the same report."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from genrec_unlearn_bench.backbones import training
from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import Outcome, train_recommender
from genrec_unlearn_bench.errors import StorageError
from genrec_unlearn_bench.progress import Progress
from tests.planted import examples, sequences, sids

SHAPE = T5Shape(d_model=16, d_kv=4, d_ff=24, layers=1, heads=2, dropout=0.2, history_limit=4)
CONFIG = TrainingConfig(lr=5e-3, batch_size=64, epochs=2, warmup_steps=5, evaluations=4, valid_rows=30)
STEPS = 14
INSTANT = 1e-9
"""Minutes: time for a single step."""


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


@dataclass
class Doomed(Progress):
    """Ends the process after some steps."""

    left: int = 0

    def track(self, label: str, sequence: Iterable[Any], *, total: int | None = None) -> Iterator[Any]:
        for part in sequence:
            if self.left == 0:
                raise Killed
            self.left -= 1
            yield part


@dataclass(frozen=True, eq=False)
class Piece:
    model: T5Recommender
    outcome: Outcome
    progress: Progress


def piece(work: Path | None, *, minutes: float | None = None, seed: int = 0, progress: Progress | None = None) -> Piece:
    torch.set_num_threads(1)
    model, progress = T5Recommender.fresh(SHAPE, sids(), seed=seed), progress or Progress()
    outcome = train_recommender(
        model,
        CONFIG,
        train=examples(sequences(80, 6, 1)),
        valid=examples(sequences(10, 6, 2)),
        seed=seed,
        device="cpu",
        progress=progress,
        work=work,
        minutes=minutes,
    )
    return Piece(model, outcome, progress)


@pytest.fixture(scope="module")
def whole() -> Piece:
    return piece(None)


def assert_same(one: Piece, other: Piece) -> None:
    for name, tensor in one.model.module.state_dict().items():
        assert torch.equal(tensor, other.model.module.state_dict()[name]), name
    assert one.progress.steps == other.progress.steps, "the losses belong to the result"
    assert one.progress.notes == other.progress.notes
    assert (one.outcome.steps, one.outcome.best) == (other.outcome.steps, other.outcome.best)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot after every step."""
    monkeypatch.setattr(training, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(training, "WRITING", 0)


def test_in_pieces_of_one_step(tmp_path: Path, whole: Piece) -> None:
    pieces = [piece(tmp_path, minutes=INSTANT)]
    while not pieces[-1].outcome.finished:
        pieces.append(piece(tmp_path, minutes=INSTANT))
    assert [part.outcome.steps for part in pieces] == list(range(1, STEPS + 1))
    assert whole.outcome.total == STEPS
    assert_same(pieces[-1], whole)
    assert pieces[-1].outcome.seconds > 5 * pieces[0].outcome.seconds, "the time of all pieces is added up"
    # A finished training is not done again.
    state = torch.random.get_rng_state()
    again = piece(tmp_path, minutes=INSTANT)
    assert again.outcome.finished
    assert_same(again, whole)
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator was touched"


@pytest.mark.usefixtures("eager")
def test_killed_between_steps(tmp_path: Path, whole: Piece) -> None:
    for left in (1, 0, 6, 3):
        with pytest.raises(Killed):
            piece(tmp_path, progress=Doomed(left=left))
    last = piece(tmp_path)
    assert_same(last, whole)
    assert last.progress.earlier_seconds > 0


def test_a_damaged_state_is_not_used(tmp_path: Path, whole: Piece) -> None:
    piece(tmp_path, minutes=INSTANT)
    (damaged,) = tmp_path.glob("*.snapshot")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    restarted = piece(tmp_path)
    assert restarted.progress.earlier_seconds == 0
    assert_same(restarted, whole)


def test_another_training_is_left_alone(tmp_path: Path, whole: Piece) -> None:
    piece(tmp_path, minutes=INSTANT)
    other = piece(tmp_path, minutes=INSTANT, seed=1)
    assert other.outcome.steps == 1
    assert_same(piece(tmp_path), whole)


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path, whole: Piece, monkeypatch: pytest.MonkeyPatch) -> None:
    piece(tmp_path, minutes=INSTANT)

    def full(path: Path, content: bytes) -> None:
        path.write_text("")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(StorageError, match="cannot write"):
            piece(tmp_path, minutes=INSTANT)
    second = piece(tmp_path, minutes=INSTANT)
    assert second.outcome.steps == 2
    assert_same(piece(tmp_path), whole)


def test_the_folder_of_the_progress_is_used(tmp_path: Path, whole: Piece, eager: None) -> None:
    """Backbones call ``train_recommender`` inside their own ``fit``; the runner names the folder through progress."""
    with pytest.raises(Killed):
        piece(None, progress=Doomed(left=5, work=tmp_path))
    progress = Progress(work=tmp_path)
    model = T5Recommender.fresh(SHAPE, sids(), seed=0)
    train_recommender(
        model,
        CONFIG,
        train=examples(sequences(80, 6, 1)),
        valid=examples(sequences(10, 6, 2)),
        seed=0,
        device="cpu",
        progress=progress,
    )
    assert progress.earlier_seconds > 0
    assert_same(Piece(model, whole.outcome, progress), whole)
