"""Which jobs go into one array, and what arrays wait for."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.executors.slurm_arrays import dependency, job_arrays
from genrec_unlearn_bench.executors.slurm_settings import SlurmSettings
from genrec_unlearn_bench.grid.job import Job
from tests.executors.light_work import job


def grid(root: Path) -> list[Job]:
    """Two datasets' originals on one ground each, and three cells on every original."""
    jobs = []
    for task in ("a", "b"):
        jobs += [
            job(f"{task}/ground", root, until="ground"),
            job(f"{task}/original", root, until="original", needs=(f"{task}/ground",), cores=2),
            *(job(f"{task}/{name}", root, needs=(f"{task}/original",)) for name in ("npo", "rmu", "filter")),
        ]
    return jobs


def names(arrays: object) -> list[list[str]]:
    return [[member.name for member in array.jobs] for array in arrays]  # type: ignore[attr-defined]


def test_what_is_needed_stands_in_earlier_arrays(tmp_path: Path) -> None:
    found = job_arrays(grid(tmp_path), SlurmSettings())
    assert names(found) == [
        ["a/ground", "b/ground"],
        ["a/original"],
        ["b/original"],
        ["a/npo", "a/rmu", "a/filter"],
        ["b/npo", "b/rmu", "b/filter"],
    ]
    assert [array.needs for array in found] == [(), ("a/ground",), ("b/ground",), ("a/original",), ("b/original",)]


def test_a_bound_on_what_runs_at_once_makes_one_array_of_a_level(tmp_path: Path) -> None:
    found = job_arrays(grid(tmp_path), SlurmSettings(max_parallel=2))
    assert names(found)[1:] == [
        ["a/original", "b/original"],
        ["a/npo", "a/rmu", "a/filter", "b/npo", "b/rmu", "b/filter"],
    ]
    assert found[2].needs == ("a/original", "b/original")


def test_other_resources_make_another_array(tmp_path: Path) -> None:
    settings = SlurmSettings.model_validate({"overrides": [{"where": {"method": "*/rmu"}, "set": {"gpus": 1}}]})
    found = job_arrays(grid(tmp_path), settings)
    assert ["a/npo", "a/filter"] in names(found)
    assert ["a/rmu"] in names(found)


def test_arrays_are_cut_to_what_a_cluster_takes(tmp_path: Path) -> None:
    jobs = [job(f"{number}", tmp_path) for number in range(7)]
    assert [len(part) for part in names(job_arrays(jobs, SlurmSettings(array_size=3)))] == [3, 3, 1]


def test_what_is_done_is_not_waited_for_and_what_is_queued_is(tmp_path: Path) -> None:
    cells = [one for one in grid(tmp_path) if one.until == "result"]
    assert {array.needs for array in job_arrays(cells, SlurmSettings())} == {()}
    assert {array.needs for array in job_arrays(cells, SlurmSettings(), ["a/original"])} == {(), ("a/original",)}


def test_a_circle_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="circle: a, b"):
        job_arrays([job("a", tmp_path, needs=("b",)), job("b", tmp_path, needs=("a",))], SlurmSettings())


def test_a_dependency_holds_however_the_need_ends() -> None:
    assert dependency([], {}) is None
    assert dependency(["x", "y"], {"x": "7_0", "y": "9", "z": "1"}) == "afterany:7_0:9"
