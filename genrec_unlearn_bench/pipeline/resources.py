"""Time and memory of a block of work: measured, and exhausted memory as an error that names what to lower."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from genrec_unlearn_bench.errors import OutOfMemory

INTERVAL = 0.02
"""Seconds between two looks at the resident memory; Python holds the lock longer than that only in single kernels."""

MIB = float(1 << 20)

MEMORY_HINT = (
    "finished stages are kept; run it again with a smaller batch (--set batch_size=64, --set-backbone "
    "training.batch_size=64, training.rows_at_once=8 or training.gradient_checkpointing=true where the backbone has "
    "them), a smaller --scale or another --device"
)


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


_SIGNS = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "alloc_failed",
    "std::bad_alloc",
    "failed to map segment",
    "can't start new thread",
)
"""How torch's allocators, cuBLAS and the system (``ulimit -v`` included) say it where they raise other errors."""


def is_out_of_memory(fault: BaseException) -> bool:
    """Whether a fault says that memory ran out."""
    if isinstance(fault, MemoryError):
        return True
    return isinstance(fault, RuntimeError | OSError | ImportError) and any(
        sign in str(fault).lower() for sign in _SIGNS
    )


@contextmanager
def enough_memory(work: str, *, device: str) -> Iterator[None]:
    """Turn exhausted memory inside the block into OutOfMemory; other faults pass.

    Args:
        work: What the block does, as the message names it.
    """
    try:
        yield
    except Exception as fault:
        if not is_out_of_memory(fault):
            raise
        if device.startswith("cuda"):
            import torch

            # What the failed work had cached is given back, for the cells that follow.
            torch.cuda.empty_cache()
        raise OutOfMemory(
            f"memory is exhausted on {device} during {work}: {(str(fault).strip() or 'no details').splitlines()[0]}",
            hint=MEMORY_HINT,
        ) from fault
