"""Events of many writers: none is lost, none is read twice, and a torn line spoils itself alone."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import StorageError
from genrec_unlearn_bench.grid import compaction
from genrec_unlearn_bench.grid.compaction import compact
from genrec_unlearn_bench.grid.event import Event, State
from genrec_unlearn_bench.grid.journal import Journal, host_name, latest
from genrec_unlearn_bench.grid.journal_reader import JournalReader


def event(job: str, state: State = "done", at: float = 1.0, **more: object) -> Event:
    return Event(time=at, job=job, state=state, **more)  # type: ignore[arg-type]


def write(journal: Journal, who: str, count: int) -> None:
    for index in range(count):
        journal.append(event(f"{who}-{index}", at=float(index)))


def dead_writer(folder: Path, who: str, count: int = 3) -> None:
    """A file whose writer is gone."""
    journal = Journal(folder)
    write(journal, who, count)
    journal.close()


def test_an_event_is_read_as_it_was_written_with_its_process_filled_in(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "events")
    journal.append(event("a/b", "failed", at=2.5, error="what\n  where: x", attempt=2, seconds=1.0))
    journal.append(event("a/b", "retried", at=2.6, host="n17", pid=9))
    first, second = journal.events()
    assert (first.host, first.pid) == (host_name(), os.getpid())
    assert first.error == "what\n  where: x"
    assert (second.host, second.pid) == ("n17", 9)


def test_nothing_is_there_before_something_happened(tmp_path: Path) -> None:
    assert Journal(tmp_path / "events").events() == []
    assert not (tmp_path / "events").exists()


def test_processes_and_threads_write_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    write(journal, "parent", 5)
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=write, args=(journal, f"child{i}", 50)) for i in range(3)]
    threads = [threading.Thread(target=write, args=(journal, f"thread{i}", 50)) for i in range(3)]
    for worker in [*children, *threads]:
        worker.start()
    for worker in [*children, *threads]:
        worker.join()
    assert len({found.job for found in journal.events()}) == 5 + 6 * 50
    assert len(list(tmp_path.glob("*.jsonl"))) == 4


def test_a_pickled_journal_writes_to_the_same_folder(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(event("a"))
    pickle.loads(pickle.dumps(journal)).append(event("b"))
    assert {found.job for found in journal.events()} == {"a", "b"}


def test_a_reader_gives_each_event_once_and_waits_for_half_a_line(tmp_path: Path) -> None:
    journal, reader = Journal(tmp_path), JournalReader(tmp_path)
    assert reader.fresh() == []
    journal.append(event("a"))
    assert [found.job for found in reader.fresh()] == ["a"]
    assert reader.fresh() == []
    path = next(tmp_path.glob("*.jsonl"))
    line = event("ü").model_dump_json().encode() + b"\n"
    with path.open("ab") as file:
        file.write(line[:20])
        file.flush()
        assert reader.fresh() == []
        dead_writer(tmp_path, "other", 1)
        assert [found.job for found in reader.fresh()] == ["other-0"]
        file.write(line[20:])
    assert [found.job for found in reader.fresh()] == ["ü"]


def test_a_line_that_is_no_event_is_passed_over(tmp_path: Path) -> None:
    dead_writer(tmp_path, "a", 1)
    path = next(tmp_path.glob("*.jsonl"))
    path.write_bytes(b'{"time": 1, "job": "old"}\n\n' + path.read_bytes() + b'{"time": 3.0, "job": "tor')
    assert [found.job for found in Journal(tmp_path).events()] == ["a-0"]


def test_the_last_event_of_a_job_is_by_time_and_an_end_wins_a_tie(tmp_path: Path) -> None:
    told = [event("a", "done", 5.0), event("a", "running", 1.0), event("b", "done", 2.0), event("b", "alive", 2.0)]
    told += [event("c", "failed", 3.0), event("c", "retried", 3.0)]
    states = {job: found.state for job, found in latest(told).items()}
    assert states == {"a": "done", "b": "done", "c": "retried"}


def test_a_full_disk_is_said_and_the_next_line_starts_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    journal.append(event("a"))
    real = journal._file

    class Full:
        def write(self, line: bytes) -> int:
            assert real is not None
            real.write(line[:10])
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            assert real is not None
            real.close()

    monkeypatch.setattr(journal, "_file", Full())
    with pytest.raises(StorageError, match="the disk is full"):
        journal.append(event("b"))
    journal.append(event("c", at=2.0))
    assert [found.job for found in journal.events()] == ["a", "c"]


def test_dead_writers_are_folded_and_live_ones_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "AT_ONCE", 3)
    for index in range(8):
        dead_writer(tmp_path, f"w{index}")
    alive = Journal(tmp_path)
    alive.append(event("alive"))
    before = {found.job for found in alive.events()}
    assert compact(tmp_path) == 7
    assert len(list(tmp_path.glob("*.jsonl"))) == 2
    alive.append(event("later"))
    after = [found.job for found in alive.events()]
    assert len(after) == len(set(after))
    assert set(after) == before | {"later"}
    assert compact(tmp_path) == 0


def test_of_the_heartbeats_of_an_attempt_the_last_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for at in range(5):
        journal.append(event("a", "alive", float(at)))
    journal.append(event("a", "alive", 9.0, attempt=2))
    journal.append(event("a", "done", 10.0, attempt=2))
    journal.close()
    dead_writer(tmp_path, "b")
    compact(tmp_path)
    assert [found.time for found in journal.events() if found.job == "a"] == [4.0, 9.0, 10.0]


def test_a_compaction_that_was_killed_counts_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(4):
        dead_writer(tmp_path, f"w{index}")
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "_remove", lambda folder, names: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            compact(tmp_path)
    assert len(list(tmp_path.glob("*.jsonl"))) == 5
    assert len(Journal(tmp_path).events()) == 12
    assert compact(tmp_path) == 4
    assert len(Journal(tmp_path).events()) == 12


def test_a_file_of_another_machine_is_folded_only_when_it_has_long_been_silent(tmp_path: Path) -> None:
    for index in range(2):
        dead_writer(tmp_path, f"w{index}")
    elsewhere = tmp_path / "n17-1-abc.jsonl"
    next(tmp_path.glob("*.jsonl")).rename(elsewhere)
    compact(tmp_path)
    assert elsewhere.exists()
    old = time.time() - 2 * compaction.QUIET_SECONDS
    os.utime(elsewhere, (old, old))
    compact(tmp_path)
    assert not elsewhere.exists()
    assert len(Journal(tmp_path).events()) == 6


def test_readers_and_writers_during_compactions(tmp_path: Path) -> None:
    """Six processes write, one folds all the time, one reads all the time: every event arrives."""
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=many_files, args=(tmp_path, f"w{i}")) for i in range(6)]
    for worker in writers:
        worker.start()
    reader, seen = JournalReader(tmp_path), set()
    while any(worker.is_alive() for worker in writers):
        compact(tmp_path)
        seen |= {found.job for found in reader.fresh()}
    compact(tmp_path)
    seen |= {found.job for found in reader.fresh()}
    assert len(seen) == 6 * 10 * 5
    assert len(Journal(tmp_path).events()) == 6 * 10 * 5


def many_files(folder: Path, who: str) -> None:
    for index in range(10):
        dead_writer(folder, f"{who}-{index}", 5)
