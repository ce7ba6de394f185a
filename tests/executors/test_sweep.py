"""A sweep does what can be done: order, needs, failures, retries, refusals, interruptions, under every executor."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from genrec_unlearn_bench.executors.executor import Ended, Executor
from genrec_unlearn_bench.grid.elsewhere import Elsewhere
from genrec_unlearn_bench.grid.event import Event
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.journal import Journal
from genrec_unlearn_bench.grid.log import read_log
from genrec_unlearn_bench.grid.sweep import SweepOutcome, Watcher
from tests.executors.conftest import World


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


def test_every_executor_comes_to_the_same_results(world: World, executor: Callable[[], Executor]) -> None:
    ended: list[str] = []
    watcher = Watcher(ended=lambda job, outcome: ended.append(job.name))
    outcome = world.sweep(grid(world), executor(), watcher=watcher)
    assert sorted(outcome.done) == sorted(ended) == sorted(job.name for job in grid(world))
    assert (outcome.failed, outcome.skipped, outcome.left) == ({}, {}, ())
    for seed in (0, 1):
        assert all(ended.index(f"original{seed}") < ended.index(f"{name}{seed}") for name in ("filter", "npo"))
    alone = World(world.root / "alone", world.told)
    alone.sweep(grid(alone), alone.in_process())
    assert records(world.root / "results") == records(world.root / "alone" / "results")
    assert len(records(world.root / "results")) == 6
    assert Path(outcome.done["tracer0"].result, "result.json").is_file()
    assert [event.state for event in world.events("npo1")] == ["queued", "running", "done"]


def test_a_failed_job_in_the_middle_stops_only_what_needs_it(world: World, executor: Callable[[], Executor]) -> None:
    jobs = grid(world, tracer={"ends": "fault"}, filter={"ends": "bug"})
    jobs.append(world.job("on-tracer", needs=("tracer0",)))
    jobs.append(world.job("on-that", needs=("on-tracer", "npo1")))
    outcome = world.sweep(jobs, executor())
    assert sorted(outcome.done) == ["filter1", "npo0", "npo1", "original0", "original1", "tracer1"]
    fault, bug = outcome.failed["tracer0"], outcome.failed["filter0"]
    assert fault.error == "a line is broken\n  where: items.csv:7\n  hint:  mend it"
    assert (fault.attempts, bug.attempts) == (1, 1)
    assert bug.error.startswith("ZeroDivisionError: a bug\n  where: light_work.py:")
    # The report shows the end of the log, with the traceback.
    assert any("raise DataFault" in line for line in fault.tail)
    assert any("raise ZeroDivisionError" in line for line in bug.tail)
    assert outcome.skipped == {
        "on-tracer": "it needs tracer0, which failed: a line is broken",
        "on-that": "it needs tracer0, which failed: a line is broken",
    }
    assert world.events("on-that")[-1].state == "skipped"
    # Issued again, what is done is found, and what failed is tried again.
    again = world.sweep(jobs, executor())
    assert sorted(again.failed) == ["filter0", "tracer0"]
    assert read_log(world.folder.log("tracer0"))[-1].attempt == 2


def test_transient_faults_are_tried_again_and_no_others(world: World, executor: Callable[[], Executor]) -> None:
    jobs = [
        world.job("once", ends="nfs once"),
        world.job("always", ends="network"),
        world.job("fault", ends="fault once"),
    ]
    outcome = world.sweep(jobs, executor(), retries=2)
    assert sorted(outcome.done) == ["once"]
    assert {name: failure.attempts for name, failure in outcome.failed.items()} == {"always": 3, "fault": 1}
    assert [event.state for event in world.events("once")] == [
        *("queued", "running", "failed", "retried"),
        *("queued", "running", "done"),
    ]
    lines = read_log(world.folder.log("once"))
    assert [line.attempt for line in lines if line.event == "begin"] == [1, 2]
    assert "Stale file handle" in next(line.text for line in lines if line.event == "error")


def test_a_file_server_that_stays_away_ends_the_sweep(world: World) -> None:
    outcome = world.sweep([world.job("one", ends="nfs"), world.job("two")], retries=1)
    assert outcome.storage.startswith("cannot write: ")
    assert len(read_log(world.folder.log("one"))) > 0
    assert [event.state for event in world.events("one")].count("retried") == 1
    assert (outcome.failed, "one" in outcome.left) == ({}, True)


def test_a_full_disk_ends_the_sweep_and_the_next_call_goes_on(world: World, executor: Callable[[], Executor]) -> None:
    jobs = grid(world, filter={"ends": "full once"})
    outcome = world.sweep(jobs, executor())
    assert outcome.storage.startswith("cannot write: the disk is full\n  where: ")
    assert outcome.failed == {}
    assert "filter0" in outcome.left
    assert set(outcome.done) | set(outcome.left) == {job.name for job in jobs}
    assert set(world.sweep(jobs, executor()).done) == {job.name for job in jobs}


def test_what_can_never_start_here_fails_with_the_reason(world: World) -> None:
    jobs = [world.job("wide", cores=64), world.job("big", memory_mib=1 << 30), world.job("small")]
    outcome = world.sweep(jobs, world.pool(1))
    assert sorted(outcome.done) == ["small"]
    assert "it needs 64 cores, and 1 may be used" in outcome.failed["wide"].error
    assert "MiB of memory" in outcome.failed["big"].error


def test_a_bound_on_the_time_leaves_the_rest(world: World) -> None:
    outcome = world.sweep(grid(world), minutes=0.0)
    assert outcome.done == {}
    assert len(outcome.left) == 8


def test_needs_in_a_circle_are_a_fault_of_the_suite(world: World) -> None:
    with pytest.raises(Exception, match="jobs wait for each other: a, b"):
        world.sweep([world.job("a", needs=("b",)), world.job("b", needs=("a",))])


def test_an_interrupt_stops_what_runs_and_keeps_the_rest(world: World) -> None:
    def stop(running: dict[str, float], outcome: SweepOutcome, elsewhere: Elsewhere) -> None:
        if outcome.done and len(running) == 2 and all(world.events(name)[-1].state == "running" for name in running):
            raise KeyboardInterrupt

    jobs = [world.job("quick"), world.job("one", ends="hangs"), world.job("two", ends="hangs"), world.job("three")]
    pool = world.pool(2)
    began = time.monotonic()
    outcome = world.sweep(jobs, pool, watcher=Watcher(tick=stop))
    assert time.monotonic() - began < 20
    assert outcome.interrupted
    assert (sorted(outcome.done), sorted(outcome.left)) == (["quick"], ["one", "three", "two"])
    assert world.events("one")[-1].state == "lost"
    assert read_log(world.folder.log("one"))[-1].text.startswith("stopped after")
    assert pool._pool == []


def test_a_job_that_runs_elsewhere_is_left_to_others(world: World) -> None:
    journal = Journal(world.folder.events)
    # This very process is alive, so it counts as somebody who is at it.
    journal.append(Event(time=time.time(), job="theirs", state="running"))
    order: list[str] = []

    def finish(running: dict[str, float], outcome: SweepOutcome, elsewhere: Elsewhere) -> None:
        if "ours" in outcome.done and not order:
            order.append("told")
            journal.append(Event(time=time.time(), job="theirs", state="done", result="there"))

    asked: list[str] = []

    def is_done(job: Job) -> Path:
        asked.append(job.name)
        return Path("there")

    jobs = [world.job("theirs"), world.job("ours"), world.job("behind", needs=("theirs",))]
    outcome = world.sweep(jobs, watcher=Watcher(tick=finish), is_done=is_done)
    assert sorted(outcome.done) == ["behind", "ours"]
    assert outcome.elsewhere == {"theirs": "there"}
    assert asked == ["theirs"]


def test_what_another_sweep_says_is_checked(world: World) -> None:
    elsewhere = Elsewhere(world.folder.events)
    Journal(world.folder.events).append(Event(time=time.time(), job="a", state="done", result="there"))
    assert sorted(world.sweep([world.job("a")], elsewhere=elsewhere, is_done=lambda job: None).done) == ["a"]


def test_a_job_of_a_dead_process_is_free(world: World) -> None:
    Journal(world.folder.events).append(Event(time=time.time(), job="a", state="running", pid=1 << 22))
    assert sorted(world.sweep([world.job("a")]).done) == ["a"]
    assert world.events("a")[-1].attempt == 2


class Narrow:
    """An executor with room for four jobs, of which a large one takes all; each ends at the next look."""

    name = "narrow"
    returns_at_once = False

    def __init__(self) -> None:
        self.order: list[str] = []
        self.running: list[Job] = []

    def room_for(self, job: Job) -> bool:
        return sum(one.resources.cores for one in self.running) + job.resources.cores <= 4

    def submit(self, jobs: Sequence[Job], attempts: Sequence[int]) -> None:
        self.running += jobs
        self.order += [job.name for job in jobs]

    def ended(self, timeout: float) -> list[Ended]:
        return [Ended(self.running.pop(0).name, "done", 0.0)]

    def close(self) -> None:
        pass


def test_small_jobs_overtake_a_large_one_for_a_while_only(world: World) -> None:
    jobs = [world.job("first"), world.job("large", cores=4)]
    jobs += [world.job(f"small{number:02}") for number in range(60)]
    narrow = Narrow()
    assert len(world.sweep(jobs, narrow).done) == len(jobs)
    # Three start beside the first, and more as those end; then the machine is left to the large one.
    assert 4 <= narrow.order.index("large") <= 20
    small = [name for name in narrow.order if name.startswith("small")]
    assert small == sorted(small)


def test_what_is_handed_to_a_scheduler_is_left_to_it(world: World) -> None:
    class Away(Narrow):
        returns_at_once = True

        def close(self) -> None:
            raise AssertionError("what was handed over goes on")

    away = Away()
    outcome = world.sweep(grid(world), away)
    assert (outcome.handed, outcome.left, outcome.done) == (8, (), {})
    assert away.order == [job.name for job in grid(world)]
