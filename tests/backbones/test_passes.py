"""How long a training takes: by passes over the data, until validation stops rising, within what its scale allows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones import early_stopping, load_backbone, sasrec
from genrec_unlearn_bench.backbones.config import (
    BY_PASSES,
    SASREC_PRESETS,
    SASREC_SMOKE_SCORES,
    SasRecConfig,
    Scale,
    T5Shape,
    TrainingConfig,
)
from genrec_unlearn_bench.backbones.early_stopping import validation_sample
from genrec_unlearn_bench.backbones.sasrec import SasRec
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import Outcome, train_recommender
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.progress import Progress
from tests.planted import examples, sequences, sids

SHAPE = T5Shape(d_model=16, d_kv=4, d_ff=24, layers=1, heads=2, dropout=0.1, history_limit=4)
CONFIG = TrainingConfig(lr=5e-3, batch_size=64, epochs=30, warmup_steps=5, **BY_PASSES)
INDUSTRIAL, TOYS = 19_885, 109_361
"""Train examples."""
LARGE = 25_000_000
SCALES = (Scale.SMALL, Scale.SMOKE)
BACKBONES = ("tiger", "letter", "p5sid", "mor", "etegrec")


class Told(Progress):
    """Keeps the lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)


def run(config: TrainingConfig = CONFIG, *, users: int = 80, progress: Progress | None = None) -> Any:
    torch.set_num_threads(1)
    model = T5Recommender.fresh(SHAPE, sids(), seed=0)
    data, held = examples(sequences(users, 6, 1)), examples(sequences(10, 6, 2))
    how: dict[str, Any] = {"seed": 0, "device": "cpu", "progress": progress or Progress()}
    return model, train_recommender(model, config, train=data, valid=held, **how)


def trainings(name: str, scale: Scale) -> dict[str, TrainingConfig]:
    """Every training of a backbone's preset by the field that holds it."""
    preset = load_backbone(name).presets[scale]
    return {field: value for field, value in preset if isinstance(value, TrainingConfig)}


