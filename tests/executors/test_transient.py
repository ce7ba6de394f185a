"""Which faults are tried again, and which never."""

from __future__ import annotations

import errno

import pytest

from genrec_unlearn_bench.errors import BenchError, DataFault, DataMissing, OutOfMemory, StorageError, UsageError
from genrec_unlearn_bench.executors.transient import PAUSES, is_transient, pause


class ReadTimeout(OSError):
    """As HTTP libraries have it: no error number."""


def caused(fault: Exception, cause: Exception) -> Exception:
    fault.__cause__ = cause
    return fault


@pytest.mark.parametrize(
    "fault",
    [
        OSError(errno.EIO, "Input/output error"),
        OSError(errno.ESTALE, "Stale file handle"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        TimeoutError("timed out"),
        ReadTimeout("read timed out"),
        RuntimeError("CUDA error: unspecified launch failure\nCompile with …"),
        RuntimeError("CUDA error: uncorrectable ECC error encountered"),
        RuntimeError("NCCL error: unhandled system error"),
        caused(BenchError("the encoder cannot be loaded"), ConnectionError("no route")),
        caused(StorageError("cannot write"), OSError(errno.ESTALE, "Stale file handle")),
    ],
)
def test_faults_of_the_surroundings_are(fault: Exception) -> None:
    assert is_transient(fault)


@pytest.mark.parametrize(
    "fault",
    [
        ValueError("loss is NaN"),
        ZeroDivisionError("a bug"),
        FileNotFoundError(errno.ENOENT, "No such file"),
        PermissionError(errno.EACCES, "Permission denied"),
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        UsageError("unknown task"),
        DataFault("a broken line"),
        OutOfMemory("memory is exhausted"),
        StorageError("cannot write: the disk is full"),
        caused(StorageError("cannot write"), OSError(errno.ENOSPC, "No space left on device")),
        caused(DataMissing("the dataset cannot be had"), ConnectionError("no route")),
        BenchError("the result breaks 3 invariants"),
    ],
)
def test_faults_of_the_job_are_not(fault: Exception) -> None:
    assert not is_transient(fault)


def test_what_was_hidden_does_not_count() -> None:
    fault = ValueError("unrelated")
    fault.__context__ = ConnectionError("no route")
    assert is_transient(fault)
    fault.__suppress_context__ = True
    assert not is_transient(fault)


def test_pauses_grow_to_an_end() -> None:
    assert [pause(attempt) for attempt in range(1, 6)] == [*PAUSES, PAUSES[-1]]
    assert list(PAUSES) == sorted(PAUSES)
