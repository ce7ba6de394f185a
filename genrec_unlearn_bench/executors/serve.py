"""A process of the local pool: takes jobs as JSON lines on its input, one after the other, answers each with a line.

It keeps the dataset between jobs. It ends when its input ends, so that nothing is left running when the sweep is
killed; a job in the middle is then stopped as politely as by a signal. Libraries may print what they like: the answers
go out on a copy of the output that nobody else knows.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.executors.executor import Ended
from genrec_unlearn_bench.executors.here import do_here
from genrec_unlearn_bench.executors.shelves import Shelves
from genrec_unlearn_bench.executors.worker import Work
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["GRACE", "Answer", "Assignment", "main"]

GRACE = 15.0
"""Seconds between a polite stop and a hard one. A draft that is left behind is removed by whoever computes it next."""


class Assignment(StrictModel):
    """What a process is given to do."""

    job: Job
    attempt: int


class Answer(StrictModel):
    """``Ended``, as it crosses the pipe."""

    job: str
    how: str
    seconds: float
    result: str = ""
    error: str = ""
    transient: bool = False
    storage: bool = False

    @classmethod
    def of(cls, ended: Ended) -> Answer:
        """The answer that says it."""
        return cls(**asdict(ended))

    def ended(self) -> Ended:
        """What it says."""
        return Ended(**self.model_dump())


def main(words: list[str] | None = None) -> int:
    """Serve until the input ends, or a job has failed: what it left in the process is nobody's to inherit."""
    given = _arguments(words)
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # The sweep hears Ctrl-C too and stops its processes itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    if given.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, given.cores)
    assignments: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(assignments,), daemon=True, name="listener").start()
    work = _named(given.work) if given.work else None
    shelves = Shelves()
    folder = SweepFolder(given.folder)
    try:
        while (line := assignments.get()) is not None:
            one = Assignment.model_validate_json(line)
            shelf = shelves.of(one.job)
            ended = do_here(
                one.job, folder, given.cache, attempt=one.attempt, executor=given.executor, shelf=shelf, work=work
            )
            answers.write(Answer.of(ended).model_dump_json() + "\n")
            answers.flush()
            if ended.how != "done":
                return 0
    except (KeyboardInterrupt, BrokenPipeError):
        # Nobody listens any more, or nothing was going on.
        pass
    return 0


def _listen(assignments: queue.SimpleQueue[str | None]) -> None:
    for line in sys.stdin:
        assignments.put(line)
    assignments.put(None)
    os.kill(os.getpid(), signal.SIGTERM)
    # A kernel that does not return must not keep the process, its memory and its locks.
    time.sleep(GRACE)
    os._exit(1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Once: a second one would cut short what the first has started.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _named(text: str) -> Work:
    module, _, name = text.partition(":")
    found: Callable[..., object] = getattr(importlib.import_module(module), name)
    return found


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A process of the local pool; bench sweep starts it.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--executor", default="local")
    parser.add_argument("--cores", type=int, nargs="*", default=[])
    parser.add_argument("--work", default="")
    return parser.parse_args(words)


if __name__ == "__main__":
    code = main()
    # Not through the interpreter's end: a library's threads may hang there, and everything is written.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
