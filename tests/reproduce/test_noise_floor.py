"""A noise floor: measured by repeating a run whose numbers scatter, kept, and what later runs are judged by."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.errors import CorruptArtefact, UsageError
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline import run as running
from genrec_unlearn_bench.pipeline.environment import describe
from genrec_unlearn_bench.pipeline.record import Environment, RunRecord, StageRef
from genrec_unlearn_bench.reproduce.comparison import (
    FLOOR_FILES,
    NoiseFloor,
    Repetition,
    compare,
    read_floor,
    write_floor,
)
from genrec_unlearn_bench.reproduce.repeat import measure_floor, repeat_record
from tests.pipeline.conftest import Bench, Told
from tests.reproduce.test_comparison import HERE, hits, record

GPU = HERE.model_copy(update={"device": "cuda:0", "device_name": "a GPU", "precision": "bf16"})
OWN = frozenset({"unlearned", "evaluation"})

NOISY = '''"""Mine (unpublished): weights with noise that no seed fixes. Updates all parameters."""

import os

import torch

from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod


class Mine(UnlearningMethod[MethodConfig]):
    """Scatters."""

    name = "mine"
    Config = MethodConfig

    def unlearn(self, recommender, request, progress):
        model = recommender.clone()
        draw = torch.Generator().manual_seed(int.from_bytes(os.urandom(6), "big"))
        for parameter in model.module.parameters():
            parameter.data.mul_(1 + 0.02 * torch.randn(parameter.shape, generator=draw))
        progress.log("scatter", 0, {"loss": 0.0})
        return model
'''


def run(value: float, digest: str = "d", **changes: Any) -> RunRecord:
    """A record on the GPU; ``digest``: of its row."""
    stages = (
        StageRef(name="original", key="o", digest="o", seconds=1.0, cached=True),
        StageRef(name="unlearned", key="u", digest=digest, seconds=1.0, cached=False),
    )
    return record(hits(value), **{"at": GPU, "stages": stages, **changes})


def floor_of(*values: float) -> NoiseFloor:
    return NoiseFloor(key="k" * 64, repetitions=tuple(run(value).metrics for value in values))


def test_two_runs_may_differ_by_what_t_says_of_so_many_repetitions() -> None:
    floor = floor_of(0.20, 0.21, 0.22, 0.19, 0.18)
    sd = math.sqrt(sum((value - 0.20) ** 2 for value in (0.20, 0.21, 0.22, 0.19, 0.18)) / 4)
    assert floor.runs == 5
    assert floor.allowed()["hr@10", Group.FORGET, 10] == pytest.approx(2.776445 * math.sqrt(2) * sd)
    # Nothing scatters: one user of 400 may still fall on the other side.
    assert floor_of(0.2, 0.2, 0.2).allowed()["hr@10", Group.FORGET, 10] == 1 / 400
    assert floor_of(0.2, 0.9).allowed() == {}


def test_a_later_run_is_judged_by_the_floor() -> None:
    floor = floor_of(0.200, 0.201, 0.199)
    then = run(0.2)
    near = compare(then, run(0.205, "x"), floor=floor, own=OWN)
    assert near.basis == "floor"
    assert near.matches
    # Within 2.8 standard errors over users, which is 0.055 here, and outside the floor.
    far = compare(then, run(0.21, "x"), floor=floor, own=OWN)
    assert not far.matches
    without = compare(then, run(0.21, "x"), own=OWN)
    assert (without.basis, without.matches, without.floor_unused) == ("users", True, "")


@pytest.mark.parametrize(
    ("then", "now", "why"),
    [
        ({}, {"at": GPU.model_copy(update={"device_name": "another GPU"})}, "this is another one"),
        ({}, {"at": GPU.model_copy(update={"packages": {"torch": "9"}})}, "this is another one"),
        ({"at": GPU.model_copy(update={"device_name": "another GPU"})}, {}, "this is another one"),
        ({"stages": (StageRef(name="original", key="o", digest="p", seconds=1, cached=True),)}, {}, "built on"),
        ({"stages": (StageRef(name="original", key="q", digest="p", seconds=1, cached=True),)}, {}, "other inputs"),
    ],
)
def test_a_floor_holds_only_where_it_was_measured(then: dict[str, Any], now: dict[str, Any], why: str) -> None:
    found = compare(run(0.2, **then), run(0.201, "x", **now), floor=floor_of(0.2, 0.201, 0.199), own=OWN)
    assert found.basis == "users"
    assert why in found.floor_unused


def test_a_floor_of_the_row_says_nothing_of_a_new_training(tmp_path: Path) -> None:
    floor = floor_of(0.2, 0.201, 0.199)
    write_floor(tmp_path, floor, "row")
    assert read_floor(tmp_path, run(0.2), "all") is None
    other = (StageRef(name="original", key="o", digest="other", seconds=1.0, cached=False),)
    assert compare(run(0.2), run(0.201, stages=other), floor=floor, own=OWN).basis == "users"
    assert compare(run(0.2), run(0.201, stages=other), floor=floor).basis == "floor"


def test_another_of_several_equal_gpus_is_the_same() -> None:
    there = GPU.model_copy(update={"device": "cuda:3", "git_commit": "f" * 40})
    assert compare(run(0.2), run(0.2, "x", at=there), floor=floor_of(0.2, 0.2, 0.2), own=OWN).basis == "floor"


def test_a_floor_is_the_records_own(tmp_path: Path) -> None:
    write_floor(tmp_path, floor_of(0.2, 0.3, 0.2), "row")
    assert read_floor(tmp_path, run(0.2), "row") == floor_of(0.2, 0.3, 0.2)
    assert read_floor(tmp_path, run(0.2).model_copy(update={"key": "o" * 64}), "row") is None
    elsewhere = run(0.2, at=GPU.model_copy(update={"device_name": "another GPU"}))
    with pytest.raises(UsageError, match="another environment than the record's"):
        measure_floor(tmp_path, run(0.2), 3, lambda floor: compare(run(0.2), elsewhere), redo="all", progress=Told())
    (tmp_path / FLOOR_FILES["row"]).write_text("{}")
    with pytest.raises(CorruptArtefact, match="cannot be read"):
        read_floor(tmp_path, run(0.2), "row")


def test_a_run_on_a_cpu_has_none(tmp_path: Path) -> None:
    def never(floor: object) -> Repetition:
        raise AssertionError

    with pytest.raises(UsageError, match="the same bits are required"):
        measure_floor(tmp_path, record(hits(0.2)), 5, never, redo="row", progress=Told())
    with pytest.raises(UsageError, match="say nothing about a spread"):
        measure_floor(tmp_path, run(0.2), 2, never, redo="row", progress=Told())


def test_a_floor_is_kept_run_by_run_and_gone_on_with(tmp_path: Path) -> None:
    """Noise planted into the numbers themselves: an interrupted measurement counts, and the floor judges the next."""
    draws = random.Random(7)
    then, told = run(0.2), Told()

    def once(floor: NoiseFloor | None) -> Repetition:
        if len(made) == 2 and floor is not None and floor.runs == 2:
            made.append("stopped")
            raise KeyboardInterrupt
        made.append("run")
        return compare(then, run(draws.gauss(0.2, 0.002), str(len(made))), floor=floor, own=OWN)

    made: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        measure_floor(tmp_path, then, 8, once, redo="row", progress=told)
    kept = read_floor(tmp_path, then, "row")
    assert kept is not None
    assert kept.runs == 2
    floor, last = measure_floor(tmp_path, then, 8, once, redo="row", progress=told)
    assert floor.runs == 8
    assert made.count("run") == 8
    assert told.lines[-1] == "noise floor: 8 of 8 repetitions"
    assert last.basis == "floor"
    # Of 200 later runs with the same noise about one in twenty may leave it.
    later = [compare(then, run(draws.gauss(0.2, 0.002), "x"), floor=floor, own=OWN).matches for _ in range(200)]
    assert 180 <= sum(later) <= 200


@pytest.mark.slow
def test_noise_that_was_planted_is_measured_and_then_holds(
    trained: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method that scatters, on what calls itself a GPU: the floor is kept run by run, and judges the next one."""

    def pretended(device: str, *, threads: int) -> Environment:
        found = describe(device, threads=threads)
        return found.model_copy(update={"device": "cuda:0", "device_name": "a pretended GPU"})

    monkeypatch.setattr(running, "describe", pretended)
    path = tmp_path / "mine.py"
    path.write_text(NOISY)
    method = f"{path}:Mine"
    done = trained.run(method, results_dir=tmp_path / "results")
    told = Told()

    def once(floor: NoiseFloor | None) -> Repetition:
        cache = trained.root / "cache"
        return repeat_record(done.record, method=method, cache_dir=cache, device="cpu", floor=floor, progress=told)

    first = once(None)
    assert first.basis == "users"
    assert first.first_difference == "the stage 'unlearned' came out differently, from the same inputs and code"
    floor, last = measure_floor(done.folder, done.record, 3, once, redo="row", progress=told)
    assert floor.runs == 3
    assert [line for line in told.lines if line.startswith("noise floor")][-1] == "noise floor: 3 of 3 repetitions"
    assert last.basis == "floor"
    assert len(set(floor.repetitions)) > 1
    # What was measured counts: one repetition more, not three.
    assert measure_floor(done.folder, done.record, 4, once, redo="row", progress=told)[0].runs == 4
    assert once(read_floor(done.folder, done.record, "row")).basis == "floor"
