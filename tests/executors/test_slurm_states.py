"""What Slurm says of jobs that have not said a last word themselves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from genrec_unlearn_bench.executors.slurm_states import SlurmState, slurm_states, waiting
from genrec_unlearn_bench.grid.event import Event
from genrec_unlearn_bench.grid.journal import Journal, latest
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
from tests.executors.fake_slurm import FakeSlurm


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm(tmp_path / "bin", monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return SweepFolder(tmp_path / "sweep")


def tell(folder: SweepFolder, job: str, state: str, place: str, ago: float = 1000.0) -> None:
    folder.slurm.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder.events)
    journal.append(Event(time=time.time() - ago, job=job, state=state, executor="slurm", place=place))  # type: ignore[arg-type]
    journal.close()


def last(folder: SweepFolder) -> dict[str, Event]:
    return latest(Journal(folder.events).events())


def test_nothing_is_asked_where_nothing_is_open(folder: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert slurm_states(folder) == {}
    folder.slurm.mkdir(parents=True)
    tell(folder, "a", "done", "1")
    assert slurm_states(folder) == {}


def test_squeue_speaks_where_there_is_no_accounting(folder: SweepFolder, slurm: FakeSlurm) -> None:
    for number, name in enumerate(["waits", "runs", "cancelled", "killed", "ended", "late", "gone"]):
        tell(folder, name, "running" if number else "queued", f"7_{number}", ago=5.0 if name == "late" else 1000.0)
    slurm.queue(
        "7_0|PENDING|Dependency",
        "7_1|RUNNING|None",
        "7_2|CANCELLED|None",
        "7_3|OUT_OF_MEMORY|OutOfMemory",
        "7_4|COMPLETED|None",
        "7_5|COMPLETED|None",
    )
    found = slurm_states(folder)
    assert found["waits"] == SlurmState("7_0", "PENDING", "Dependency")
    assert waiting(found) == {"waits": "7_0", "runs": "7_1"}
    told = last(folder)
    assert {name: told[name].state for name in ("waits", "runs", "late")} == {
        "waits": "queued",
        "runs": "running",
        "late": "running",
    }
    assert all(told[name].state == "lost" for name in ("cancelled", "killed", "ended", "gone"))
    assert "7_2: it was cancelled" in told["cancelled"].error
    assert told["cancelled"].transient
    assert "memory_mib" in told["killed"].error
    assert "no longer in the queue" in told["gone"].error
    # Nothing is told twice.
    assert set(slurm_states(folder)) == {"waits", "runs", "late"}


def test_a_preempted_job_is_lost_by_its_own_word_and_queued_again(folder: SweepFolder, slurm: FakeSlurm) -> None:
    tell(folder, "preempted", "lost", "3")
    tell(folder, "cancelled", "lost", "4")
    tell(folder, "leaving", "lost", "5")
    slurm.queue("3|PENDING|BeginTime", "4|CANCELLED|None", "5|COMPLETING|None")
    assert waiting(slurm_states(folder)) == {"preempted": "3"}
    assert {name: event.state for name, event in last(folder).items()} == {
        "preempted": "retried",
        "cancelled": "lost",
        "leaving": "lost",
    }
    slurm.queue("3|CANCELLED|None")
    assert slurm_states(folder)["preempted"].state == "CANCELLED"
    assert last(folder)["preempted"].state == "lost"


def test_what_failed_before_it_could_speak_shows_its_error_output(folder: SweepFolder, slurm: FakeSlurm) -> None:
    tell(folder, "a", "queued", "3")
    slurm.queue("3|FAILED|NonZeroExitCode")
    (folder.slurm / "3_0_log.err").write_text("bash: module: command not found\n")
    slurm_states(folder, write=False)
    assert last(folder)["a"].state == "queued"
    slurm_states(folder)
    assert last(folder)["a"].state == "failed"
    assert last(folder)["a"].error.endswith("module: command not found")


def test_accounting_is_asked_first(folder: SweepFolder, slurm: FakeSlurm) -> None:
    tell(folder, "a", "running", "5_1")
    tell(folder, "b", "queued", "5_2")
    tell(folder, "c", "running", "6")
    slurm.accounts("5_1|CANCELLED by 1000|n1", "5_[2-9%4]|PENDING|None assigned", "6|NODE_FAIL|n2")
    assert {name: state.state for name, state in slurm_states(folder).items()} == {
        "a": "CANCELLED",
        "b": "PENDING",
        "c": "NODE_FAIL",
    }
    assert "its node failed" in last(folder)["c"].error


def test_silence_decides_nothing(folder: SweepFolder, slurm: FakeSlurm) -> None:
    tell(folder, "a", "running", "5")
    found = slurm_states(folder)
    assert found["a"].state == "UNKNOWN"
    assert waiting(found) == {"a": "5"}
    assert last(folder)["a"].state == "running"
