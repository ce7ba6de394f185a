"""The pool's side of one of its processes: starting it, giving it jobs, hearing its answers, stopping it."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from pydantic import ValidationError

from genrec_unlearn_bench.executors.executor import Ended, How
from genrec_unlearn_bench.executors.limits import resident_mib, stop_tree
from genrec_unlearn_bench.executors.serve import Answer, Assignment
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["Bound", "Heard", "PoolProcess", "Running"]

OPTION = "--cache-dir"


@dataclass(frozen=True)
class Bound:
    """What a process is bound to as long as it lives.

    Attributes:
        threads: CPU cores it was given.
        cores: Their numbers; empty where they could not be claimed, and the system places it.
        gpus: As ``CUDA_VISIBLE_DEVICES`` names them; None leaves that variable as it is.
    """

    threads: int
    cores: tuple[str, ...] = ()
    gpus: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Heard:
    """A line of a process; None when there will be no more."""

    process: PoolProcess
    line: str | None


@dataclass
class Running:
    """A job that a process is doing.

    Attributes:
        promised: Memory it may take, in MiB.
        stopped: Why the pool has stopped it, if it has.
        peak: Resident memory of the process at most, as far as it was looked at, in MiB.
    """

    job: Job
    attempt: int
    promised: int
    began: float
    stopped: How | None = None
    peak: float = 0.0


class PoolProcess:
    """One process. It does one job at a time."""

    def __init__(
        self, folder: SweepFolder, cache: Path, bound: Bound, ears: queue.SimpleQueue[Heard], work: str = ""
    ) -> None:
        self.bound = bound
        self.dataset = ""
        self.running: Running | None = None
        self.quitting = False
        words = ["--folder", str(folder.root), "--cache", str(cache), "--cores", *bound.cores]
        # Not the working directory on the path: a user's file might bear a library's name.
        command = [sys.executable, "-P", "-m", "genrec_unlearn_bench.executors.serve", *words]
        with guarded(folder.root, OPTION):
            (folder.root / "workers").mkdir(parents=True, exist_ok=True)
            said = (folder.root / "workers" / f"{os.getpid()}-{time.monotonic_ns()}.txt").open("wb")
            self.said = Path(said.name)
            with said:
                self._process = subprocess.Popen(  # noqa: S603
                    [*command, *(["--work", work] if work else [])],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    text=True,
                    encoding="utf-8",
                    env=_environment(bound),
                )
        # Both are there, as they were asked for as pipes.
        self._orders, self._answers = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        threading.Thread(target=self._hear, args=(ears,), daemon=True, name="pool-ears").start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def resident(self) -> float:
        """Resident memory with its children, in MiB."""
        return resident_mib(self.pid)

    def assign(self, running: Running, dataset: str) -> None:
        """Give it a job. A process that is gone by now is heard of as one that died."""
        self.running, self.dataset = running, dataset
        line = Assignment(job=running.job, attempt=running.attempt).model_dump_json() + "\n"
        with suppress(BrokenPipeError):
            self._orders.write(line)
            self._orders.flush()

    def quit(self) -> None:
        """Let it end: it does when its input ends, a job in the middle being stopped."""
        self.quitting = True
        with suppress(OSError):
            self._orders.close()

    def stop(self, grace: float) -> None:
        """End it and its children, politely for ``grace`` seconds."""
        self.quitting = True
        stop_tree(self.pid, grace)

    def stop_later(self, grace: float) -> None:
        """As ``stop``, without waiting for it."""
        threading.Thread(target=self.stop, args=(grace,), daemon=True, name="pool-stop").start()

    def gone(self, seconds: float) -> bool:
        """Whether it has ended within that time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def answer(self, line: str) -> Ended | None:
        """What a line of it says; None where that is no answer to its job."""
        try:
            ended = Answer.model_validate_json(line).ended()
        except ValidationError:
            return None
        return ended if self.running is not None and ended.job == self.running.job.name else None

    def obituary(self) -> str:
        """How it ended, and the last that was heard of it."""
        self.gone(5.0)
        code = self._process.returncode
        if code is not None and code < 0:
            how = f"by signal {signal.Signals(-code).name}" if -code in set(signal.Signals) else f"by signal {-code}"
        else:
            how = "and is not gone yet" if code is None else f"with exit code {code}"
        try:
            last = self.said.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-15:]
        except OSError:
            last = []
        return "\n".join([f"its process ended without a word, {how}", *last])

    @property
    def killed(self) -> bool:
        """Whether it was ended by SIGKILL, as the system does when memory runs out."""
        return self._process.returncode == -signal.SIGKILL

    def bury(self) -> None:
        """Close what is left of it. What it said is kept only where it said something."""
        self.quit()
        with suppress(OSError):
            if self.said.stat().st_size == 0:
                self.said.unlink()

    def _hear(self, ears: queue.SimpleQueue[Heard]) -> None:
        with self._answers as answers:
            for line in answers:
                ears.put(Heard(self, line))
        ears.put(Heard(self, None))


def _environment(bound: Bound) -> dict[str, str]:
    threads = str(bound.threads)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    found = {**os.environ, **dict.fromkeys(names, threads)}
    # Waiting threads sleep instead of spinning, as others compute on this machine.
    found.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if bound.gpus is not None:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(bound.gpus)
    return found
