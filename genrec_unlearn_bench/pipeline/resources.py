"""Time and memory of a block of work: measured, and exhausted memory as an error that names what to lower."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import OutOfMemory

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Reading", "enough_memory", "is_out_of_memory", "metered", "smaller"]

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


_SIGNS = ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate memory", "alloc_failed")
"""How torch's allocators, cuBLAS and the system say it where they raise a plain RuntimeError or OSError."""

_HALVED = ("rows_at_once", "batch_size", "micro_batch_size", "history_limit")
_SWITCHED_ON = ("gradient_checkpointing", "checkpointing")


def is_out_of_memory(fault: BaseException) -> bool:
    """Whether a fault says that memory ran out."""
    if isinstance(fault, MemoryError):
        return True
    return isinstance(fault, RuntimeError | OSError) and any(sign in str(fault).lower() for sign in _SIGNS)


@contextmanager
def enough_memory(work: str, *, device: str, configs: Mapping[str, BaseModel]) -> Iterator[None]:
    """Turn exhausted memory inside the block into OutOfMemory; other faults pass.

    Args:
        work: What the block does, as the message names it.
        configs: Option of the command line -> configuration that it changes.
    """
    try:
        yield
    except Exception as fault:
        if not is_out_of_memory(fault):
            raise
        _release(device)
        advice = [f"{option} {change}" for option, config in configs.items() for change in smaller(config)]
        advice += ["a smaller --scale", "another --device"]
        raise OutOfMemory(
            f"memory is exhausted on {device} during {work}: {(str(fault).strip() or 'no details').splitlines()[0]}",
            hint="finished stages are kept; run it again with one of: " + ", ".join(advice),
        ) from fault


def smaller(config: BaseModel) -> list[str]:
    """``name=value`` changes that take less memory, those that leave the result as it is first."""
    fields = dict(_leaves(config.model_dump()))
    found = []
    batch = next((value for name, value in fields.items() if name.rpartition(".")[2] == "batch_size"), None)
    for name in sorted(fields, key=_order):
        value, last = fields[name], name.rpartition(".")[2]
        if last == "rows_at_once" and value is None and isinstance(batch, int):
            found.append(f"{name}={max(1, batch // 8)}")
        elif last in _HALVED and isinstance(value, int) and value > 1:
            found.append(f"{name}={value // 2}")
        elif last in _SWITCHED_ON and value is False:
            found.append(f"{name}=true")
    return found


def _order(name: str) -> tuple[int, str]:
    ranks = (_HALVED[0], *_SWITCHED_ON, *_HALVED[1:])
    last = name.rpartition(".")[2]
    return (ranks.index(last) if last in ranks else len(ranks), name)


def _leaves(content: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _release(device: str) -> None:
    """Give what the failed work had cached back to the device, for the cells that follow."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
