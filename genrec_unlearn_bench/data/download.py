"""Download public files over http and from the Hugging Face Hub.

Over http: never half-written, resumed, retried where that can help, size and digest recorded. A download grows as
``<name>.part`` and is renamed when it is whole. An interrupted transfer goes on where it stopped if the server says
that the file is still the same: ``If-Range`` with its ETag or date, which a note beside the part keeps. Servers that
know no ranges send the file anew. Beside the finished file stands ``<name>.download.json`` with its address, size and
digest.
"""

from __future__ import annotations

import errno
import http.client
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.message import Message
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from genrec_unlearn_bench.data.catalogue import FileSpec, HubSource
from genrec_unlearn_bench.data.source_files import DownloadRecord, PartNote, file_digest, record_path, verify
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing
from genrec_unlearn_bench.files import atomic_text, guarded
from genrec_unlearn_bench.progress import Progress

CHUNK = 1 << 16
"""Bytes; a connection that breaks loses at most one chunk."""
ATTEMPTS = 5
"""In a row without a single new byte."""
LIMIT = 100
"""Attempts altogether, for a server that cuts every connection."""
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_LASTING = (socket.gaierror, ConnectionRefusedError, ssl.SSLCertVerificationError)
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


def download(
    url: str,
    target: Path,
    progress: Progress,
    *,
    size: int | None = None,
    blake2b: str | None = None,
    wait: Callable[[float], None] = time.sleep,
    timeout: float = 30.0,
) -> DownloadRecord:
    """Fetch ``url`` into ``target``; two processes that want the same file fetch it once.

    Args:
        size, blake2b: Of the public file, where known.
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
    with guarded(target.parent, "--data-dir"):
        target.parent.mkdir(parents=True, exist_ok=True)
    with guarded(target.parent, "--data-dir"), filelock.FileLock(target.parent / f".{target.name}.lock"):
        if target.exists() and (record := verify(target)) is not None:
            return record
        part = target.with_name(f"{target.name}.part")
        note = fetch_part(url, part, progress, wait, timeout)
        return _finish(part, target, note, size, blake2b)


def _finish(part: Path, target: Path, note: PartNote, size: int | None, blake2b: str | None) -> DownloadRecord:
    came, digest = size_of(part), file_digest(part)
    for name, wanted, found in (("size", size, came), ("digest", blake2b, digest)):
        if wanted is not None and wanted != found:
            part.unlink()
            note_path(part).unlink(missing_ok=True)
            raise CorruptArtefact(
                f"the downloaded file is not the expected one: its {name} is {found}, not {wanted}",
                where=note.url,
                hint="the public file may have changed; nothing was kept",
            )
    fetched = datetime.now(UTC).isoformat(timespec="seconds")
    record = DownloadRecord(**note.model_dump(), size=came, blake2b=digest, fetched=fetched)
    # The record goes first: a crash between the two leaves a record without a file, which is harmless.
    atomic_text(record_path(target), record.model_dump_json(indent=2) + "\n", "--data-dir")
    os.replace(part, target)
    note_path(part).unlink(missing_ok=True)
    return record


class _Interrupted(Exception):
    """A fault that may be gone at the next attempt."""


def fetch_part(url: str, part: Path, progress: Progress, wait: Callable[[float], None], timeout: float) -> PartNote:
    """Repeat attempts until the part is whole; arguments and errors are those of ``download``."""
    farthest, fruitless, reason = size_of(part), 0, ""
    for _ in range(LIMIT):
        try:
            return _attempt(url, part, progress, timeout)
        except _Interrupted as fault:
            reason = str(fault)
        reached = size_of(part)
        fruitless = 0 if reached > farthest else fruitless + 1
        farthest = max(farthest, reached)
        if fruitless >= ATTEMPTS:
            break
        pause = min(2.0**fruitless, 30.0)
        progress.info(f"{reason}; trying again in {pause:.0f} s")
        wait(pause)
    raise DataMissing(
        f"the download did not come through: {reason}",
        where=url,
        hint="run the command again: it goes on where it stopped",
    )


def _attempt(url: str, part: Path, progress: Progress, timeout: float) -> PartNote:
    try:
        old = PartNote.model_validate_json(note_path(part).read_bytes())
    except (OSError, ValueError):
        old = PartNote(url=url)
    offset = size_of(part) if old.url == url and old.validator else 0
    headers = {"User-Agent": "genrec-unlearn-bench", "Accept-Encoding": "identity"}
    if offset:
        headers |= {"Range": f"bytes={offset}-", "If-Range": str(old.validator)}
    with _open(url, headers, timeout, part) as response:
        start, total = _extent(response.status, response.headers, offset)
        note = PartNote(url=url, etag=response.headers.get("ETag"), last_modified=response.headers.get("Last-Modified"))
        if start and note.etag != old.etag:
            part.unlink()
            raise _Interrupted("the file on the server has changed")
        note_path(part).write_text(note.model_dump_json(), encoding="utf-8")
        with part.open("r+b" if start else "wb") as sink:
            sink.truncate(start)
            sink.seek(start)
            steps = None if total is None else -(-(total - start) // CHUNK)
            for block in progress.track(part.name.removesuffix(".part"), _blocks(response), total=steps):
                sink.write(block)
    size = size_of(part)
    if total is not None and size < total:
        raise _Interrupted(f"the connection was cut after {size} of {total} bytes")
    if total is not None and size > total:
        part.unlink()
        raise _Interrupted(f"{size} bytes came where {total} were announced")
    return note


def _open(url: str, headers: dict[str, str], timeout: float, part: Path) -> http.client.HTTPResponse:
    """Open a response; faults are sorted into those that may pass and those that stay."""
    # The scheme was checked, and urllib follows no redirect to a file.
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=timeout)  # noqa: S310
    except urllib.error.HTTPError as fault:
        fault.close()
        if fault.code == 416:
            # Nothing comes behind what is there: the part is another file's, or was whole before it was renamed.
            part.unlink(missing_ok=True)
            raise _Interrupted("the server has no such range") from None
        if fault.code in _TRANSIENT:
            raise _Interrupted(f"the server answered {fault.code} {fault.reason}") from None
        raise DataMissing(f"the server answered {fault.code} {fault.reason}", where=url) from None
    except urllib.error.URLError as fault:
        reason = fault.reason
        stays = not isinstance(reason, OSError) or isinstance(reason, _LASTING)
        if stays or getattr(reason, "errno", None) in (errno.ENETUNREACH, errno.EHOSTUNREACH):
            raise DataMissing(f"the server cannot be reached ({reason}); is there a network?", where=url) from None
        raise _Interrupted(f"the connection failed: {reason}") from None
    except (OSError, http.client.HTTPException) as fault:
        raise _Interrupted(f"the connection broke: {fault!r}") from None
    return response


def _extent(status: int, headers: Message, offset: int) -> tuple[int, int | None]:
    """(first byte that comes, size of the whole file if the server says so)."""
    if status == 206:
        match = _RANGE.fullmatch(headers.get("Content-Range", ""))
        if match is None or int(match[1]) != offset:
            raise _Interrupted("the server sent another range than asked for")
        return offset, None if match[3] == "*" else int(match[3])
    length = headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def _blocks(response: IO[bytes]) -> Iterator[bytes]:
    try:
        while block := response.read(CHUNK):
            yield block
    except (OSError, http.client.HTTPException) as fault:
        raise _Interrupted(f"the connection broke: {fault!r}") from None


def size_of(path: Path) -> int:
    """Bytes, 0 for a file that is not there."""
    return path.stat().st_size if path.exists() else 0


def note_path(part: Path) -> Path:
    """Path of the note about a part."""
    return part.with_name(f"{part.name}.json")


def fetch_from_hub(hub: HubSource, missing: list[FileSpec], target: Path, progress: Progress) -> str | None:
    """Fetch missing files of a Hub repository into ``target``; returns the reason where that cannot be done.

    Of a file's names the first that the repository has is taken; a wild card stands for no slash, as in a folder.
    Loading scripts are not run: ``datasets`` knows none any more, and the files behind them can be read as they are.
    """
    from huggingface_hub import HfApi, hf_hub_download

    try:
        there = HfApi().list_repo_files(hub.repo, repo_type="dataset", revision=hub.revision)
        for file in missing:
            matching = ([one for one in sorted(there) if _means(name, one)] for name in file.names)
            chosen = next(filter(None, matching), None)
            if chosen is None:
                return f"{hub.repo} has no file {' or '.join(file.names)} at {hub.revision[:12]}"
            for name in chosen:
                progress.info(f"fetching {name} of {hub.repo} into {target}")
                hf_hub_download(hub.repo, name, repo_type="dataset", revision=hub.revision, local_dir=target)
    except Exception as fault:
        # Its errors have many bases (requests, httpx, OSError, ValueError) that change between releases.
        return f"{hub.repo} on the Hugging Face Hub: {' '.join(str(fault).split())[:300] or type(fault).__name__}"
    return None


def _means(name: str, path: str) -> bool:
    return path.count("/") == name.count("/") and fnmatchcase(path, name)
