"""Measures a block of work: wall-clock and peak memory, and nothing of what came before or after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Reading", "metered"]

INTERVAL = 0.02
"""Seconds between two looks at the resident memory; Python holds the lock longer than that only in single kernels."""

MIB = float(1 << 20)


@dataclass
class Reading:
    """Filled in when the block ends.

    Attributes:
        seconds: Wall-clock, with the GPU's queue drained at both ends.
        peak_memory_mib: Peak resident memory of the process on CPU, peak allocated memory of the device on GPU.
    """

    seconds: float = 0.0
    peak_memory_mib: float = 0.0


@contextmanager
def metered(device: str) -> Iterator[Reading]:
    """Measure the block. The reading is complete once the block has ended, also when it failed."""
    reading = Reading()
    with _gpu_memory(device, reading) if device.startswith("cuda") else _resident_memory(reading):
        began = time.perf_counter()
        try:
            yield reading
        finally:
            if device.startswith("cuda"):
                import torch

                torch.cuda.synchronize(device)
            reading.seconds = time.perf_counter() - began


@contextmanager
def _gpu_memory(device: str, reading: Reading) -> Iterator[None]:
    import torch

    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    try:
        yield
    finally:
        reading.peak_memory_mib = torch.cuda.max_memory_allocated(device) / MIB


@contextmanager
def _resident_memory(reading: Reading) -> Iterator[None]:
    import psutil

    process = psutil.Process()
    done = threading.Event()
    peak = [process.memory_info().rss]

    def watch() -> None:
        while not done.wait(INTERVAL):
            peak[0] = max(peak[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        reading.peak_memory_mib = max(peak[0], process.memory_info().rss) / MIB
