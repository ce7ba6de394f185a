"""The jobs that wait: their order, what a failure takes along, and a large grid in little time."""

from __future__ import annotations

import time
from pathlib import Path

from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.waiting import Waiting
from tests.executors.light_work import job


def names(waiting: Waiting) -> list[str]:
    return [one.name for one in waiting.ready()]


def make(*pairs: tuple[str, str]) -> dict[str, Job]:
    return {name: job(name, Path("nowhere"), needs=tuple(needs.split())) for name, needs in pairs}


def test_jobs_come_in_order_as_their_needs_are_done() -> None:
    jobs = make(("a", ""), ("b", "a"), ("c", ""), ("d", "a b"), ("e", "gone"))
    waiting = Waiting(list(jobs.values()))
    # What is no job of this sweep is done already.
    assert names(waiting) == ["a", "c", "e"]
    waiting.take(jobs["c"])
    waiting.take(jobs["a"])
    assert names(waiting) == ["e"]
    waiting.done(jobs["a"])
    assert names(waiting) == ["b", "e"]
    waiting.take(jobs["b"])
    waiting.done(jobs["b"])
    assert names(waiting) == ["d", "e"]
    assert len(waiting) == 2
    assert [one.name for one in waiting.left()] == ["d", "e"]


def test_a_failure_takes_along_what_needs_it() -> None:
    jobs = make(("a", ""), ("b", "a"), ("c", "b x"), ("x", ""), ("y", "x"))
    waiting = Waiting(list(jobs.values()))
    waiting.take(jobs["a"])
    assert [one.name for one in waiting.failed(jobs["a"])] == ["b", "c"]
    waiting.take(jobs["x"])
    waiting.done(jobs["x"])
    assert names(waiting) == ["y"]
    assert len(waiting) == 1


def test_a_pause_keeps_a_job_back() -> None:
    jobs = make(("a", ""), ("b", ""))
    waiting = Waiting(list(jobs.values()))
    assert waiting.pausing() is None
    waiting.take(jobs["a"])
    waiting.again(jobs["a"], 0.05)
    assert names(waiting) == ["b"]
    assert 0 < (waiting.pausing() or 0) <= 0.05
    time.sleep(0.06)
    assert names(waiting) == ["a", "b"]


def test_twenty_thousand_jobs_take_no_time() -> None:
    model = job("model", Path("nowhere"))
    needs = [(f"job{number // 50 * 50}",) if number % 50 else () for number in range(20_000)]
    jobs = [model.model_copy(update={"name": f"job{number}", "needs": of}) for number, of in enumerate(needs)]
    began = time.perf_counter()
    waiting = Waiting(jobs)
    for _ in range(200):
        first = next(waiting.ready())
        waiting.take(first)
        waiting.done(first)
    # A hundredth of that on a free core.
    assert time.perf_counter() - began < 10