@pytest.fixture
def curve(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Validation rises over three passes and never again, though it comes near."""
    seen: list[float] = []

    def planted(*_: object) -> float:
        seen.append([0.1, 0.2, 0.3][len(seen)] if len(seen) < 3 else 0.3 - 0.001 * (len(seen) % 2))
        return seen[-1]

    monkeypatch.setattr(early_stopping, "validation_ndcg", planted)
    monkeypatch.setattr(sasrec, "mean_ndcg", planted)
    return seen


@pytest.mark.parametrize("users", [30, 80])
def test_training_ends_after_the_passes_of_patience(users: int, curve: list[float]) -> None:
    told = Told()
    _, outcome = run(users=users, progress=told)
    each = -(-5 * users // 64)
    assert len(curve) == 3 + 5, "one evaluation a pass, whatever the data"
    assert (outcome.steps, outcome.total) == (8 * each, 30 * each)
    assert outcome.best == 0.3
    assert told.lines[0] == (
        f"train: at most 30 passes over {5 * users} samples ({30 * each} steps of 64); "
        "ends once validation NDCG@10 has not risen for 5 passes"
    ), "told before the first step"


def test_the_weights_of_the_last_rise_come_back(curve: list[float]) -> None:
    """Those of pass 3, under the schedule of 30 passes: the same training, killed there, has them."""
    model, _ = run()

    class Killed(Exception):
        pass

    class Doomed(Progress):
        def track(self, label: str, sequence: Any, *, total: int | None = None) -> Iterator[Any]:
            for step, rows in enumerate(sequence):
                if step == 3 * 7:
                    raise Killed
                yield rows

    short = T5Recommender.fresh(SHAPE, sids(), seed=0)
    curve.clear()
    with pytest.raises(Killed):
        train_recommender(
            short,
            CONFIG,
            train=examples(sequences(80, 6, 1)),
            valid=examples(sequences(10, 6, 2)),
            seed=0,
            device="cpu",
            progress=Doomed(),
        )
    for name, tensor in short.module.state_dict().items():
        assert torch.equal(tensor, model.module.state_dict()[name]), name


def test_sasrec_goes_by_passes(curve: list[float]) -> None:
    told = fitted_sasrec(SasRecConfig(dim=8, layers=1, heads=1, history_limit=6, patience=5))
    assert len(curve) == 3 + 5
    assert told.notes["sasrec.best_epoch"] == 3
    assert SASREC_PRESETS["small"].epochs >= 20
    assert SASREC_PRESETS["small"].valid_rows == 5000


def fitted_sasrec(config: SasRecConfig, progress: Told | None = None) -> Told:
    torch.set_num_threads(1)
    progress, train = progress or Told(), examples(sequences(200, 9, 1))
    held = examples(sequences(20, 9, 2))
    SasRec.fit(config, train=train, valid=held, items=64, seed=0, device="cpu", progress=progress)
    return progress


@pytest.mark.parametrize("name", BACKBONES)
def test_small_is_a_number_of_passes_whatever_the_data(name: str) -> None:
    found = trainings(name, Scale.SMALL)
    for field, training in found.items():
        for rows in (INDUSTRIAL, TOYS, LARGE):
            each = training.steps_per_pass(rows)
            assert training.steps(rows) == training.epochs * each, "no bound by steps"
            assert training.evaluation_steps(rows) == each
        assert (training.patience, training.valid_rows) == (5, 5000)
        assert training.epochs >= 20 or field == "second"
    if name == "etegrec":
        config = load_backbone(name).presets[Scale.SMALL]
        joint: Any = config.joint
        in_turns = joint.epochs // joint.cycle * (joint.cycle - 1)
        assert (joint.patience, joint.valid_rows) == (5, 5000)
        assert in_turns + found["second"].epochs == found["alone"].epochs >= 20, "original and retrain alike"


def test_all_validation_rows_up_to_5000_are_used() -> None:
    rows = examples(sequences(1300, 5, 0))
    assert len(rows) > 5000
    few = rows.subset(np.arange(4532))
    chosen = validation_sample(few, BY_PASSES["valid_rows"], np.random.default_rng(0))
    np.testing.assert_array_equal(chosen.targets, few.targets)
    assert len(validation_sample(rows, BY_PASSES["valid_rows"], np.random.default_rng(0))) == 5000


# Seconds of a step at smoke scale on one core, measured on the demo (November 2026), and half as much again for the
# longer histories of real data.
SECONDS = {"tiger": 0.056, "letter": 0.056, "p5sid": 0.086, "mor": 0.027, "etegrec": 0.06}


@pytest.mark.parametrize("name", BACKBONES)
def test_smoke_on_real_data_is_bounded_and_the_demo_as_it_was(name: str) -> None:
    demo = resolve(RunRequest(task="demo-brand", method="original", backbone=name))
    preset = load_backbone(name).presets[Scale.SMOKE]
    assert demo.backbone_config == preset
    real: Any = resolve(RunRequest(task="steam-price", method="original", backbone=name, scale="smoke")).backbone_config
    steps = {field: value.steps(LARGE) for field, value in real if isinstance(value, TrainingConfig)}
    alone, together = steps.get("training", steps.get("alone", 0)), steps.get("second", 0)
    if name == "etegrec":
        together += real.joint.epochs * real.joint.epoch_steps
    assert 1.5 * SECONDS[name] * max(alone, together) < 120
    rows = {"mor": 1_437}.get(name, 9_603)
    assert all(getattr(real, field).steps(rows) == t.steps(rows) for field, t in trainings(name, Scale.SMOKE).items())
    asked = {"training.max_steps": 5000} if name == "tiger" else {}
    own: Any = resolve(
        RunRequest(task="steam-price", method="original", backbone=name, scale="smoke", backbone_set=asked)
    ).backbone_config
    assert name != "tiger" or own.training.max_steps == 5000, "whoever asks for more gets it"


def test_a_bounded_training_on_many_rows_ends_in_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_stopping, "validation_ndcg", lambda *_: 0.1)
    config = CONFIG.model_copy(update={"batch_size": 16, "epochs": 8, "evaluations": 4, "max_steps": 12})
    told = Told()
    began = time.monotonic()
    _, outcome = run(config, users=6000, progress=told)
    assert (outcome.steps, outcome.total) == (12, 12)
    assert time.monotonic() - began < 20
    assert "at most 0.0064 passes over 30,000 samples (12 steps of 16)" in told.lines[0]


def test_sasrec_computes_no_more_scores_than_it_may() -> None:
    whole = fitted_sasrec(SasRecConfig(dim=8, layers=1, heads=1, history_limit=6, epochs=3, batch_size=32))
    assert [line.step for line in whole.steps] == [1, 2, 3]
    scores = 1600 * 64  # of a pass
    for limit, passes in ((0.5, 1), (1.5, 2), (100, 3)):
        config = SasRecConfig(dim=8, layers=1, heads=1, history_limit=6, epochs=3, batch_size=32)
        cut = fitted_sasrec(config.model_copy(update={"max_scores": int(limit * scores)}))
        assert [line.step for line in cut.steps] == list(range(1, passes + 1))
        assert (cut.steps == whole.steps) == (limit == 100)
        assert cut.steps[-1].losses["loss"] == pytest.approx(whole.steps[passes - 1].losses["loss"], rel=0.05)
    assert "at most 0.5 passes" in fitted_sasrec(config.model_copy(update={"max_scores": scores // 2})).lines[0]
    assert SASREC_SMOKE_SCORES > 9_603 * 400 * 30, "the demo's own scores are within it"


def test_hours_end_a_training_which_says_so() -> None:
    hurried, idle, whole = Told(), Told(), Told()
    hurried.limit(1e-9)
    idle.limit(1.0)
    model, outcome = run(CONFIG.model_copy(update={"epochs": 2}), progress=hurried)
    assert (outcome.steps, outcome.finished) == (1, True)
    assert hurried.notes["train.ended_early"] == "after step 1 of 14"
    assert outcome.best >= 0, "what comes back was evaluated"
    again, _ = run(CONFIG.model_copy(update={"epochs": 2}), progress=idle)
    other, _ = run(CONFIG.model_copy(update={"epochs": 2}), progress=whole)
    assert idle.notes == whole.notes
    assert "train.ended_early" not in idle.notes
    assert all(torch.equal(a, b) for a, b in zip(again.module.parameters(), other.module.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(model.module.parameters(), other.module.parameters(), strict=True))
    told = fitted_sasrec(SasRecConfig(dim=8, layers=1, heads=1, history_limit=6, epochs=3, max_hours=1e-9))
    assert told.notes["sasrec.ended_early"] == "after pass 1 of 3"


def test_an_end_that_comes_anyway_is_none_of_the_hours() -> None:
    told = Told()
    told.limit(1e-9)
    _, outcome = run(CONFIG.model_copy(update={"max_steps": 1}), progress=told)
    assert isinstance(outcome, Outcome)
    assert outcome.steps == outcome.total == 1
    assert "train.ended_early" not in told.notes


def test_hours_of_interrupted_processes_count() -> None:
    told = Told()
    told.limit(2.0)
    assert not told.late
    told.earlier_seconds = 7200.0
    assert told.late
    told.limit(None)
    assert not told.late
