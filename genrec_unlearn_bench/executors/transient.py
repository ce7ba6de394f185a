"""Which faults another attempt may not meet: a network that hiccups, a file server that restarts, a GPU that fell over.

Everything else is the job's own and would come back: wrong data, wrong calls, losses that are not finite, memory that
does not suffice, a full disk. Those are never tried again by themselves.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from genrec_unlearn_bench.errors import DataFault, OutOfMemory, ProtocolMismatch, UsageError
from genrec_unlearn_bench.pipeline.memory import is_out_of_memory

__all__ = ["is_transient", "pause"]

_CODES = frozenset(
    getattr(errno, name)
    for name in (
        "EIO",
        "EREMOTEIO",
        "ESTALE",
        "ETIMEDOUT",
        "ECONNRESET",
        "ECONNABORTED",
        "ECONNREFUSED",
        "ENETDOWN",
        "ENETUNREACH",
        "ENETRESET",
        "EHOSTDOWN",
        "EHOSTUNREACH",
        "EAGAIN",
    )
    if hasattr(errno, name)
)

_GPU = (
    "unspecified launch failure",
    "launch timed out",
    "uncorrectable ecc",
    "hardware error",
    "gpu has fallen off the bus",
    "devices are busy or unavailable",
    "device is busy or unavailable",
    "cuda driver error: unknown",
    "nccl remote process exited",
    "nccl communicator was aborted",
    "unhandled system error",
)
"""How CUDA and NCCL name faults of the device, its driver or the network between devices. An illegal address or a
failed assertion in a kernel is not among them: those are faults of the code."""

_NETWORK = frozenset(["ConnectionError", "ConnectTimeout", "ReadTimeout", "Timeout", "ChunkedEncodingError"])
"""Errors of HTTP libraries, which give them no error number."""

_OWN = (UsageError, DataFault, OutOfMemory, ProtocolMismatch)

PAUSES = (2.0, 10.0, 60.0, 300.0)
"""Seconds before the second, third … attempt."""


def is_transient(fault: BaseException) -> bool:
    """Whether another attempt may not meet this fault, by it and by what it came from."""
    if isinstance(fault, _OWN) or is_out_of_memory(fault):
        return False
    return any(_passes(cause) for cause in _chain(fault))


def pause(attempt: int) -> float:
    """Seconds to wait after attempt number ``attempt`` (from 1): growing, so that what is down has time to come up."""
    return PAUSES[min(attempt, len(PAUSES)) - 1]


def _passes(fault: BaseException) -> bool:
    if isinstance(fault, ConnectionError | TimeoutError):
        return True
    if isinstance(fault, OSError):
        return fault.errno in _CODES or (fault.errno is None and type(fault).__name__ in _NETWORK)
    if isinstance(fault, RuntimeError):
        text = str(fault).lower()
        return any(sign in text for sign in _GPU)
    return False


def _chain(fault: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = fault
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        hidden = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or hidden
