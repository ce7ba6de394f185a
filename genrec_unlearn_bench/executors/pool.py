"""Runs jobs in a pool of processes on this machine, each on cores and GPUs of its own, as many as its memory holds.

The processes live on between jobs and keep the dataset. One whose job did not end well is not used again, and one that
dies takes nothing with it but its own job. What a job may use of time and memory is watched from here.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.executors.claims import Claims
from genrec_unlearn_bench.executors.executor import Ended, How
from genrec_unlearn_bench.executors.limits import cores_here
from genrec_unlearn_bench.executors.process import Bound, Heard, PoolProcess, Running
from genrec_unlearn_bench.executors.room import Machine, gpus_of, never_fits, room_in_memory
from genrec_unlearn_bench.executors.serve import GRACE
from genrec_unlearn_bench.executors.shelves import dataset_of
from genrec_unlearn_bench.executors.worker import STOPPED
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.log import JobLog
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["Pool"]

LOOK = 0.5
"""Seconds between two looks at what the jobs take."""

MUCH = 0.5
"""Share of the machine's memory from which on a killed process is taken to have been killed for it."""


class Pool:
    """Processes of this machine.

    Args:
        processes: Jobs at a time.
        work: ``module:function`` that does a job, in place of ``runs.grid.work:do``.
    """

    name = "local"
    returns_at_once = False

    def __init__(
        self,
        folder: SweepFolder,
        cache: Path,
        *,
        processes: int,
        machine: Machine | None = None,
        grace: float = GRACE,
        work: str = "",
    ) -> None:
        self._folder = folder
        self._cache = cache
        self._most = processes
        self._machine = machine or Machine()
        self._grace = grace
        self._work = work
        self._cores = Claims("core", (str(core) for core in cores_here()))
        self._gpus = Claims("gpu", self._machine.gpus)
        self._pool: list[PoolProcess] = []
        self._ears: queue.SimpleQueue[Heard] = queue.SimpleQueue()
        self._alone: set[str] = set()
        self._looked = 0.0

    def room_for(self, job: Job) -> bool:
        """Whether the job could start now beside those that run. Raises UsageError where it never could."""
        fault = never_fits(job, self._machine)
        if fault is not None:
            raise fault
        busy = list(self._busy())
        if len(busy) >= self._most or (busy and job.name in self._alone):
            return False
        if any(running.job.name in self._alone for _, running in busy):
            return False
        if sum(running.job.resources.cores for _, running in busy) + job.resources.cores > self._machine.cores:
            return False
        if not self._gpus_free(job):
            return False
        return room_in_memory(job, self._machine, [(running, process.resident) for process, running in busy])

    def submit(self, jobs: Sequence[Job], attempts: Sequence[int]) -> None:
        """Start jobs, one process each. Raises StorageError, and BenchError where the system starts no process."""
        for job, attempt in zip(jobs, attempts, strict=True):
            running = Running(job, attempt, self._machine.needs.of(job), time.monotonic())
            process = self._free(job) or self._started(job)
            process.assign(running, dataset_of(job))

    def ended(self, timeout: float) -> list[Ended]:
        """Attempts that ended since the last call; waits up to ``timeout`` seconds for the first."""
        until = time.monotonic() + timeout
        found: list[Ended] = []
        while not found and any(self._busy()):
            self._watch()
            wait = min(LOOK, until - time.monotonic())
            with suppress(queue.Empty):
                found += self._heard(self._ears.get(timeout=max(0.0, wait)))
                while True:
                    found += self._heard(self._ears.get_nowait())
            if wait <= 0:
                break
        return found

    def close(self) -> None:
        """Stop what runs, politely first, and give everything back. Finished stages stay."""
        try:
            for process in self._pool:
                process.quit()
            ends = time.monotonic() + self._grace
            for process in self._pool:
                process.gone(max(0.0, ends - time.monotonic()))
        finally:
            # Also when the user asks a second time.
            for process in list(self._pool):
                process.stop(0.0)
                self._remove(process)

    def _busy(self) -> Iterator[tuple[PoolProcess, Running]]:
        for process in self._pool:
            if process.running is not None:
                yield process, process.running

    def _idle(self) -> list[PoolProcess]:
        return [process for process in self._pool if process.running is None and not process.quitting]

    def _heard(self, heard: Heard) -> list[Ended]:
        process, running = heard.process, heard.process.running
        if heard.line is not None:
            ended = process.answer(heard.line)
            if running is None:
                return []
            if ended is None:
                # Neither an answer nor silence: whatever it is, it is not ours any more.
                process.stop_later(0.0)
                return []
            process.running = None
            if ended.how != "done":
                process.quit()
            if running.stopped is None or ended.how in ("done", "failed"):
                self._alone.discard(running.job.name)
                return [ended]
            return [self._over(running, running.stopped)]
        process.running = None
        if running is None:
            self._remove(process)
            return []
        ended = self._over(running, running.stopped) if running.stopped else self._died(process, running)
        self._remove(process)
        return [ended]

    def _over(self, running: Running, how: How) -> Ended:
        seconds = time.monotonic() - running.began
        need = running.job.resources
        errors = {
            "over time": f"stopped after {seconds:.0f} s: it may take {need.minutes} minutes",
            "over memory": f"stopped at {running.peak:.0f} MiB of memory: it may take {need.memory_mib} MiB",
        }
        hint = "raise its minutes or memory_mib in the grid file; finished stages are kept"
        error = BenchError(errors.get(how, STOPPED), hint=hint).render()
        self._log(running, error)
        return Ended(running.job.name, how, seconds, error=error)

    def _died(self, process: PoolProcess, running: Running) -> Ended:
        told = process.obituary()
        much = running.peak > MUCH * self._machine.total() or running.peak > running.promised
        if process.killed and much:
            told += f"\nit had {running.peak:.0f} MiB of memory: perhaps the system killed it for that"
        if process.killed or much:
            self._alone.add(running.job.name)
        self._log(running, told)
        seconds = time.monotonic() - running.began
        first, *last = told.splitlines()
        error = f"{first}: {last[-1]}" if last else first
        return Ended(running.job.name, "died", seconds, error=error, transient=True)

    def _log(self, running: Running, error: str) -> None:
        log = JobLog(self._folder.log(running.job.name), running.attempt)
        with suppress(BenchError, OSError):
            log.write("error", error)
        log.close()

    def _watch(self) -> None:
        """Stop jobs that have taken more than they may."""
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        for process, running in self._busy():
            need = running.job.resources
            running.peak = max(running.peak, resident := process.resident)
            if running.stopped is not None:
                continue
            if need.minutes is not None and now - running.began > need.minutes * 60:
                running.stopped = "over time"
            elif need.memory_mib is not None and resident > need.memory_mib:
                running.stopped = "over memory"
            if running.stopped is not None:
                # What grows beyond its memory gets no time to grow on.
                process.stop_later(self._grace if running.stopped == "over time" else min(2.0, self._grace))

    def _free(self, job: Job) -> PoolProcess | None:
        """An idle process that suits the job, one with its dataset if there is one."""
        gpus = gpus_of(job, self._machine)
        suited = [
            process
            for process in self._idle()
            if process.bound.threads == job.resources.cores
            and (len(process.bound.gpus) if process.bound.gpus is not None else None) == gpus
            # What earlier jobs left in a process counts against a limit.
            and (job.resources.memory_mib is None or process.resident < job.resources.memory_mib / 2)
        ]
        dataset = dataset_of(job)
        return next((process for process in suited if process.dataset == dataset), suited[0] if suited else None)

    def _started(self, job: Job) -> PoolProcess:
        """A new process for the job; idle ones give way where its cores or GPUs are among theirs."""
        for process in [process for process in self._pool if process.running is None and process.quitting]:
            if process.gone(1.0):
                self._remove(process)
        wanted = gpus_of(job, self._machine)
        gpus = None if wanted is None else self._taken(self._gpus, wanted)
        cores = self._taken(self._cores, job.resources.cores)
        # With nothing idle left: another sweep has the rest, and the system shares what there is.
        bound = Bound(job.resources.cores, cores or (), (gpus or ()) if wanted is not None else None)
        try:
            process = PoolProcess(self._folder, self._cache, bound, self._ears, self._work)
        except BaseException:
            self._cores.give_back(bound.cores)
            self._gpus.give_back(bound.gpus or ())
            raise
        self._pool.append(process)
        while len(self._pool) > self._most and self._idle():
            self._retire(self._idle()[0])
        return process

    def _taken(self, claims: Claims, count: int) -> tuple[str, ...] | None:
        found = claims.take(count)
        while found is None and self._idle():
            self._retire(self._idle()[0])
            found = claims.take(count)
        return found

    def _gpus_free(self, job: Job) -> bool:
        wanted = gpus_of(job, self._machine)
        if not wanted:
            return True
        suited: Callable[[PoolProcess], bool] = lambda process: len(process.bound.gpus or ()) == wanted  # noqa: E731
        if any(map(suited, self._idle())):
            return True
        found = self._gpus.take(wanted)
        self._gpus.give_back(found or ())
        idle = sum(len(process.bound.gpus or ()) for process in self._idle())
        return found is not None or idle >= wanted

    def _retire(self, process: PoolProcess) -> None:
        process.quit()
        if not process.gone(self._grace):
            process.stop(0.0)
        self._remove(process)

    def _remove(self, process: PoolProcess) -> None:
        if process in self._pool:
            self._pool.remove(process)
        self._cores.give_back(process.bound.cores)
        self._gpus.give_back(process.bound.gpus or ())
        process.bury()
