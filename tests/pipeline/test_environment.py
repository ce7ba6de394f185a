"""Environment and bookkeeping of a run: devices, determinism, package versions, meter, and log of a stage."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.pipeline import environment
from genrec_unlearn_bench.pipeline.environment import (
    MIB,
    PACKAGES,
    arithmetic,
    default_threads,
    describe,
    determinism,
    locked_versions,
    metered,
    resolve_device,
    version_mismatches,
)
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import LOSSES, RECORD, record_text
from genrec_unlearn_bench.pipeline.stage import StageLog, read_notes
from genrec_unlearn_bench.progress import Progress

ROOT = Path(__file__).parents[2]


def test_devices() -> None:
    assert resolve_device("cpu") == "cpu"
    assert resolve_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("abacus", "meta", "mps:x"):
        with pytest.raises(UsageError):
            resolve_device(name)
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no CUDA device"):
            resolve_device("cuda:0")


def test_a_device_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert resolve_device("cuda:1") == "cuda:1"
    with pytest.raises(UsageError, match="there is no cuda:2"):
        resolve_device("cuda:2")


def test_threads_come_from_the_variable_then_from_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert default_threads() >= 1


def test_determinism_is_put_back_and_leaves_the_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    threads = torch.get_num_threads()
    with determinism(2):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 2
        torch.manual_seed(1)
        torch.rand(5)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.rand(3), expected)


def test_description_names_the_versions_that_matter() -> None:
    found = describe("cpu", threads=1)
    assert {"torch", "transformers", "numpy"} <= set(found.packages) <= set(PACKAGES)
    assert found.packages["torch"] == torch.__version__
    assert found.precision == "fp32"
    assert found.device_name


def test_the_lock_in_the_package_is_the_repository_s() -> None:
    shipped = ROOT / "genrec_unlearn_bench" / "pipeline" / environment.VERSIONS_FILE
    assert shipped.read_bytes() == (ROOT / "constraints.txt").read_bytes(), (
        "cp constraints.txt genrec_unlearn_bench/pipeline/versions.txt"
    )


def test_every_package_that_a_record_lists_is_locked() -> None:
    assert not {name for name in PACKAGES if name not in locked_versions()}


def test_another_version_is_a_mismatch_and_a_local_build_of_the_same_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {**locked_versions(), "torch": f"{locked_versions()['torch']}+cu999", "numpy": "1.0"}

    def version(name: str) -> str:
        if name == "scipy":
            raise importlib.metadata.PackageNotFoundError(name)
        return here[name]

    monkeypatch.setattr(environment.metadata, "version", version)
    assert version_mismatches() == {"numpy": ("1.0", locked_versions()["numpy"])}


def test_the_record_names_what_sums_are_rounded_by() -> None:
    assert arithmetic().keys() == {"cpu_capability", "torch_blas", "numpy_blas", "blas_kernels", "interop_threads"}
    assert "unknown" not in arithmetic().values()


def test_kernels_chosen_by_hand_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")
    words = "from genrec_unlearn_bench.pipeline.environment import arithmetic; print(arithmetic()['blas_kernels'])"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert "Nehalem" in done.stdout or platform.machine() != "x86_64" or "openblas" not in arithmetic()["numpy_blas"]


def test_older_records_keep_their_bytes_and_newer_ones_say_more() -> None:
    path = sorted((ROOT / "leaderboard" / "results").rglob(RECORD))[0]
    text = path.read_text(encoding="utf-8")
    record = RunRecord.model_validate_json(text)
    assert record_text(record) == text
    assert '"original_over_sasrec": null' in record_text(RunRecord(**dict(record) | {"original_over_sasrec": None}))
    more = record.model_copy(update={"off_lock": {"torch": "2.13.0"}, "arithmetic": {"torch_blas": "mkl"}})
    assert json.loads(record_text(more))["off_lock"] == {"torch": "2.13.0"}
    assert RunRecord.model_validate_json(record_text(more)) == more


def test_published_rows_of_a_seed_share_their_recommenders() -> None:
    """A key does not hold the kernels: begun on one kind of processor and finished on another, rows are no pairs."""
    digests: dict[tuple[str, ...], set[str]] = {}
    for path in (ROOT / "leaderboard" / "results").rglob(RECORD):
        record = RunRecord.model_validate_json(path.read_text(encoding="utf-8"))
        cell = record.cell
        for stage in record.stages:
            if stage.name in ("original", "retrain"):
                block = (cell.task, cell.backbone, cell.suite, cell.scale, f"seed {cell.seed}", stage.name)
                digests.setdefault(block, set()).add(stage.digest)
    assert digests
    assert {block: found for block, found in digests.items() if len(found) > 1} == {}


def test_memory_that_is_gone_by_the_end_is_still_seen() -> None:
    with metered("cpu") as quiet:
        pass
    with metered("cpu") as loud:
        block = np.ones(int(256 * MIB // 8))
        for _ in range(20):
            block += 1.0
        del block
    assert loud.peak_memory_mib - quiet.peak_memory_mib > 200
    assert loud.seconds > quiet.seconds > 0


def test_a_failing_block_is_read_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="broken"), metered("cpu") as reading:
        raise ValueError("broken")
    assert reading.seconds > 0
    assert reading.peak_memory_mib > 1
    assert threading.active_count() == before


def test_steps_and_notes_stay_with_the_stage(tmp_path: Path) -> None:
    outer = Progress()
    log = StageLog(outer=outer)
    assert list(log.track("soft", [1, 2])) == [1, 2]
    log.log("soft", 0, {"forget": 1.5, "retain": 2.0})
    log.log("soft", 1, {"forget": float("nan")})
    log.note("moved", 3)
    log.note("overlap", [0.5, float("inf")])
    log.write(tmp_path)
    assert (outer.steps, outer.notes, outer.diverged) == ([], {}, False)
    lines = [json.loads(line) for line in (tmp_path / LOSSES).read_text().splitlines()]
    assert lines == [
        {"stage": "soft", "step": 0, "losses": {"forget": 1.5, "retain": 2.0}},
        {"stage": "soft", "step": 1, "losses": {"forget": None}},
    ]
    assert read_notes(tmp_path) == {"diverged": True, "steps": 2, "notes": {"moved": 3, "overlap": [0.5, None]}}


def test_a_silent_stage_leaves_empty_files(tmp_path: Path) -> None:
    StageLog(outer=Progress()).write(tmp_path)
    assert (tmp_path / LOSSES).read_text() == ""
    assert read_notes(tmp_path) == {"diverged": False, "steps": 0, "notes": {}}
