"""Runs jobs on this machine: in this process, or each in a process of its own with limits of memory, GPUs and time.

Processes come from the standard library's fork server, which has imported torch once: a job starts in a tenth of a
second. submitit's local executor starts a fresh interpreter for each job, and neither watches memory nor hands out
GPUs; loky treats the whole pool as broken when one worker dies. Here a job that dies is one failed job: how it ended is
read from its state file, and its exit code tells the rest.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.executors.base import Ended, How
from genrec_unlearn_bench.executors.limits import Machine, resident_mib, stop_tree
from genrec_unlearn_bench.executors.task import Assignment, Work, ended_from, interruptible, perform
from genrec_unlearn_bench.executors.trackers import JobLog
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.grid.schedule import Job
from genrec_unlearn_bench.grid.state import OPTION, SweepFolder
from genrec_unlearn_bench.pipeline.stage import SessionCache

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

__all__ = ["InProcess", "Interrupts", "LocalProcesses"]

LOOK = 0.5
"""Seconds between two looks at what the jobs take."""
GRACE = 15.0
"""Seconds between a polite stop and a hard one. A draft that is left behind is removed by whoever computes it next."""
LARGE_SHARE = 0.5
"""Share of the machine's memory from which on a killed process is taken to have been killed for it."""
PRELOADED = ["torch", "sklearn.utils", "genrec_unlearn_bench.executors.local", "genrec_unlearn_bench.pipeline.run"]
"""Imported once, by the fork server. None of them starts threads or touches a GPU."""


