"""Sweeps that are handed over: what Slurm is given, and what its jobs do, under submitit's own local executor."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.errors import MissingExtra, UsageError
from genrec_unlearn_bench.executors import task
from genrec_unlearn_bench.executors.slurm import JobArray, Slurm, SlurmSettings, job_arrays, slurm_states, waits
from genrec_unlearn_bench.executors.task import Assignment, WorkResult, perform
from genrec_unlearn_bench.grid.state import JobState, SweepFolder
from tests.executors import light_work
from tests.executors.conftest import World
from tests.executors.fake_slurm import FakeSlurm


def until(held: Callable[[], bool], seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not held():
        assert time.monotonic() < ends
        time.sleep(0.05)


def over(world: World, *jobs: str) -> bool:
    found = [world.folder.state(job) for job in jobs]
    return all(state is not None and state.state in ("done", "failed", "lost", "skipped") for state in found)


class LocalSlurm(Slurm):
    """Submits to submitit's own executor on this machine: one process a job, and nothing waits."""

    def _check_installed(self) -> None:
        pass

    def _executor(self, array: JobArray, dependency: str | None) -> Any:
        from submitit import LocalExecutor

        executor = LocalExecutor(self.folder.slurm, max_num_timeout=array.placement.restarts)
        executor.update_parameters(timeout_min=60, signal_delay_s=5)
        return executor


def local(world: World) -> Slurm:
    return LocalSlurm(world.folder, work=light_work.WORK)


@pytest.mark.slow
def test_a_sweep_is_handed_over_and_done_elsewhere(world: World) -> None:
    """Under submitit nothing waits, so the cell finds out by itself that what it needs has failed."""
    jobs = [world.job("good", seed=1), world.job("bad", ends="fault"), world.job("late", needs=("bad",))]
    local(world).submit(jobs)
    until(lambda: over(world, "good", "bad", "late"))
    states = {job.name: world.state(job.name) for job in jobs}
    assert {name: state.state for name, state in states.items()} == {"good": "done", "bad": "failed", "late": "skipped"}
    assert states["good"].place.isdigit()
    assert Path(states["good"].result, "result.json").exists()
    assert "needs 'bad', which was not done: a line is broken" in states["late"].error


def hanging(world: World, job: str) -> JobState:
    until(lambda: "original: " in world.log(job))
    return world.state(job)


def test_a_job_whose_time_is_over_is_queued_again_and_goes_on(world: World) -> None:
    local(world).submit([world.job("slow", ends="hangs once", seed=2)])
    until(lambda: (world.root / "results" / ".slow.met").exists())
    os.kill(hanging(world, "slow").pid, signal.SIGUSR2)
    until(lambda: world.state("slow").state == "done")
    assert world.state("slow").attempts == 2
    # What the first attempt stored was found by the second.
    assert "original: from the cache" in world.log("slow")


def test_a_job_at_its_time_limit_that_may_not_be_queued_again_has_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from submitit.core.utils import UncompletedJobError

    def work(*_: object) -> WorkResult:
        raise UncompletedJobError("Job not requeued because: timed-out too many times.")

    given = {"job": world.job("endless"), "folder": world.folder.root}
    monkeypatch.setattr(task, "run_job", work)
    ended = perform(Assignment.model_validate({**given, "place": "7"}))
    assert (ended.how, world.state("endless").state) == ("failed", "failed")
    assert "its time was over" in ended.error
    assert "raise `minutes`" in ended.error


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm(tmp_path / "bin", monkeypatch)


def test_what_slurm_is_given(world: World, cluster: FakeSlurm) -> None:
    settings = SlurmSettings(setup=("module load cuda",), sbatch={"partition": "gpu", "nice": 5}, max_parallel=1)
    jobs = [
        world.job("first", until="original", gpus=2, cores=4, minutes=30),
        *(world.job(name, needs=("first",), memory_mib=700) for name in ("one", "two")),
    ]
    slurm = Slurm(world.folder, settings, info=world.shown.info)
    slurm.submit(jobs)
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
    states = {job.name: world.state(job.name) for job in jobs}
    assert {name: state.place for name, state in states.items()} == {"first": "1", "one": "2_0", "two": "2_1"}
    assert all(state.state == "queued" and state.owned for state in states.values())
    assert world.shown.lines == ["submitted 3 jobs to Slurm in 2 arrays"]


def test_what_is_queued_or_runs_is_not_submitted_again(world: World, cluster: FakeSlurm) -> None:
    jobs = [world.job("first", until="original"), world.job("cell", needs=("first",)), world.job("other")]
    Slurm(world.folder).submit(jobs[:1])
    cluster.queue("1|RUNNING|None")
    Slurm(world.folder, info=world.shown.info).submit(jobs)
    assert len(cluster.submitted()) == 3
    assert any("dependency=afterany:1\n" in text for text in cluster.submitted())
    assert "1 jobs are in Slurm's queue, or running, since an earlier call" in world.shown.lines
    cluster.queue("1|COMPLETED|None", "2|CANCELLED|None", "3|PENDING|Resources")
    Slurm(world.folder).submit(jobs[1:])
    assert len(cluster.submitted()) == 4


