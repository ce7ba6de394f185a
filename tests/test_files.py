"""Atomic folders: all or nothing, with or without something there before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from genrec_unlearn_bench.files import atomic_folder, folder_digest, write_json


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_folder_appears_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "run"
    with atomic_folder(target, "--results-dir") as draft:
        (draft / "a").write_text("1")
        assert not target.exists()
    assert names(target) == ["a"]
    assert names(target.parent) == ["run"]


def test_replace_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "run"
    for text in ("old", "new"):
        with atomic_folder(target, "--results-dir", replace=True) as draft:
            (draft / text).write_text(text)
    assert names(target) == ["new"]
    assert names(tmp_path) == ["run"]


def test_without_replace_the_first_stays(tmp_path: Path) -> None:
    target = tmp_path / "run"
    for text in ("old", "new"):
        with atomic_folder(target, "--results-dir") as draft:
            (draft / text).write_text(text)
    assert names(target) == ["old"]
    assert names(tmp_path) == ["run"]


def test_a_failure_keeps_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "run"
    with atomic_folder(target, "--results-dir", replace=True) as draft:
        (draft / "old").write_text("old")

    def fail() -> None:
        with atomic_folder(target, "--results-dir", replace=True) as draft:
            (draft / "new").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert names(target) == ["old"]
    assert names(tmp_path) == ["run"]


def test_json_has_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"loss": float("nan")})
    write_json(tmp_path / "x.json", {"brand": "Café"})
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == {"brand": "Café"}


def test_folder_digest_depends_on_names_and_contents() -> None:
    base = folder_digest({"a": "1", "b": "2"})
    assert folder_digest({"b": "2", "a": "1"}) == base
    assert folder_digest({"a": "2", "b": "1"}) != base
    assert folder_digest({"a": "1"}) != base