class Interrupts:
    """Ctrl-C, pressed any number of times: the first interrupts, the second sets ``hurry``, others are ignored.

    Once it was pressed the process is about to end, and interrupts stay ignored: a further one must not cut that short.
    """

    def __init__(self) -> None:
        self.hurry = threading.Event()
        self._count = 0
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            # Not a handler of Python's: the interpreter's end would put the default action in its place.
            signal.signal(signal.SIGINT, signal.SIG_IGN if self._count else self._before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1:
            raise KeyboardInterrupt
        self.hurry.set()


class InProcess:
    """Runs one job after the other in this process; limits of minutes and memory are not enforced."""

    name = "in-process"
    detached = False

    def __init__(self, folder: SweepFolder, cache: Path, *, work: Work | None = None) -> None:
        self._folder = folder
        self._cache = cache
        self._work = work
        self._session = SessionCache()
        self._task = ""
        self._waiting: deque[Assignment] = deque()

    def has_capacity(self, job: Job) -> bool:
        """Whether nothing waits to be done."""
        return not self._waiting

    def submit(self, jobs: Sequence[Job], attempts: Sequence[int]) -> None:
        """Take jobs; ``ended`` does them."""
        for job, attempt in zip(jobs, attempts, strict=True):
            place = {"folder": self._folder.root, "cache": self._cache, "executor": self.name}
            self._waiting.append(Assignment.model_validate({"job": job, "attempt": attempt, **place}))

    def ended(self, timeout: float) -> list[Ended]:
        """Do the next job, whatever time that takes. Raises KeyboardInterrupt where the user stops it."""
        if not self._waiting:
            return []
        given = self._waiting.popleft()
        if given.job.request.task != self._task:
            # What the cells of a task share stays in memory; never two tasks at a time.
            self._task, self._session = given.job.request.task, SessionCache()
        done = perform(given, self._session, self._work)
        if done.how == "stopped":
            raise KeyboardInterrupt
        return [done]

    def close(self, hurry: threading.Event | None = None) -> None:
        """Forget what was not begun."""
        self._waiting.clear()


@dataclass
class _Running:
    """A job and its process; memory in MiB."""

    job: Job
    process: ForkServerProcess
    output: Path
    gpus: tuple[str, ...]
    promised: int
    began: float
    stopped: How | None = None
    peak: float = 0.0

    def stop(self, grace: float) -> None:
        """End the process and its children, politely for ``grace`` seconds."""
        pid = self.process.pid or 0
        stop_tree(pid, grace)
        with suppress(OSError):
            # What its children left behind is still in its process group.
            os.killpg(pid, signal.SIGKILL)


class LocalProcesses:
    """Runs jobs in processes of this machine.

    Args:
        processes: Jobs at a time; None for as many as there are cores for.
        work: ``module:function`` that does a job, in place of ``task.run_job``.
    """

    name = "local"
    detached = False

    def __init__(
        self,
        folder: SweepFolder,
        cache: Path,
        *,
        processes: int | None = None,
        machine: Machine | None = None,
        grace: float = GRACE,
        work: str = "",
    ) -> None:
        self._folder = folder
        self._cache = cache
        self._machine = machine or Machine()
        self._most = processes or self._machine.cores
        self._grace = grace
        self._work = work
        self._free_gpus = list(self._machine.gpus)
        self._running: dict[str, _Running] = {}
        self._alone: set[str] = set()
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([*PRELOADED[:-1], work.partition(":")[0]] if work else PRELOADED)

    def has_capacity(self, job: Job) -> bool:
        """Whether the job could start now beside those that run. Raises UsageError where it never could."""
        self._machine.check(job)
        busy = list(self._running.values())
        # What was killed, perhaps for its memory, is tried again with nothing beside it.
        alone = job.name in self._alone or any(one.job.name in self._alone for one in busy)
        cores = sum(one.job.resources.cores for one in busy) + job.resources.cores
        if len(busy) >= self._most or (busy and alone) or cores > self._machine.cores:
            return False
        if (self._machine.gpus_for(job) or 0) > len(self._free_gpus):
            return False
        return self._machine.has_memory(job, [(one.promised, resident_mib(one.process.pid or 0)) for one in busy])

    def submit(self, jobs: Sequence[Job], attempts: Sequence[int]) -> None:
        """Start jobs, one process each. Raises StorageError, and OSError where the system starts no process."""
        for job, attempt in zip(jobs, attempts, strict=True):
            place = {"folder": self._folder.root, "cache": self._cache, "executor": self.name, "work": self._work}
            given = Assignment.model_validate({"job": job, "attempt": attempt, **place})
            wanted = self._machine.gpus_for(job)
            gpus = tuple(self._free_gpus[: wanted or 0])
            output, began = self._folder.log(job.name).with_suffix(".out"), time.time()
            with guarded(output, OPTION):
                output.parent.mkdir(parents=True, exist_ok=True)
                process = self._context.Process(
                    target=_child, args=(given.model_dump_json(), str(output), None if wanted is None else gpus)
                )
                process.start()
            self._free_gpus = self._free_gpus[len(gpus) :]
            self._running[job.name] = _Running(job, process, output, gpus, self._machine.memory_for(job), began)

    def ended(self, timeout: float) -> list[Ended]:
        """Attempts that ended since the last call; waits up to ``timeout`` seconds for the first."""
        until = time.monotonic() + timeout
        while self._running:
            self._watch()
            wait = max(0.0, min(LOOK, until - time.monotonic()))
            gone = connection.wait([one.process.sentinel for one in self._running.values()], wait)
            if gone or wait == 0.0:
                return [self._over(one) for one in list(self._running.values()) if one.process.sentinel in gone]
        return []

    def close(self, hurry: threading.Event | None = None) -> None:
        """Stop what runs, politely until ``hurry`` is set or the grace is over. Finished stages stay."""
        for one in self._running.values():
            one.process.terminate()
        ends = time.monotonic() + self._grace
        while time.monotonic() < ends and not (hurry is not None and hurry.is_set()):
            if all(not one.process.is_alive() for one in self._running.values()):
                break
            time.sleep(0.05)
        for one in list(self._running.values()):
            one.stop(0.0)
            self._release(one)

    def _over(self, one: _Running) -> Ended:
        """How a job whose process is gone ended."""
        one.process.join()
        # Nothing of it is left, also where the fork server has died and not the job.
        one.stop(0.0)
        self._release(one)
        seconds = time.time() - one.began
        ended = ended_from(self._folder.state(one.job.name), one.began)
        if ended is not None and (ended.how != "stopped" or one.stopped is None):
            self._alone.discard(one.job.name)
            return ended
        if one.stopped is None:
            return self._died(one, seconds)
        need = one.job.resources
        if one.stopped == "over time":
            what = f"stopped after {seconds:.0f} s: it may take {need.minutes} minutes"
        else:
            what = f"stopped at {one.peak:.0f} MiB of memory: it may take {need.memory_mib} MiB"
        hint = "raise its minutes or memory_mib in the grid file; finished stages are kept"
        error = BenchError(what, hint=hint).render()
        self._log(one, error)
        return Ended(one.job.name, one.stopped, seconds, error=error)

    def _died(self, one: _Running, seconds: float) -> Ended:
        code = one.process.exitcode or 0
        known = -code in set(signal.Signals)
        how = f"by signal {signal.Signals(-code).name if known else -code}" if code < 0 else f"with exit code {code}"
        output = []
        with suppress(OSError):
            output = one.output.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-15:]
        error = f"its process ended without a word, {how}" + (f": {output[-1]}" if output else "")
        killed = code == -signal.SIGKILL
        large = one.peak > LARGE_SHARE * self._machine.total() or one.peak > one.promised
        if killed and large:
            error += f" (it had {one.peak:.0f} MiB of memory: perhaps the system killed it for that)"
        if killed or large:
            self._alone.add(one.job.name)
        self._log(one, "\n".join([error, *output]))
        return Ended(one.job.name, "died", seconds, error=error, transient=True)

    def _log(self, one: _Running, error: str) -> None:
        log = JobLog(self._folder.log(one.job.name))
        with suppress(BenchError, OSError):
            log.write(f"error: {error}")
        log.close()

    def _watch(self) -> None:
        """Stop jobs that have taken more than they may."""
        for one in self._running.values():
            need, resident = one.job.resources, resident_mib(one.process.pid or 0)
            one.peak = max(one.peak, resident)
            if one.stopped is not None:
                continue
            if need.minutes is not None and time.time() - one.began > need.minutes * 60:
                one.stopped = "over time"
            elif need.memory_mib is not None and resident > need.memory_mib:
                one.stopped = "over memory"
            if one.stopped is not None:
                # What grows beyond its memory gets no time to grow on.
                grace = self._grace if one.stopped == "over time" else min(2.0, self._grace)
                threading.Thread(target=one.stop, args=(grace,), daemon=True).start()

    def _release(self, one: _Running) -> None:
        del self._running[one.job.name]
        self._free_gpus += one.gpus
        with suppress(OSError):
            if one.output.stat().st_size == 0:
                one.output.unlink()


def _child(assignment: str, output: str, gpus: tuple[str, ...] | None) -> None:
    """Do an assignment in a process of its own, and end with it."""
    os.setsid()
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    faulthandler.enable()
    interruptible()
    # Nothing is left running when the sweep is killed.
    threading.Thread(target=_end_with_parent, daemon=True, name="parent").start()
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    with suppress(KeyboardInterrupt):
        perform(Assignment.model_validate_json(assignment))
    # Not through the interpreter's end: a library's threads may hang there, and everything is written.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        # A kernel that does not return must not keep the process, its memory and its locks.
        time.sleep(GRACE)
        os._exit(1)
