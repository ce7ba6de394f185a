"""Losses shown elsewhere: the same as those that are kept, and nothing of a result changes by it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import MissingExtra
from genrec_unlearn_bench.executors.job_progress import tensorboard
from genrec_unlearn_bench.pipeline.run import run_cell
from genrec_unlearn_bench.pipeline.stage import StageLog
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.reproduce.repeat import repeat_record
from tests.pipeline.conftest import Bench, Told


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard's own reader finds: tag -> (step, value)."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[str, list[tuple[int, float]]] = {}
    for place in sorted({path.parent for path in folder.rglob("events.out.tfevents.*")}):
        reader = EventAccumulator(str(place), size_guidance={"scalars": 0})
        reader.Reload()
        for tag in reader.Tags()["scalars"]:
            found[tag] = [(event.step, event.value) for event in reader.Scalars(tag)]
    return found


@pytest.mark.slow
def test_tensorboard_holds_what_the_result_holds_and_the_result_is_the_same(trained: Bench, tmp_path: Path) -> None:
    request = trained.request("npo", method_set={"max_steps": 3}, results_dir=tmp_path / "results")
    with tensorboard(trained.told, tmp_path / "board", "demo/tiger/npo") as progress:
        done = run_cell(request, trained.store, progress)
    shown = scalars(tmp_path / "board")
    kept: dict[str, list[tuple[int, object]]] = {}
    for line in (done.folder / "losses.jsonl").read_text().splitlines():
        step = json.loads(line)
        for name, value in step["losses"].items():
            kept.setdefault(f"unlearned/{step['stage']}.{name}", []).append((step["step"], pytest.approx(value)))
    assert kept
    assert shown == kept
    assert {path.parent.name for path in (tmp_path / "board").rglob("events*")} == {"npo"}
    # Its row once more, without TensorBoard.
    again = repeat_record(done.record, cache_dir=trained.root / "cache", progress=Told())
    assert again.bitwise
    assert again.matches


def test_without_a_folder_nothing_is_wrapped() -> None:
    progress = Progress()
    with tensorboard(progress, None, "run") as told:
        assert told is progress


def test_a_stage_that_comes_twice_gets_a_number(tmp_path: Path) -> None:
    with tensorboard(Progress(), tmp_path, "run") as told:
        for value in (1.0, 2.0):
            with told.computing("retrain"):
                StageLog(outer=told).log("train", 0, {"loss": value})
    assert scalars(tmp_path) == {"retrain/train.loss": [(0, 1.0)], "retrain 2/train.loss": [(0, 2.0)]}


def test_a_full_disk_ends_no_training(tmp_path: Path) -> None:
    told = Told()
    with tensorboard(told, tmp_path, "run") as progress:
        writer = progress._writer  # type: ignore[attr-defined]
        writer.add_scalar = lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        progress.follow("train", 0, {"loss": 1.0})
        progress.info("on")
    assert told.lines == ["on"]


def test_of_several_processes_the_first_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    with tensorboard(Progress(), tmp_path, "run") as told:
        told.follow("train", 0, {"loss": 1.0})
    assert not list(tmp_path.iterdir())


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with (
        pytest.raises(MissingExtra, match=r"\[trackers\]"),
        tensorboard(Progress(), tmp_path, "run"),
    ):
        pass
