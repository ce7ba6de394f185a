"""Download public files over http and from the Hugging Face Hub.

Over http a download grows as ``<name>.part`` and is renamed when it is whole. An interrupted transfer goes on where it
stopped if the server says that the file is still the same: ``If-Range`` with its ETag or date, which a note beside the
part keeps. Servers that know no ranges send the file anew.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from genrec_unlearn_bench.data.catalogue import FileSpec, HubSource
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing
from genrec_unlearn_bench.files import guarded, storage_error
from genrec_unlearn_bench.progress import Progress

CHUNK = 1 << 16
"""Bytes; a connection that breaks loses at most one chunk."""
ATTEMPTS = 5
"""In a row without a single new byte."""
_NO_SUCH_RANGE = 416
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504, _NO_SUCH_RANGE})
_LASTING = (socket.gaierror, ConnectionRefusedError, ssl.SSLCertVerificationError)
_NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH)


def download(
    url: str,
    target: Path,
    progress: Progress,
    *,
    blake2b: str | None = None,
    wait: Callable[[float], None] = time.sleep,
    timeout: float = 30.0,
) -> None:
    """Fetch ``url`` into ``target``; two processes that want the same file fetch it once.

    Args:
        blake2b: blake2b-128 of the public file, where known.
        wait: Called with the seconds between two attempts.
        timeout: Seconds without a byte after which a connection counts as dead.

    Raises DataMissing where the server has no such file, refuses it, cannot be reached or keeps cutting the connection,
    CorruptArtefact where another file came than expected, and StorageError.
    """
    import filelock

    part = target.with_name(f"{target.name}.part")
    with guarded(target.parent, "--data-dir"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(target.parent / f".{target.name}.lock"):
            if target.exists():
                return
            fetch_part(url, part, progress, wait, timeout)
            note_path(part).unlink()
            with part.open("rb") as stream:
                found = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
            if blake2b not in (None, found):
                part.unlink()
                raise CorruptArtefact(
                    f"the downloaded file is not the expected one: its digest is {found}, not {blake2b}",
                    where=url,
                    hint="the public file may have changed; nothing was kept",
                )
            part.replace(target)


def fetch_part(url: str, part: Path, progress: Progress, wait: Callable[[float], None], timeout: float) -> None:
    """Repeat attempts until the part is whole; arguments and DataMissing as in ``download``, OSError of the disk."""
    fruitless = 0
    while True:
        before = size_of(part)
        try:
            return _attempt(url, part, progress, timeout)
        except (OSError, http.client.HTTPException) as fault:
            if storage_error(fault, part, "") is not None:
                raise  # Of the disk: the caller's to explain.
            reason = _passing(fault, url, part)
        fruitless = 0 if size_of(part) > before else fruitless + 1
        if fruitless == ATTEMPTS:
            hint = "run the command again: it goes on where it stopped"
            raise DataMissing(f"the download did not come through: {reason}", where=url, hint=hint)
        pause = min(2.0**fruitless, 30.0)
        progress.info(f"{reason}; trying again in {pause:.0f} s")
        wait(pause)


def _attempt(url: str, part: Path, progress: Progress, timeout: float) -> None:
    note = note_path(part)
    known = note.read_text(encoding="utf-8") if note.exists() else ""
    start = size_of(part) if known else 0
    headers = {"User-Agent": "genrec-unlearn-bench", "Accept-Encoding": "identity"}
    headers |= {"Range": f"bytes={start}-", "If-Range": known} if start else {}
    # Addresses in specifications are http alone, and urllib follows no redirect to a file.
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
        etag, date, length = (response.headers.get(name, "") for name in ("ETag", "Last-Modified", "Content-Length"))
        # ``If-Range`` takes no weak ETag.
        validator = date if etag.startswith("W/") else etag or date
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            start = 0
        elif validator != known or not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            part.unlink()
            raise ConnectionError("the file on the server has changed")
        note.write_text(validator, encoding="utf-8")
        total = start + int(length) if length.isdigit() else None
        steps = None if total is None else -(-(total - start) // CHUNK)
        blocks = iter(lambda: response.read(CHUNK), b"")
        with part.open("ab" if start else "wb") as sink:
            for block in progress.track(part.name.removesuffix(".part"), blocks, total=steps):
                sink.write(block)
    if total is not None and (size := size_of(part)) != total:
        raise ConnectionError(f"the connection was cut after {size} of {total} bytes")


def _passing(fault: Exception, url: str, part: Path) -> str:
    """The reason of a fault that may be gone at the next attempt; raises DataMissing for one that stays."""
    if isinstance(fault, urllib.error.HTTPError):
        fault.close()
        if fault.code == _NO_SUCH_RANGE:
            # The part is another file's, or was whole before it was renamed.
            part.unlink(missing_ok=True)
        reason = f"the server answered {fault.code} {fault.reason}"
        if fault.code not in _TRANSIENT:
            raise DataMissing(reason, where=url) from None
        return reason
    cause = getattr(fault, "reason", fault)
    if isinstance(cause, _LASTING) or getattr(cause, "errno", None) in _NO_ROUTE:
        raise DataMissing(f"the server cannot be reached ({cause}); is there a network?", where=url) from None
    return f"the connection failed: {cause or type(cause).__name__}"


def size_of(path: Path) -> int:
    """Bytes, 0 for a file that is not there."""
    return path.stat().st_size if path.exists() else 0


def note_path(part: Path) -> Path:
    """Path of the note about a part."""
    return part.with_name(f"{part.name}.note")


def fetch_from_hub(hub: HubSource, missing: list[FileSpec], target: Path, progress: Progress) -> str | None:
    """Fetch missing files of a Hub repository into ``target``; returns the reason where that cannot be done.

    Loading scripts are not run: ``datasets`` knows none any more, and the files behind them can be read as they are.
    """
    from huggingface_hub import snapshot_download

    names = [name for file in missing for name in file.names]
    progress.info(f"fetching {', '.join(names)} of {hub.repo} into {target}")
    try:
        snapshot_download(hub.repo, repo_type="dataset", revision=hub.revision, allow_patterns=names, local_dir=target)
    except Exception as fault:
        # Its errors have many bases (requests, httpx, OSError, ValueError) that change between releases.
        return f"{hub.repo} on the Hugging Face Hub: {' '.join(str(fault).split())[:300] or type(fault).__name__}"
    return None
