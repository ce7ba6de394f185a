"""Digests of input files: kept between processes, and never those of another content."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from genrec_unlearn_bench.data import source_files
from genrec_unlearn_bench.data.source_files import file_digest, model_digest


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of digests; every file counts as large and as long unchanged."""
    monkeypatch.setenv("GENREC_UNLEARN_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(source_files, "SMALLEST", 1)
    monkeypatch.setattr(source_files, "SETTLED", -1.0)
    return tmp_path / "cache" / "file_digests.json"


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def another_process() -> None:
    source_files._digest.cache_clear()


def test_an_unchanged_file_is_read_once(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reviews.json"
    path.write_bytes(b"first")
    assert file_digest(path) == digest(b"first")
    another_process()
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read again"))
        assert file_digest(path) == digest(b"first")
    assert list(json.loads(kept.read_text()).values()) == [digest(b"first")]


def test_a_change_that_hides_its_time_and_size_is_seen(kept: Path, tmp_path: Path) -> None:
    path = tmp_path / "reviews.json"
    path.write_bytes(b"first")
    before = path.stat()
    file_digest(path)
    time.sleep(0.05)  # Change times have the kernel's tick; SETTLED is there for that.
    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    another_process()
    assert file_digest(path) == digest(b"other")


def test_a_file_that_was_just_written_is_not_kept(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "SETTLED", 60.0)
    path = tmp_path / "reviews.json"
    path.write_bytes(b"first")
    assert file_digest(path) == digest(b"first")
    assert not kept.exists()


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"x": 3}'])
def test_a_damaged_file_of_digests_counts_as_empty(kept: Path, tmp_path: Path, content: bytes) -> None:
    kept.parent.mkdir()
    kept.write_bytes(content)
    path = tmp_path / "reviews.json"
    path.write_bytes(b"first")
    assert file_digest(path) == digest(b"first")
    assert digest(b"first") in kept.read_text()


def test_a_cache_folder_that_cannot_be_written_stops_nothing(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("in the way")
    path = tmp_path / "reviews.json"
    path.write_bytes(b"first")
    assert file_digest(path) == digest(b"first")


def test_a_model_counts_by_names_and_contents(kept: Path, tmp_path: Path) -> None:
    for name in ("config.json", "sub/model.safetensors"):
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_text(name)
    before = model_digest(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("read me")
    (tmp_path / "model" / "onnx").mkdir()
    (tmp_path / "model" / "onnx" / "model.onnx").write_text("the same weights")
    another_process()
    assert model_digest(tmp_path / "model") == before
    (tmp_path / "model" / "sub" / "model.safetensors").write_text("other")
    assert model_digest(tmp_path / "model") != before
