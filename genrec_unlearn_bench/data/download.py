"""Fetching public files: never half-written, digest recorded, checked whenever they are used again.

A download grows as ``<name>.part`` (see ``data.transfer``) and is renamed when it is whole. Beside the file stands
``<name>.download.json`` with its address, size and digest.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.source_files import file_digest
from genrec_unlearn_bench.data.transfer import PartNote, fetch_part, note_path, size_of
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, StorageError
from genrec_unlearn_bench.progress import Progress

__all__ = ["DownloadRecord", "Expected", "download", "record_of", "verify"]


class DownloadRecord(StrictModel):
    """Where a file came from and what it was."""

    url: str
    size: int
    blake2b: str
    """blake2b-128 of the content, in hex."""
    etag: str | None = None
    last_modified: str | None = None
    fetched: str
    """UTC, ISO 8601."""


@dataclass(frozen=True)
class Expected:
    """What is known of the public file beforehand."""

    size: int | None = None
    blake2b: str | None = None


def record_of(path: Path) -> DownloadRecord | None:
    """The record of a file that was downloaded here, or None."""
    try:
        return DownloadRecord.model_validate_json(_sidecar(path).read_text(encoding="utf-8"))
    except (OSError, ValidationError, UnicodeDecodeError):
        return None


def verify(path: Path) -> DownloadRecord | None:
    """Check a file against the record of its download, if it has one.

    Raises:
        CorruptArtefact: the file is not what was downloaded.
    """
    record = record_of(path)
    if record is not None and (path.stat().st_size != record.size or file_digest(path) != record.blake2b):
        raise CorruptArtefact(
            "the file is not what was downloaded: its digest differs from the recorded one",
            where=str(path),
            hint=f"remove it to fetch it again, or remove {_sidecar(path).name} if the change was meant",
        )
    return record


def download(
    url: str,
    target: Path,
    progress: Progress,
    *,
    expected: Expected | None = None,
    wait: Callable[[float], None] = time.sleep,
    timeout: float = 30.0,
) -> DownloadRecord:
    """Fetch ``url`` into ``target``; two processes that want the same file fetch it once.

    Args:
        expected: Size and digest of the public file, where known.
        wait: Called with the seconds between two attempts.
        timeout: Seconds without a byte after which a connection counts as dead.

    Raises:
        DataMissing: the server has no such file, refuses it, cannot be reached or keeps cutting the connection.
        CorruptArtefact: what came is not the expected file.
        StorageError: the folder cannot be written to, or the disk is full.
    """
    import filelock

    if urlsplit(url).scheme not in ("http", "https"):
        raise DataMissing("only http and https addresses are fetched", where=url)
    with _storage(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with _storage(target), filelock.FileLock(target.parent / f".{target.name}.lock"):
        if target.exists() and (record := verify(target)) is not None:
            return record
        part = target.with_name(f"{target.name}.part")
        note = fetch_part(url, part, progress, wait, timeout)
        return _finish(part, target, note, expected or Expected())


def _finish(part: Path, target: Path, note: PartNote, expected: Expected) -> DownloadRecord:
    size, digest = size_of(part), file_digest(part)
    for name, wanted, found in (("size", expected.size, size), ("digest", expected.blake2b, digest)):
        if wanted is not None and wanted != found:
            part.unlink()
            note_path(part).unlink(missing_ok=True)
            raise CorruptArtefact(
                f"the downloaded file is not the expected one: its {name} is {found}, not {wanted}",
                where=note.url,
                hint="the public file may have changed; nothing was kept",
            )
    record = DownloadRecord(
        url=note.url,
        size=size,
        blake2b=digest,
        etag=note.etag,
        last_modified=note.last_modified,
        fetched=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    # The record goes first: a crash between the two leaves a record without a file, which is harmless.
    sidecar = _sidecar(target)
    draft = sidecar.with_name(f"{sidecar.name}.new")
    draft.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    os.replace(draft, sidecar)
    os.replace(part, target)
    note_path(part).unlink(missing_ok=True)
    return record


@contextlib.contextmanager
def _storage(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        full = fault.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StorageError(
            "the disk is full" if full else f"cannot write: {fault.strerror or fault}",
            where=str(target.parent),
            hint="free some space and run the command again: it goes on where it stopped"
            if full
            else "choose a folder that can be written to with --data-dir",
        ) from None


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.download.json")
