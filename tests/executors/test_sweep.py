"""A sweep does what can be done: order, needs, failures, retries, refusals, interruptions, under every executor."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import DataFault, MissingExtra, OutOfMemory, UsageError
from genrec_unlearn_bench.executors import sweep
from genrec_unlearn_bench.executors.local import LocalProcesses
from genrec_unlearn_bench.executors.sweep import SweepOutcome
from genrec_unlearn_bench.executors.task import Assignment, is_transient
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.grid.state import JobState, SweepFolder
from tests.executors.conftest import ROOT, World


def grid(world: World, **changes: dict[str, object]) -> list[Job]:
    """Two seeds of three methods on two originals; ``changes`` of jobs by method."""
    jobs = []
    for seed in (0, 1):
        jobs.append(world.job(f"original{seed}", until="original", seed=seed))
        for method in ("filter", "tracer", "npo"):
            more = changes.get(method, {}) if seed == 0 else {}
            jobs.append(world.job(f"{method}{seed}", method=method, seed=seed, needs=(f"original{seed}",), **more))
    return jobs


def records(root: Path) -> dict[str, str]:
    """Results by place, without the times in them."""
    found = {}
    for path in sorted(root.rglob("result.json")):
        content = json.loads(path.read_text())
        del content["created"]
        found[path.relative_to(root).as_posix()] = json.dumps(content)
    return found


@pytest.mark.slow
def test_every_executor_comes_to_the_same_results(world: World, executor: Callable[[], LocalProcesses]) -> None:
    ended: list[str] = []
    outcome = world.sweep(grid(world), executor(), ended=lambda job, outcome: ended.append(job.name))
    assert sorted(outcome.done) == sorted(ended) == sorted(job.name for job in grid(world))
    assert (outcome.failed, outcome.skipped, outcome.left) == ({}, {}, ())
    for seed in (0, 1):
        assert all(ended.index(f"original{seed}") < ended.index(f"{name}{seed}") for name in ("filter", "npo"))
    alone = World(world.root / "alone", world.shown)
    alone.sweep(grid(alone), alone.in_process())
    assert records(world.root / "results") == records(world.root / "alone" / "results")
    assert len(records(world.root / "results")) == 6
    assert Path(outcome.done["tracer0"].result, "result.json").is_file()
    assert (world.state("npo1").state, world.state("npo1").attempts) == ("done", 1)
    assert world.state("npo1").result == outcome.done["npo1"].result


@pytest.mark.slow
def test_a_failed_job_in_the_middle_stops_only_what_needs_it(
    world: World, executor: Callable[[], LocalProcesses]
) -> None:
    jobs = grid(world, tracer={"ends": "fault"}, filter={"ends": "bug"})
    jobs.append(world.job("on-tracer", needs=("tracer0",)))
    jobs.append(world.job("on-that", needs=("on-tracer", "npo1")))
    outcome = world.sweep(jobs, executor())
    assert sorted(outcome.done) == ["filter1", "npo0", "npo1", "original0", "original1", "tracer1"]
    fault, bug = outcome.failed["tracer0"], outcome.failed["filter0"]
    assert fault.error == "a line is broken\n  where: items.csv:7\n  hint:  fix it"
    assert (fault.attempts, bug.attempts) == (1, 1)
    assert bug.error.startswith("ZeroDivisionError: a bug\n  where: light_work.py:")
    assert "raise DataFault" in world.log("tracer0")
    assert "raise ZeroDivisionError" in world.log("filter0")
    assert outcome.skipped == {
        "on-tracer": "it needs tracer0, which failed: a line is broken",
        "on-that": "it needs tracer0, which failed: a line is broken",
    }
    assert world.state("on-that").state == "skipped"
    # Issued again, what is done is found, and what failed is tried again.
    again = world.sweep(jobs, executor())
    assert sorted(again.failed) == ["filter0", "tracer0"]
    assert world.state("tracer0").attempts == 2
    assert [line for line in world.log("tracer0").splitlines() if " attempt 2 on " in line]


def test_transient_faults_are_tried_again_and_no_others(world: World, executor: Callable[[], LocalProcesses]) -> None:
    jobs = [
        world.job("once", ends="nfs once"),
        world.job("always", ends="network"),
        world.job("fault", ends="fault once"),
    ]
    outcome = world.sweep(jobs, executor())
    assert sorted(outcome.done) == ["once"]
    assert {name: failure.attempts for name, failure in outcome.failed.items()} == {"always": 3, "fault": 1}
    assert (world.state("once").state, world.state("once").attempts) == ("done", 2)
    assert "Stale file handle" in world.log("once")


def test_a_file_server_that_stays_away_ends_the_sweep(world: World) -> None:
    outcome = world.sweep([world.job("one", ends="nfs"), world.job("two")])
    assert outcome.storage.startswith("cannot ")
    assert world.log("one").count(" attempt ") == 3
    assert (outcome.failed, "one" in outcome.left) == ({}, True)


@pytest.mark.slow
def test_a_full_disk_ends_the_sweep_and_the_next_call_goes_on(
    world: World, executor: Callable[[], LocalProcesses]
) -> None:
    jobs = grid(world, filter={"ends": "full once"})
    outcome = world.sweep(jobs, executor())
    assert "write: the disk is full\n  where: " in outcome.storage
    assert outcome.failed == {}
    assert "filter0" in outcome.left
    assert set(outcome.done) | set(outcome.left) == {job.name for job in jobs}
    assert set(world.sweep(jobs, executor()).done) == {job.name for job in jobs}


def test_what_can_never_start_here_fails_with_the_reason(world: World) -> None:
    jobs = [world.job("wide", cores=64), world.job("big", memory_mib=1 << 30), world.job("small")]
    outcome = world.sweep(jobs, world.local(1))
    assert sorted(outcome.done) == ["small"]
    assert "it needs 64 cores, and 1 may be used" in outcome.failed["wide"].error
    assert "MiB of memory" in outcome.failed["big"].error


def test_a_bound_on_the_time_leaves_the_rest(world: World) -> None:
    outcome = world.sweep(grid(world), minutes=0.0)
    assert outcome.done == {}
    assert len(outcome.left) == 8


def test_an_interrupt_stops_what_runs_and_keeps_the_rest(world: World) -> None:
    def stop(outcome: SweepOutcome) -> None:
        if outcome.done and all("original" in world.log(name) for name in ("one", "two")):
            raise KeyboardInterrupt

    jobs = [world.job("quick"), world.job("one", ends="hangs"), world.job("two", ends="hangs"), world.job("three")]
    began = time.monotonic()
    outcome = world.sweep(jobs, world.local(2), tick=stop)
    assert time.monotonic() - began < 20
    assert outcome.interrupted
    assert (sorted(outcome.done), sorted(outcome.left)) == (["quick"], ["one", "three", "two"])
    assert world.state("one").state == "lost"
    assert "stopped after" in world.log("one")


SWEEP = """
import faulthandler
from pathlib import Path
import typer
from genrec_unlearn_bench.cli import command, main, start
from tests.executors.conftest import Lines, World

