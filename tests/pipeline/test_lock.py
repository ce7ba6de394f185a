"""The lock that ships is the one that the repository installs from, and what differs from it is said and kept."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest

from genrec_unlearn_bench.pipeline import lock
from genrec_unlearn_bench.pipeline.environment import PACKAGES, arithmetic, locked_versions
from genrec_unlearn_bench.pipeline.lock import off_lock, told_off_lock
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD, record_text

ROOT = Path(__file__).parents[2]


def test_the_lock_in_the_package_is_the_repository_s() -> None:
    shipped = ROOT / "genrec_unlearn_bench" / "pipeline" / lock.FILE
    assert shipped.read_bytes() == (ROOT / "constraints.txt").read_bytes(), (
        "cp constraints.txt genrec_unlearn_bench/pipeline/lock.txt"
    )


def test_every_package_that_a_record_lists_is_locked() -> None:
    assert not {name for name in PACKAGES if name not in locked_versions()}


def test_another_version_is_told_and_a_local_build_of_the_same_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {**locked_versions(), "torch": f"{locked_versions()['torch']}+cu999", "numpy": "1.0"}

    def version(name: str) -> str:
        if name == "scipy":
            raise importlib.metadata.PackageNotFoundError(name)
        return here[name]

    monkeypatch.setattr(lock.metadata, "version", version)
    assert [str(found) for found in off_lock()] == [f"numpy 1.0 (lock {locked_versions()['numpy']})"]
    assert told_off_lock().startswith("environment differs from the lock: numpy 1.0 (lock ")
    monkeypatch.setattr(lock.metadata, "version", locked_versions().__getitem__)
    assert told_off_lock() == ""


def test_sums_are_rounded_by_what_is_told() -> None:
    assert arithmetic().keys() == {"cpu_capability", "torch_blas", "numpy_blas", "interop_threads"}
    assert "unknown" not in arithmetic().values()


def test_older_records_keep_their_bytes_and_newer_ones_say_more() -> None:
    path = sorted((ROOT / "leaderboard" / "results").rglob(RECORD))[0]
    text = path.read_text(encoding="utf-8")
    record = RunRecord.model_validate_json(text)
    assert record_text(record) == text
    more = record.model_copy(update={"off_lock": {"torch": "2.13.0"}, "arithmetic": {"torch_blas": "mkl"}})
    assert json.loads(record_text(more))["off_lock"] == {"torch": "2.13.0"}
    assert RunRecord.model_validate_json(record_text(more)) == more
