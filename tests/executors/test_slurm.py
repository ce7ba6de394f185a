"""Sweeps that are handed over: what Slurm is given, and what its jobs do, under submitit's own local executor."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import MissingExtra, UsageError
from genrec_unlearn_bench.executors.base import Executor
from genrec_unlearn_bench.executors.slurm import Slurm
from genrec_unlearn_bench.executors.slurm_folder import kept_job
from genrec_unlearn_bench.executors.slurm_settings import SlurmSettings
from genrec_unlearn_bench.executors.slurm import SlurmTask
from genrec_unlearn_bench.grid.event import Event
from genrec_unlearn_bench.grid.journal import Journal, latest
from tests.executors import light_work
from tests.executors.conftest import World
from tests.executors.fake_slurm import FakeSlurm


def last(world: World, job: str) -> Event | None:
    return latest(Journal(world.folder.events).events()).get(job)


def until(held: Callable[[], bool], seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not held():
        assert time.monotonic() < ends
        time.sleep(0.05)


def over(world: World, *jobs: str) -> bool:
    found = [last(world, job) for job in jobs]
    return all(event is not None and event.state in ("done", "failed", "lost", "skipped") for event in found)


def local(world: World, **settings: object) -> Slurm:
    chosen = SlurmSettings.model_validate({"grace_seconds": 5, **settings})
    return Slurm(world.folder, world.cache, chosen, cluster="local", work=light_work.WORK)


def test_a_sweep_is_handed_over_and_done_elsewhere(world: World) -> None:
    """Under submitit nothing waits, so the cell finds out by itself that what it needs has failed."""
    jobs = [
        world.job("good", seed=1),
        world.job("bad", ends="fault"),
        world.job("late", needs=("bad",)),
    ]
    outcome = world.sweep(jobs, local(world))
    assert outcome.handed == 3
    until(lambda: over(world, "good", "bad", "late"))
    states = {job.name: last(world, job.name) for job in jobs}
    assert {name: event.state for name, event in states.items() if event} == {
        "good": "done",
        "bad": "failed",
        "late": "skipped",
    }
    good, late = states["good"], states["late"]
    assert good is not None
    assert good.executor == "slurm"
    assert good.place.isdigit()
    assert Path(good.result, "result.json").exists()
    assert late is not None
    assert "needs 'bad', which was not done: a line is broken" in late.error
    assert [event.state for event in world.events("good")][:2] == ["queued", "running"]


def test_a_job_whose_time_is_over_is_queued_again_and_goes_on(world: World) -> None:
    slurm = local(world)
    slurm.submit([world.job("slow", ends="hangs once", seed=2)], [1])
    until(lambda: (world.root / "results" / ".slow.met").exists())
    running = last(world, "slow")
    assert running is not None
    os.kill(running.pid, signal.SIGUSR2)
    until(lambda: over(world, "slow") and last(world, "slow").state == "done")  # type: ignore[union-attr]
    told = [(event.state, event.attempt) for event in world.events("slow") if event.state != "alive"]
    assert told == [("queued", 1), ("running", 1), ("lost", 1), ("retried", 1), ("running", 2), ("done", 2)]
    # What the first attempt stored was found by the second.
    assert "original: from the cache" in world.folder.log("slow").read_text()


def test_a_job_may_be_queued_again_so_often_and_not_more_often(world: World) -> None:
    local(world, restarts=0).submit([world.job("endless", ends="hangs"), world.job("taken", ends="hangs")], [1, 1])
    for name, number in (("endless", signal.SIGUSR2), ("taken", signal.SIGTERM)):
        until(lambda: "original: " in _log(world, name))  # noqa: B023
        running = last(world, name)
        assert running is not None
        os.kill(running.pid, number)
    until(
        lambda: all(
            "hint" in _error(world, name) or "taken back" in _error(world, name) for name in ("endless", "taken")
        )
    )
    assert "raise `minutes`" in _error(world, "endless")
    assert "taken back for another job" in _error(world, "taken")


def _log(world: World, job: str) -> str:
    path = world.folder.log(job)
    return path.read_text() if path.exists() else ""


def _error(world: World, job: str) -> str:
    event = last(world, job)
    return event.error if event is not None else ""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm(tmp_path / "bin", monkeypatch)


def test_what_slurm_is_given(world: World, cluster: FakeSlurm) -> None:
    settings = SlurmSettings(partition="gpu", setup=("module load cuda",), sbatch={"nice": 5}, max_parallel=1)
    jobs = [
        world.job("first", until="original", gpus=2, cores=4, minutes=30),
        *(world.job(name, needs=("first",), memory_mib=700) for name in ("one", "two")),
    ]
    slurm = Slurm(world.folder, world.cache, settings, info=world.told.info)
    slurm.submit(jobs, [1, 1, 3])
    first, cells = cluster.submitted()
    for line in ("partition=gpu", "gpus-per-node=2", "cpus-per-task=4", "time=30", "nice=5", "signal=USR2@90"):
        assert f"#SBATCH --{line}\n" in first
    assert "#SBATCH --requeue\n" in first
    assert "\nmodule load cuda\n" in first
    assert "--cpus-per-task=4" in next(line for line in first.splitlines() if line.startswith("srun"))
    assert "dependency" not in first
    assert "#SBATCH --dependency=afterany:1\n" in cells
    assert "#SBATCH --array=0-1%1\n" in cells
    assert "#SBATCH --mem=700M\n" in cells
    assert "#SBATCH --job-name=bench-light\n" in cells
    told = {event.job: event for event in Journal(world.folder.events).events()}
    assert {name: event.place for name, event in told.items()} == {"first": "1", "one": "2_0", "two": "2_1"}
    assert told["two"].attempt == 3
    assert kept_job(world.folder, "two").needs == ("first",)
    assert world.told.lines == ["submitted 3 jobs to Slurm in 2 arrays"]


def test_what_is_queued_or_runs_is_not_submitted_again(world: World, cluster: FakeSlurm) -> None:
    jobs = [world.job("first", until="original"), world.job("cell", needs=("first",)), world.job("other")]
    Slurm(world.folder, world.cache).submit(jobs[:1], [1])
    cluster.queue("1|RUNNING|None")
    Slurm(world.folder, world.cache, info=world.told.info).submit(jobs, [2, 1, 1])
    assert len(cluster.submitted()) == 3
    assert any("dependency=afterany:1\n" in text for text in cluster.submitted())
    assert "1 jobs are in Slurm's queue, or running, since an earlier call" in world.told.lines
    cluster.queue("1|COMPLETED|None", "2|CANCELLED|None", "3|PENDING|Resources")
    Slurm(world.folder, world.cache).submit(jobs[1:], [2, 2])
    assert len(cluster.submitted()) == 4


def test_refusals_come_in_slurms_own_words_before_anything_is_submitted(world: World, cluster: FakeSlurm) -> None:
    settings = SlurmSettings.model_validate({"overrides": [{"where": {"method": "two"}, "set": {"partition": "nope"}}]})
    with pytest.raises(UsageError, match="refuses the job 'two': invalid partition specified: nope"):
        Slurm(world.folder, world.cache, settings).submit([world.job("one"), world.job("two")], [1, 1])
    assert cluster.submitted() == []
    with pytest.raises(UsageError, match="Job array too large"):
        Slurm(world.folder, world.cache).submit([world.job(str(number)) for number in range(7)], [1] * 7)


def test_a_machine_without_slurm_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="no Slurm: the command 'sbatch' is not found"):
        Slurm(world.folder, world.cache)
    monkeypatch.setitem(__import__("sys").modules, "submitit", None)
    with pytest.raises(MissingExtra, match=r"genrec-unlearn-bench\[slurm\]"):
        Slurm(world.folder, world.cache)


def test_a_node_that_does_not_see_the_folder_says_so(world: World) -> None:
    with pytest.raises(UsageError, match="not in the sweep's folder"):
        SlurmTask(str(world.folder.root), "cell", str(world.cache))()


def test_it_is_an_executor(world: World) -> None:
    slurm: Executor = local(world)
    assert slurm.returns_at_once
    assert slurm.room_for(world.job("any"))
    assert slurm.ended(0.0) == []
    slurm.close()
