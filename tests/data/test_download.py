"""Downloads against a local server: resumed, retried, refused, checked; never half-written."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.data.download import download
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, StorageError
from genrec_unlearn_bench.progress import Progress
from tests.data.http_server import Site, serve

CONTENT = bytes(range(256)) * 1200  # more than four chunks
DIGEST = hashlib.blake2b(CONTENT, digest_size=16).hexdigest()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serve(CONTENT) as running:
        yield running


class Pauses(list[float]):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def get(site: Site, folder: Path, pauses: Pauses | None = None, **expected: Any) -> Path:
    target = folder / "file.bin"
    pauses = Pauses() if pauses is None else pauses
    download(site.url, target, Progress(), wait=pauses, timeout=5, **expected)
    return target


def clean(folder: Path) -> None:
    """Nothing but the file and the lock is left."""
    assert {path.name for path in folder.iterdir()} <= {"file.bin", ".file.bin.lock"}


def test_whole_file(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert get(site, folder, blake2b=DIGEST).read_bytes() == CONTENT
    clean(folder)
    assert site.requests[0]["accept-encoding"] == "identity"
    get(site, folder)
    assert len(site.requests) == 1, "a file that is there is not fetched again"


@pytest.mark.parametrize(("etag", "date"), [('"v1"', None), (None, "Mon, 01 Jan 2024 00:00:00 GMT"), ('W/"v1"', "Tue")])
def test_goes_on_after_cuts(site: Site, tmp_path: Path, etag: str | None, date: str | None) -> None:
    site.etag, site.last_modified = etag, date
    site.cuts = [100_000, 50_000]
    pauses = Pauses()
    assert get(site, tmp_path, pauses).read_bytes() == CONTENT
    assert [request.get("range") for request in site.requests] == [None, "bytes=100000-", "bytes=150000-"]
    assert site.requests[1]["if-range"] == (date if etag is None or etag.startswith("W/") else etag)
    assert len(pauses) == 2
    clean(tmp_path)


def test_goes_on_in_another_process(site: Site, tmp_path: Path) -> None:
    site.cuts = [200_000]

    class Stop(Exception):
        pass

    def stop(_: float) -> None:
        raise Stop

    with pytest.raises(Stop):
        download(site.url, tmp_path / "file.bin", Progress(), wait=stop)
    assert not (tmp_path / "file.bin").exists()
    assert get(site, tmp_path).read_bytes() == CONTENT
    assert site.requests[1]["range"] == "bytes=200000-"


def test_server_without_ranges(site: Site, tmp_path: Path) -> None:
    site.ranges = False
    site.cuts = [100_000, 120_000]
    assert get(site, tmp_path).read_bytes() == CONTENT


def test_no_validator_means_no_resuming(site: Site, tmp_path: Path) -> None:
    site.etag = None
    site.cuts = [100_000]
    assert get(site, tmp_path).read_bytes() == CONTENT
    assert "range" not in site.requests[1]


def test_file_that_changed_in_between(site: Site, tmp_path: Path) -> None:
    site.cuts = [100_000]

    def change(_: float) -> None:
        site.content, site.etag = b"new" * 90_000, '"v2"'

    download(site.url, tmp_path / "file.bin", Progress(), wait=change)
    assert (tmp_path / "file.bin").read_bytes() == b"new" * 90_000


def test_server_that_ignores_if_range(site: Site, tmp_path: Path) -> None:
    # It sends the rest of another file under another ETag: mixing the two would be worse than starting again.
    site.cuts = [100_000]

    def change(_: float) -> None:
        site.etag = '"v1"' if len(site.requests) > 1 else '"v2"'
        if len(site.requests) == 1:
            site.last_modified = '"v1"'  # so that the handler takes the stale validator

    download(site.url, tmp_path / "file.bin", Progress(), wait=change)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert "range" not in site.requests[-1]


@pytest.mark.parametrize("more", [b"", b"more"])
def test_part_that_is_not_shorter_than_the_file_is_fetched_anew(site: Site, tmp_path: Path, more: bytes) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT + more)
    (tmp_path / "file.bin.part.note").write_text('"v1"')
    assert get(site, tmp_path).read_bytes() == CONTENT
    clean(tmp_path)


def test_transient_faults_are_retried(site: Site, tmp_path: Path) -> None:
    site.statuses = [503, 429, 500]
    pauses = Pauses()
    assert get(site, tmp_path, pauses).read_bytes() == CONTENT
    assert pauses == [2.0, 4.0, 8.0]


@pytest.mark.parametrize("status", [404, 403, 410, 401])
def test_lasting_faults_are_not(site: Site, tmp_path: Path, status: int) -> None:
    site.statuses = [status] * 10
    with pytest.raises(DataMissing, match=str(status)):
        get(site, tmp_path)
    assert len(site.requests) == 1
    clean(tmp_path)


def test_server_that_never_gets_further(site: Site, tmp_path: Path) -> None:
    site.statuses = [503] * 50
    with pytest.raises(DataMissing, match="did not come through: the server answered 503"):
        get(site, tmp_path)
    assert len(site.requests) == 5


def test_nobody_there(tmp_path: Path) -> None:
    with serve(b"") as gone:
        url = gone.url
    with pytest.raises(DataMissing, match="cannot be reached"):
        download(url, tmp_path / "file.bin", Progress(), wait=Pauses())


def test_another_file_than_expected(site: Site, tmp_path: Path) -> None:
    with pytest.raises(CorruptArtefact, match="not the expected one"):
        get(site, tmp_path, blake2b="0" * 32)
    clean(tmp_path)
    assert not (tmp_path / "file.bin").exists()


def test_no_redirect_to_another_scheme(site: Site, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    site.redirect = secret.as_uri()
    with pytest.raises(DataMissing):
        get(site, tmp_path)
    assert not (tmp_path / "file.bin").exists()


def test_full_disk(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(StorageError, match="the disk is full"):
        get(site, tmp_path)
    monkeypatch.undo()
    assert not (tmp_path / "file.bin").exists()
    assert get(site, tmp_path).read_bytes() == CONTENT


def test_folder_that_is_a_file(site: Site, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        get(site, tmp_path / "blocked")
