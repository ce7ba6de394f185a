"""Seconds and memory of one stage after the other, in one process."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

__all__ = ["Meter", "Spent", "can_reset", "peak_mib"]

_MIB = 1 << 20


@dataclass(frozen=True)
class Spent:
    """What one stage took.

    Attributes:
        seconds: Wall-clock.
        cpu: Processor seconds of this process, all threads.
        peak: Largest resident memory during the stage, MiB; where the system cannot reset its mark, of the process so
            far.
        after: Resident memory at its end, MiB.
        rise: By how much the peak lay above the memory at the beginning, MiB.
    """

    stage: str
    seconds: float
    cpu: float
    peak: float
    after: float
    rise: float


@dataclass
class Meter:
    """Collects stages and says each one as it ends."""

    loud: bool = True
    stages: list[Spent] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        _reset()
        before = psutil.Process().memory_info().rss / _MIB
        begin, cpu = time.perf_counter(), time.process_time()
        yield
        seconds, used, peak = time.perf_counter() - begin, time.process_time() - cpu, peak_mib()
        spent = Spent(name, seconds, used, peak, psutil.Process().memory_info().rss / _MIB, max(peak - before, 0.0))
        self.stages.append(spent)
        if self.loud:
            print(
                f"{name:32s} {spent.seconds:8.1f} s {spent.cpu:8.1f} cpu {spent.peak:8.0f} MiB peak "
                f"{spent.after:8.0f} after",
                flush=True,
            )

    @property
    def peak(self) -> float:
        """Largest resident memory of any stage, MiB."""
        return max(spent.peak for spent in self.stages)


def peak_mib() -> float:
    """Largest resident memory since the last reset, MiB."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / _MIB if sys.platform == "darwin" else largest / 1024


def can_reset() -> bool:
    """Whether the system can forget an earlier peak, as Linux can; elsewhere a stage shows the process's."""
    return _reset()


def _reset() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True
