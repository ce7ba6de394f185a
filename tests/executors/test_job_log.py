"""A job's log: whole lines whatever happens, and its tail for reports."""

from __future__ import annotations

import math
import threading
from pathlib import Path

from genrec_unlearn_bench.executors.job_progress import JobProgress, WatchedStore
from genrec_unlearn_bench.grid.log import JobLog, read_log, tail


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "job.jsonl"
    log = JobLog(path, 1)
    log.write("begin", "attempt 1")
    log.write("steps", stage="original", step=3, losses={"forget": 1.5, "retain": math.nan})
    log.write("error", "what\n  where: there")
    first, steps, error = read_log(path)
    assert (first.event, first.attempt, first.text) == ("begin", 1, "attempt 1")
    assert (steps.stage, steps.step, steps.losses) == ("original", 3, {"forget": 1.5, "retain": None})
    assert error.told().endswith("error: what\n  where: there")
    assert tail(path, 2) == [error.told().splitlines()[0], "  where: there"]
    assert steps.told().endswith("original step 3 forget 1.5, retain nan")


def test_a_torn_line_is_closed_by_the_next_attempt_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "job.jsonl"
    log = JobLog(path, 1)
    log.write("say", "whole")
    log.close()
    with path.open("ab") as file:
        file.write(b'{"time": 1.0, "attempt": 1, "eve')
    again = JobLog(path, 2)
    again.write("say", "after")
    assert [(line.attempt, line.text) for line in read_log(path)] == [(1, "whole"), (2, "after")]
    assert path.read_bytes().count(b"\n") == 3


def test_there_need_be_no_log(tmp_path: Path) -> None:
    assert read_log(tmp_path / "none.jsonl") == []
    assert tail(tmp_path / "none.jsonl") == []


def test_two_writers_do_not_cut_each_others_lines(tmp_path: Path) -> None:
    path = tmp_path / "job.jsonl"

    def write(attempt: int) -> None:
        log = JobLog(path, attempt)
        for number in range(200):
            log.write("say", f"{number} " + "x" * 200)

    threads = [threading.Thread(target=write, args=(attempt,)) for attempt in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_log(path)) == 400


def test_the_tail_of_a_long_log_needs_its_end_alone(tmp_path: Path) -> None:
    path = tmp_path / "job.jsonl"
    log = JobLog(path, 1)
    for number in range(2000):
        log.write("say", f"line {number} " + "x" * 100)
    assert [row.split()[2] for row in tail(path, 3)] == ["1997", "1998", "1999"]


def test_progress_tells_the_stage_and_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "job.jsonl"
    log = JobLog(path, 1)
    progress = JobProgress(log)
    store = WatchedStore(tmp_path / "cache", progress, log)
    seen: list[str] = []

    def compute(folder: Path) -> None:
        (folder / "file").write_text("x")
        for step in progress.track("train", range(3)):
            seen.append(progress.standing)
            progress.follow("soft", step, {"loss": float(step)})
        progress.follow("soft", 4, {"loss": math.inf})
        progress.info("warning: a thing")

    assert progress.standing == ""
    stored = store.stage("original", {"a": 1}, compute)
    assert store.stage("original", {"a": 1}, compute).cached
    assert seen == ["original · train 0/3", "original · train 1/3", "original · train 2/3"]
    assert progress.standing == ""
    lines = [(line.event, line.stage, line.text) for line in read_log(path)]
    assert lines == [
        ("stage", "original", "is computed"),
        # Of many steps a few, and every one that is not finite.
        ("steps", "soft", ""),
        ("warning", "soft", "a loss is not finite"),
        ("warning", "", "a thing"),
        ("stage", "original", f"stored as {stored.key} after 0.0 s"),
    ]
