"""Atomic folders, refusals of the file system, and text that cannot act on a terminal."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import BenchError, StorageError, UsageError, printable
from genrec_unlearn_bench.files import (
    WRITTEN,
    atomic_folder,
    atomic_text,
    folder_digest,
    guarded,
    storage_error,
    write_json,
    write_outputs,
)


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


def test_outputs_replace_outputs_and_nothing_else(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"

    def write(text: str) -> None:
        write_outputs({one: text.encode(), two: text.encode()}, tmp_path, "--out")

    for text in ("a b", "c", "c", "d"):
        write(text)
        assert (one.read_text(), two.read_text()) == (text, text)
    assert len((tmp_path / WRITTEN).read_text().split()) == 3
    # An earlier output, also after git or LaTeX has changed its white space; an empty file holds nothing.
    for mine in ("a  b\r\n", "", "e"):
        two.write_text(mine)
        write("e")
    for theirs in ("ab", "e f"):
        two.write_text(theirs)
        with pytest.raises(UsageError, match="two exists and was not made by bench"):
            write("g")
        assert (one.read_text(), two.read_text()) == ("e", theirs)


def test_outputs_are_written_though_the_list_cannot_be(tmp_path: Path) -> None:
    (tmp_path / WRITTEN).mkdir()
    write_outputs({tmp_path / "one": b"1"}, tmp_path, "--out")
    with pytest.raises(UsageError):
        write_outputs({tmp_path / "one": b"2"}, tmp_path, "--out")
    assert (tmp_path / "one").read_text() == "1"


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


@pytest.mark.parametrize("mask", [0o002, 0o022, 0o077])
def test_files_of_a_folder_have_the_permissions_of_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with atomic_folder(tmp_path / "run", "--results-dir") as draft:
            (draft / "deep").mkdir(mode=0o700)
            (draft / "deep" / "per_user.parquet").touch(mode=0o600)
            (draft / "link").symlink_to("deep")
    finally:
        os.umask(before)
    run = tmp_path / "run"
    assert (run / "deep" / "per_user.parquet").stat().st_mode & 0o777 == 0o666 & ~mask
    assert (run / "deep").stat().st_mode & 0o777 == run.stat().st_mode & 0o777 == 0o777 & ~mask


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_copy_to_a_full_disk_names_the_disk_and_not_the_source(tmp_path: Path) -> None:
    source, disk = tmp_path / "weights", tmp_path / "disk"
    source.write_bytes(b"0" * 200_000)
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        with (
            pytest.raises(StorageError, match="the disk is full") as caught,
            atomic_folder(disk / "run", "--results-dir") as draft,
        ):
            shutil.copy2(source, draft / "weights")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert str(caught.value.where).startswith(f"{disk}/")


@pytest.mark.parametrize("code", [errno.ELOOP, errno.ENAMETOOLONG, errno.EMFILE, errno.ENOMEM, errno.EIO])
def test_refusals_of_the_system_are_told_with_a_place_and_a_hint(tmp_path: Path, code: int) -> None:
    with pytest.raises(StorageError) as caught, guarded(tmp_path, "--cache-dir"):
        raise OSError(code, os.strerror(code))
    assert caught.value.where == str(tmp_path)
    assert "--cache-dir" in str(caught.value.hint)
    assert storage_error(ValueError("no fault of a disk"), tmp_path, "--cache-dir") is None


def test_names_of_300_characters_are_errors_for_users(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="too long"):
        atomic_text(tmp_path / ("x" * 300) / "state.json", "{}", "--results-dir")


def test_control_and_bidi_characters_and_broken_encodings_are_escaped() -> None:
    assert printable("a\x1b[2Jb\u202ec\nd\udc80") == r"a\x1b[2Jb\u202ec\nd\udc80"
    assert printable("Café 書籍 – 🎻") == "Café 書籍 – 🎻"
    fault = BenchError("first\nsecond \x1b[31m", where="/data/\u202eevil\nhint:  rm -rf", hint="fix\x07 it")
    lines = ["first", r"second \x1b[31m", r"  where: /data/\u202eevil\nhint:  rm -rf", r"  hint:  fix\x07 it"]
    assert fault.render().split("\n") == lines
    assert str(fault) == fault.render()
