"""Locks end with their owner, with the operating system's locks and without them."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import StorageError
from genrec_unlearn_bench.store import store
from genrec_unlearn_bench.store.store import held, is_free, try_lock
from tests.store.small_store import ended, in_child

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


class _Refusing:
    """A file system without flock."""

    def acquire(self, **options: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")


@pytest.fixture
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_system_lock", lambda path: _Refusing())
    monkeypatch.setattr(store, "RENEWED", 0.15)


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
    assert not is_free(target)
    os.kill(child, signal.SIGKILL)
    ended(child)
    began = time.monotonic()
    with held(target, waiting=lambda: None):
        assert time.monotonic() - began < 1
    assert is_free(target)


def test_without_flock_a_lock_is_kept_while_its_owner_lives_and_ends_soon_after(tmp_path: Path, no_flock: None) -> None:
    target = tmp_path / "stage"
    child = holding(target, tmp_path / "ready")
    time.sleep(0.6)
    assert try_lock(target, timeout=0.2) is None, "renewed four times by now"
    os.kill(child, signal.SIGKILL)
    ended(child)
    waited: list[bool] = []
    began = time.monotonic()
    with held(target, waiting=lambda: waited.append(True)):
        assert 0.1 < time.monotonic() - began < 5
    assert waited == [True]


def test_a_file_system_with_neither_locks_nor_links_is_refused(
    tmp_path: Path, no_flock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(StorageError, match="neither locks nor hard links"):
        try_lock(tmp_path / "stage")


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
