"""Archives that would write elsewhere, fill the disk or show two faces are refused before anything is read of them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import StorageError, UsageError
from genrec_unlearn_bench.submissions.bundle import load, opened, pack
from genrec_unlearn_bench.submissions.plain_text import Refused
from genrec_unlearn_bench.submissions.verification import verify
from tests.submissions.altered_archives import ARCHIVES, truncated


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("what", ARCHIVES)
def test_is_refused(what: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message, make = ARCHIVES[what]
    place, sent = tmp_path / "unpacked" / "here", tmp_path / "mine.zip"
    place.mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", str(place))
    make(folder, sent)
    with pytest.raises(Refused, match=message) as refusal, opened(sent):
        pass
    assert refusal.value.where
    assert refusal.value.hint
    # Nothing was written beside the folder, and the folder is gone.
    assert [path for path in place.parent.rglob("*") if path != place] == []


def test_a_cut_archive_is_refused(folder: Path, tmp_path: Path) -> None:
    truncated(folder, tmp_path / "mine.zip")
    with pytest.raises(Refused, match="cannot be read"), opened(tmp_path / "mine.zip"):
        pass


def test_a_link_to_a_submission_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(Refused, match="is a link"), opened(tmp_path / "link"):
        pass


def test_no_archive_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such submission"), opened(tmp_path / "mine.zip"):
        pass
    (tmp_path / "mine.zip").write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(Refused, match="cannot be read"), opened(tmp_path / "mine.zip"):
        pass


def test_a_full_disk_is_no_fault_of_the_archive(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    pack(folder, tmp_path / "mine.zip")
    monkeypatch.setattr("zipfile.ZipFile.extract", full)
    with pytest.raises(StorageError, match="the disk is full"), opened(tmp_path / "mine.zip"):
        pass


def test_a_packed_submission_is_the_same_submission(folder: Path, leaderboard: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "one.zip")
    pack(folder, tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with opened(tmp_path / "one.zip", leaderboard) as bundle:
        assert bundle.digests == load(folder).digests
        assert verify(bundle).passed
