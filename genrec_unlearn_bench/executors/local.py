"""Runs jobs on this machine, each in a process of its own with limits of memory, GPUs and time.

Processes come from the standard library's fork server, which has imported torch once: a job starts in a tenth of a
second. (submitit's local executor starts a fresh interpreter each time, watches no memory and hands out no GPUs.) A job
that dies is one failed job: how it ended is read from its state file, and its exit code tells the rest.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil

from genrec_unlearn_bench.errors import BenchError, StorageError, UsageError
from genrec_unlearn_bench.executors.job_progress import JobProgress
from genrec_unlearn_bench.executors.task import Assignment, interruptible, leave, perform
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.grid.state import OPTION, How, JobState, SweepFolder, tail
from genrec_unlearn_bench.pipeline.environment import allowed_cores

MIB = 1 << 20
BY_SCALE = {"smoke": 1024, "small": 3072, "paper": 8192, "official": 24576}
"""MiB assumed of a job whose grid names no memory."""
GRACE = 15.0
"""Seconds between a polite stop and a hard one. A draft that is left behind is removed by whoever computes it next."""
PRELOADED = ["torch", "sklearn.utils", "genrec_unlearn_bench.executors.local", "genrec_unlearn_bench.pipeline.run"]
"""Imported once, by the fork server. None of them starts threads or touches a GPU."""


def gpus_here() -> tuple[str, ...]:
    """GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them; torch is not needed to know."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        # Everything behind the first negative number is hidden.
        names = takewhile(lambda name: not name.startswith("-"), map(str.strip, visible.split(",")))
        return tuple(filter(None, names))
    command = [shutil.which("nvidia-smi") or "nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(listed.stdout.split())


@dataclass(frozen=True)
class Machine:
    """What local jobs may use together: all cores and GPUs, and the memory that is available when the sweep starts."""

    cores: int = field(default_factory=allowed_cores)
    gpus: tuple[str, ...] = field(default_factory=gpus_here)
    memory_mib: float = field(default_factory=lambda: psutil.virtual_memory().available / MIB)

    def check(self, job: Job) -> None:
        """Raise UsageError for a job that asks for more than there is."""
        need = job.resources
        amounts = [
            (need.cores, self.cores, "cores"),
            (need.gpus, len(self.gpus), "GPUs"),
            (need.memory_mib or 0, self.memory_mib, "MiB of memory"),
        ]
        faults = [f"{wanted} {unit}, and {there:.0f} may be used" for wanted, there, unit in amounts if wanted > there]
        if faults:
            hint = "lower its resources in the grid file, or use another machine or executor"
            raise UsageError(f"the job {job.name!r} can never start here: it needs {'; '.join(faults)}", hint=hint)

    def gpus_for(self, job: Job) -> int:
        """GPUs to give to a job: on a machine with GPUs one, even if its grid asks for none; 0 where its request names
        the CPU, or a GPU by number."""
        device = job.request.device
        return 0 if device == "cpu" or ":" in device else job.resources.gpus or min(1, len(self.gpus))


def memory_for(job: Job) -> int:
    """MiB that a job is promised: by its grid, else a guess by scale."""
    scale = job.request.scale or ("smoke" if job.request.task.startswith("demo") else "small")
    return job.resources.memory_mib or BY_SCALE[scale]


@dataclass
class _Running:
    job: Job
    process: ForkServerProcess
    output: Path
    gpus: tuple[str, ...]
    began: float
    stopped: How | None = None
    peak: float = 0.0
    """MiB of the process and its children."""

    def tree(self) -> list[psutil.Process]:
        """The process and its children; empty once it is gone."""
        try:
            process = psutil.Process(self.process.pid)
            return [process, *process.children(recursive=True)]
        except psutil.Error:
            return []

    def limit(self, grace: float) -> None:
        """Measure the job, and stop it where it takes more time or memory than it may."""
        need, resident = self.job.resources, 0.0
        for process in self.tree():
            with suppress(psutil.Error):
                resident += process.memory_info().rss / MIB
        self.peak = max(self.peak, resident)
        if self.stopped is not None:
            return
        if need.minutes is not None and time.time() - self.began > need.minutes * 60:
            self.stopped = "over time"
        elif need.memory_mib is not None and resident > need.memory_mib:
            # What grows beyond its memory gets no time to grow on.
            self.stopped, grace = "over memory", min(2.0, grace)
        if self.stopped is not None:
            threading.Thread(target=self.stop, args=(grace,), daemon=True).start()

    def stop(self, grace: float) -> None:
        """End the process and its children, politely for ``grace`` seconds."""
        tree = self.tree()
        if grace > 0 and tree:
            with suppress(psutil.Error):
                tree[0].terminate()
            psutil.wait_procs(tree[:1], timeout=grace)
        for process in tree:
            with suppress(psutil.Error):
                process.kill()
        with suppress(OSError):
            # What its children left behind is still in its process group.
            if self.process.pid:
                os.killpg(self.process.pid, signal.SIGKILL)

    def exit_report(self) -> str:
        """Why the job ended, which it could not write itself."""
        need, had = self.job.resources, f"{time.time() - self.began:.0f} s, {self.peak:.0f} MiB of memory"
        if self.stopped is None:
            what = f"its process ended without a word, with exit code {self.process.exitcode} ({had})"
            return "\n".join([what, *tail(self.output, 5)])
        limit = f"{need.minutes} minutes" if self.stopped == "over time" else f"{need.memory_mib} MiB"
        what = f"stopped ({had}): it may take {limit}"
        hint = "raise its minutes or memory_mib in the grid file; finished stages are kept"
        return BenchError(what, hint=hint).render()


class LocalProcesses:
    """Runs jobs in processes of this machine, ``processes`` at a time, or as many as there are cores for."""

    def __init__(
        self,
        folder: SweepFolder,
        *,
        processes: int | None = None,
        machine: Machine | None = None,
        grace: float = GRACE,
        work: str = "",
    ) -> None:
        self._folder = folder
        self._machine = machine or Machine()
        self._most = processes or self._machine.cores
        self._grace = grace
        self._work = work
        self._free_gpus = list(self._machine.gpus)
        self._running: dict[str, _Running] = {}
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([*PRELOADED[:-1], work.partition(":")[0]] if work else PRELOADED)

    def has_capacity(self, job: Job) -> bool:
        """Whether the job could start now beside those that run. Raises UsageError where it never could."""
        self._machine.check(job)
        busy = self._running.values()
        # A job alone on the machine may always try. Of the others each holds what it was promised, taken or not: two
        # large cells that start in the same minute would both see an empty machine.
        memory = sum(max(memory_for(one.job), one.peak) for one in busy) + memory_for(job)
        return not busy or (
            len(busy) < self._most
            and sum(one.job.resources.cores for one in busy) + job.resources.cores <= self._machine.cores
            and self._machine.gpus_for(job) <= len(self._free_gpus)
            and memory <= self._machine.memory_mib
        )

    def start(self, job: Job) -> None:
        """Start a job whose needs are done. Raises StorageError, and OSError where the system starts no process."""
        given = Assignment(job=job, folder=self._folder.root, work=self._work)
        gpus = tuple(self._free_gpus[: self._machine.gpus_for(job)])
        output, began = self._folder.log(job.name).with_suffix(".out"), time.time()
        with guarded(output, OPTION):
            output.parent.mkdir(parents=True, exist_ok=True)
            process = self._context.Process(target=_child, args=(given.model_dump_json(), str(output), gpus))
            process.start()
        self._free_gpus = self._free_gpus[len(gpus) :]
        self._running[job.name] = _Running(job, process, output, gpus, began)

    def ended(self, timeout: float) -> list[JobState]:
        """Attempts that ended since the last call; waits up to ``timeout`` seconds for the first."""
        for one in self._running.values():
            one.limit(self._grace)
        gone = connection.wait([one.process.sentinel for one in self._running.values()], timeout)
        return [self._over(one) for one in list(self._running.values()) if one.process.sentinel in gone]

    def close(self) -> None:
        """Stop what runs: politely for the time of grace, or until an interrupt comes. Finished stages stay."""
        running, ends = list(self._running.values()), time.monotonic() + self._grace
        try:
            for one in running:
                one.process.terminate()
            for one in running:
                one.process.join(max(0.0, ends - time.monotonic()))
        finally:
            for one in running:
                self._release(one)

    def _over(self, one: _Running) -> JobState:
        one.process.join()
        self._release(one)
        ended = self._folder.state(one.job.name)
        if ended is not None and ended.ends(one.began) and (ended.how != "stopped" or one.stopped is None):
            return ended
        error = one.exit_report()
        with suppress(StorageError):
            JobProgress(self._folder.log(one.job.name)).info(f"error: {error}")
        how, seconds = one.stopped or "died", time.time() - one.began
        return JobState.now(one.job.name, "lost", how=how, seconds=seconds, error=error)

    def _release(self, one: _Running) -> None:
        # Nothing of it is left, also where the fork server has died and not the job.
        one.stop(0.0)
        del self._running[one.job.name]
        self._free_gpus += one.gpus
        with suppress(OSError):
            if one.output.stat().st_size == 0:
                one.output.unlink()


def _child(assignment: str, output: str, gpus: tuple[str, ...]) -> None:
    os.setsid()
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    faulthandler.enable()
    interruptible()
    # Nothing is left running when the sweep is killed.
    threading.Thread(target=_end_with_parent, daemon=True, name="parent").start()
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    with suppress(KeyboardInterrupt):
        perform(Assignment.model_validate_json(assignment))
    leave(0)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        # A kernel that does not return must not keep the process, its memory and its locks.
        time.sleep(GRACE)
        os._exit(1)