def verb(root: Path) -> None:
    world = World(root, Lines())
    jobs = [world.job("stubborn", ends="stubborn"), world.job("next", ends="hangs")]
    world.sweep(jobs, world.local(1, grace=60.0))

if __name__ == "__main__":
    faulthandler.enable()
    main.run = lambda: typer.run(command.as_command(verb))
    start.run()
"""


@pytest.mark.slow
def test_three_interrupts_in_a_row_end_with_130(world: World) -> None:
    """The first stops politely, the second kills what does not listen, and none ends in a traceback."""
    script = world.root / "sweep.py"
    script.write_text(SWEEP)
    said = world.root / "stderr"
    command = [sys.executable, str(script), str(world.root)]
    with said.open("w") as stream:
        # Where the tests run in a shell's background, interrupts are ignored, and that is inherited.
        heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        sweep = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=stream, preexec_fn=heard)
    until = time.monotonic() + 60
    while time.monotonic() < until and "deaf" not in world.log("stubborn"):
        time.sleep(0.05)
    began = time.monotonic()
    # On a busy machine several pending signals are one, so there may be more of them than three.
    while sweep.poll() is None and time.monotonic() - began < 30:
        os.killpg(sweep.pid, signal.SIGINT)
        time.sleep(0.2)
    if sweep.poll() is None:
        sweep.send_signal(signal.SIGABRT)  # Its threads say where they are.
        sweep.wait(30)
    assert sweep.returncode == 130, said.read_text()
    assert time.monotonic() - began < 20
    assert world.folder.state("next") is None or world.state("next").state != "running"


def test_a_job_that_another_process_runs_is_left_to_it(world: World) -> None:
    job = world.job("theirs")
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def write(state: str) -> None:
        given = {"job": job, "folder": world.folder.root}
        written = Assignment.model_validate(given).state(state)  # type: ignore[arg-type]
        world.folder.write(written.model_copy(update={"pid": other.pid, "key": job.key, "result": "there"}))

    write("running")

    def finish(outcome: SweepOutcome) -> None:
        if "ours" in outcome.done and "theirs" not in outcome.done:
            write("done")

    try:
        jobs = [job, world.job("ours"), world.job("behind", needs=("theirs",))]
        outcome = world.sweep(jobs, tick=finish)
    finally:
        other.communicate()
    assert sorted(outcome.done) == ["behind", "ours", "theirs"]
    assert outcome.done["theirs"].result == "there"


def others(world: World, count: int) -> list[Job]:
    """Jobs that another sweep has given to a scheduler."""
    jobs = [world.job(f"theirs{number}") for number in range(count)]
    for job in jobs:
        state = JobState.now(job.name, "queued", place="1", key=job.key)
        world.folder.write(state.model_copy(update={"pid": 1}))
    return jobs


def test_jobs_behind_any_number_of_those_that_others_run_are_begun(world: World) -> None:
    theirs = others(world, sweep.MAX_LOOKED_AT + 6)
    ours = [world.job("ours"), world.job("behind", needs=("ours", theirs[0].name))]

    def finish(outcome: SweepOutcome) -> None:
        if list(outcome.done) == ["ours"]:
            for job in theirs:
                world.folder.write(JobState.now(job.name, "done", key=job.key, how="done", result="there"))

    outcome = world.sweep([*theirs, *ours], minutes=0.5, tick=finish)
    assert outcome.left == ()
    order = list(outcome.done)
    assert sorted(order) == sorted(job.name for job in (*theirs, *ours))
    # It need not wait for theirs that it does not need: those are looked at again one by one.
    assert order[0] == "ours"
    assert order.index(theirs[0].name) < order.index("behind")


def test_jobs_that_others_run_are_looked_at_seldom(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, reads, read = others(world, 20), Counter[str](), SweepFolder.state

    def counted(folder: SweepFolder, job: str) -> JobState | None:
        reads[job] += 1
        return read(folder, job)

    monkeypatch.setattr(sweep, "OWNERS_A_SECOND", 10)
    monkeypatch.setattr(SweepFolder, "state", counted)
    outcome = world.sweep(theirs, minutes=0.025)
    assert len(outcome.left) == 20
    # At first each is, then 10 in each of 1.5 seconds.
    assert 20 < reads.total() <= 20 + 15 + 5


def test_what_another_sweep_made_otherwise_and_what_a_dead_process_has_claimed_is_made(world: World) -> None:
    for name, state in (("a", "done"), ("b", "running")):
        job = world.job(name)
        given = {"job": job, "folder": world.folder.root}
        written = Assignment.model_validate(given).state(state)  # type: ignore[arg-type]
        world.folder.write(
            written.model_copy(update={"pid": 1 << 22, "updated": time.time() + 60, "key": "other", "attempts": 1})
        )
    outcome = world.sweep([world.job("a"), world.job("b")])
    assert sorted(outcome.done) == ["a", "b"]
    assert world.state("b").attempts == 2


@pytest.mark.parametrize(
    ("fault", "transient"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (OSError(errno.ESTALE, "Stale file handle"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (type("ReadTimeout", (OSError,), {})(), True),
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (RuntimeError("CUDA out of memory"), False),
        (OutOfMemory("no memory"), False),
        (DataFault("a line is broken"), False),
        (UsageError("no such thing"), False),
        (MissingExtra("a", "b", "c"), False),
        (ZeroDivisionError(), False),
    ],
)
def test_which_faults_may_pass(fault: Exception, transient: bool) -> None:
    assert is_transient(fault) is transient
    wrapped = ValueError("something")
    wrapped.__cause__ = fault
    assert is_transient(wrapped) is transient
