"""Locks end with their owner, with the operating system's locks and without them."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from pathlib import Path

import pytest

from genrec_unlearn_bench.store.store import held, try_lock
from tests.store.small_store import ended, in_child

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def holding(target: Path, ready: Path) -> int:
    """A process that takes the lock and keeps it for ever."""

    def work() -> None:
        release = try_lock(target)
        assert release is not None
        ready.touch()
        time.sleep(60)
        release()

    child = in_child(work)
    while not ready.exists():
        time.sleep(0.005)
    return child


def test_a_lock_is_held_by_one_and_ends_with_a_killed_owner(tmp_path: Path) -> None:
    target = tmp_path / "stage"
    child = holding(target, tmp_path / "ready")
    assert try_lock(target) is None
    os.kill(child, signal.SIGKILL)
    ended(child)
    began = time.monotonic()
    with held(target, waiting=lambda: None):
        assert time.monotonic() - began < 1


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_without_flock_a_lock_is_a_file_and_ends_with_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(handle: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refused)
    target = tmp_path / "stage"
    child = holding(target, tmp_path / "ready")
    assert try_lock(target, timeout=0.2) is None
    os.kill(child, signal.SIGKILL)
    ended(child)
    waited: list[bool] = []
    with held(target, waiting=lambda: waited.append(True)):
        assert try_lock(target) is None
    assert {path.name for path in tmp_path.iterdir()} == {"ready"}


def test_locks_leave_no_file_and_still_let_one_in_at_a_time(tmp_path: Path) -> None:
    target, counter = tmp_path / "stage", tmp_path / "counter"
    counter.write_text("0")

    def count() -> None:
        for _ in range(50):
            with held(target, waiting=lambda: None, poll=0.001):
                counter.write_text(str(int(counter.read_text()) + 1))

    children = [in_child(count) for _ in range(4)]
    assert [ended(child) for child in children] == [0] * 4
    assert counter.read_text() == "200"
    assert list(tmp_path.iterdir()) == [counter]