def test_a_refusal_comes_in_slurms_own_words_and_the_next_call_submits_the_rest(
    world: World, cluster: FakeSlurm
) -> None:
    one, *seven = [world.job("one", cores=2), *(world.job(str(number)) for number in range(7))]
    with pytest.raises(UsageError, match="Job array too large"):
        Slurm(world.folder).submit([one, *seven])
    cluster.queue("1|RUNNING|None")
    Slurm(world.folder, SlurmSettings(array_size=4)).submit([one, *seven])
    assert len(cluster.submitted()) == 3


def test_a_machine_without_slurm_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="no Slurm: the command 'sbatch' is not found"):
        Slurm(world.folder)
    monkeypatch.setitem(__import__("sys").modules, "submitit", None)
    with pytest.raises(MissingExtra, match=r"\[slurm\]"):
        Slurm(world.folder)


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return SweepFolder(tmp_path / "sweep")


def write(folder: SweepFolder, job: str, state: str, place: str, ago: float = 1000.0) -> None:
    folder.slurm.mkdir(parents=True, exist_ok=True)
    fields = {"job": job, "state": state, "place": place, "updated": time.time() - ago}
    folder.write(JobState.model_validate(fields))


def states_of(folder: SweepFolder, *jobs: str) -> dict[str, str]:
    found = {job: folder.state(job) for job in jobs}
    return {job: state.state for job, state in found.items() if state is not None}


def error_of(folder: SweepFolder, job: str) -> str:
    state = folder.state(job)
    return state.error if state is not None else ""


def test_nothing_is_asked_where_nothing_is_open(folder: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert slurm_states(folder) == {}
    folder.slurm.mkdir(parents=True)
    write(folder, "a", "done", "1")
    assert slurm_states(folder) == {}


def test_the_queue_says_what_became_of_jobs_that_cannot(folder: SweepFolder, cluster: FakeSlurm) -> None:
    names = ["waits", "runs", "cancelled", "killed", "ended", "late", "gone"]
    for number, name in enumerate(names):
        write(folder, name, "running" if number else "queued", f"7_{number}", ago=5.0 if name == "late" else 1000.0)
    rows = ("PENDING", "RUNNING", "CANCELLED", "OUT_OF_MEMORY", "COMPLETED", "COMPLETED")
    cluster.queue(*(f"7_{number}|{row}" for number, row in enumerate(rows)))
    found = slurm_states(folder)
    assert found["waits"] == "PENDING"
    assert sorted(name for name, word in found.items() if waits(word)) == ["runs", "waits"]
    ended = dict.fromkeys(("cancelled", "killed", "ended", "gone"), "lost")
    assert states_of(folder, *names) == {"waits": "queued", "runs": "running", "late": "running", **ended}
    assert "7_2: CANCELLED" in error_of(folder, "cancelled")
    assert "OUT_OF_MEMORY" in error_of(folder, "killed")
    assert "GONE" in error_of(folder, "gone")
    assert set(slurm_states(folder)) == {"waits", "runs", "late"}


def test_a_preempted_job_is_lost_by_its_own_word_and_queued_again(folder: SweepFolder, cluster: FakeSlurm) -> None:
    for name, place in (("preempted", "3"), ("cancelled", "4"), ("leaving", "5")):
        write(folder, name, "lost", place)
    cluster.queue("3|PENDING", "4|CANCELLED", "5|COMPLETING")
    assert [name for name, word in slurm_states(folder).items() if waits(word)] == ["preempted"]
    assert states_of(folder, "preempted", "cancelled", "leaving") == {
        "preempted": "queued",
        "cancelled": "lost",
        "leaving": "lost",
    }
    cluster.queue("3|CANCELLED")
    assert slurm_states(folder)["preempted"] == "CANCELLED"
    assert states_of(folder, "preempted") == {"preempted": "lost"}


def test_what_failed_before_it_could_speak_shows_its_error_output(folder: SweepFolder, cluster: FakeSlurm) -> None:
    write(folder, "a", "queued", "3")
    cluster.queue("3|FAILED")
    (folder.slurm / "3_0_log.err").write_text("bash: module: command not found\n")
    slurm_states(folder)
    assert states_of(folder, "a") == {"a": "failed"}
    assert error_of(folder, "a").endswith("module: command not found")


def test_silence_decides_nothing(folder: SweepFolder, cluster: FakeSlurm) -> None:
    write(folder, "a", "running", "5")
    assert slurm_states(folder)["a"] == "UNKNOWN"
    assert states_of(folder, "a") == {"a": "running"}


def test_arrays_hold_what_needs_the_same(world: World) -> None:
    jobs = [
        world.job("first", until="original"),
        world.job("second", until="original", seed=1),
        *(world.job(f"a{number}", needs=("first",)) for number in range(3)),
        *(world.job(f"b{number}", needs=("second", "gone")) for number in range(2)),
        world.job("wide", needs=("first",), cores=4),
    ]
    arrays = job_arrays(jobs, SlurmSettings(array_size=2))
    assert [[job.name for job in array.jobs] for array in arrays] == [
        ["first", "second"],
        ["a0", "a1"],
        ["a2"],
        ["b0", "b1"],
        ["wide"],
    ]
    assert [array.needs for array in arrays] == [(), ("first",), ("first",), ("second",), ("first",)]
