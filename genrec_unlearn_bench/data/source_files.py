"""Digests of input files and model folders, kept between processes so that an unchanged file is read once.

A digest is kept under the file's path, device, inode, size and times. The change time is among them: unlike the
modification time, a user cannot set it back. A file changed within the last seconds is not kept, as a second
change could leave all of these as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact, DataFault, StorageError, UsageError
from genrec_unlearn_bench.files import atomic_text

SMALLEST = 1 << 20
"""Bytes; smaller files are read anew in each process, which is as fast as looking them up."""
SETTLED = 2.0
"""Seconds since a file's last change before its digest is kept on disk (file systems round their times)."""
_ENTRIES = 2000
_DIGESTS = TypeAdapter(dict[str, Annotated[str, Field(pattern="^[0-9a-f]{32}$")]])
_FORMATS_UNUSED = frozenset({"onnx", "openvino"})
"""Folders of a model that hold its weights for other runtimes; they change nothing here."""


class SourceFile(StrictModel):
    """One file a dataset was read from."""

    name: str
    """Path relative to the data folder."""
    size: int
    """Bytes."""
    digest: str
    """blake2b-128 of the content, in hex."""
    url: str | None = None
    """Where it was downloaded from, if it was."""


class PartNote(StrictModel):
    """A server's description of a file of which there may be the beginning alone."""

    url: str
    etag: str | None = None
    last_modified: str | None = None

    @property
    def validator(self) -> str | None:
        """Value for ``If-Range``: a strong ETag, or else the date."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.last_modified


class DownloadRecord(PartNote):
    """Origin, size and digest (as in ``SourceFile``) of a downloaded file."""

    size: int
    blake2b: str
    fetched: str
    """UTC, ISO 8601."""


def file_digest(path: Path) -> str:
    """blake2b-128 of a file's content, in hex. Raises DataFault where it cannot be read."""
    try:
        return _digest(path.resolve(), _state(path))
    except OSError as fault:
        raise DataFault(f"cannot be read: {fault.strerror or fault}", where=str(path)) from None


def verify(path: Path) -> DownloadRecord | None:
    """Check a file against the record of its download, if it has one.

    Raises:
        CorruptArtefact: the file is not what was downloaded.
    """
    try:
        record = DownloadRecord.model_validate_json(record_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if path.stat().st_size != record.size or file_digest(path) != record.blake2b:
        raise CorruptArtefact(
            "the file is not what was downloaded: its digest differs from the recorded one",
            where=str(path),
            hint=f"remove it to fetch it again, or remove {record_path(path).name} if the change was meant",
        )
    return record


def record_path(path: Path) -> Path:
    """Path of the record of a file's download."""
    return path.with_name(f"{path.name}.download.json")


def model_digest(folder: Path) -> str:
    """blake2b-128, in hex, over names and contents of the files that make up a pretrained model.

    Readmes, hidden files and weights for other runtimes do not count. Raises UsageError where a file cannot be read.
    """
    state = hashlib.blake2b(digest_size=16)
    try:
        for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
            parts = path.relative_to(folder).parts
            hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
            if not path.is_file() or hidden or path.suffix == ".md" or parts[0] in _FORMATS_UNUSED:
                continue
            state.update(f"{'/'.join(parts)}\0".encode())
            state.update(bytes.fromhex(_digest(path.resolve(), _state(path))))
    except OSError as fault:
        raise UsageError(f"the model cannot be read: {fault.strerror}", where=str(fault.filename)) from fault
    return state.hexdigest()


def _state(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@cache
def _digest(path: Path, state: tuple[int, ...]) -> str:
    large, name = state[2] >= SMALLEST, " ".join(map(str, (*state, path)))
    if large and (known := _kept().get(name)) is not None:
        return known
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    if large and time.time() - max(state[3:]) / 1e9 > SETTLED and _state(path) == state:
        # Two processes may lose one another's entry: that file is read again.
        kept = dict(list({**_kept(), name: digest}.items())[-_ENTRIES:])
        with suppress(StorageError):
            atomic_text(_cache_file(), json.dumps(kept, indent=0) + "\n", "--cache-dir")
    return digest


def _cache_file() -> Path:
    # In the default cache folder: ``--cache-dir`` does not move it.
    import platformdirs

    chosen = os.environ.get("GENREC_UNLEARN_BENCH_CACHE")
    folder = Path(chosen) if chosen else platformdirs.user_cache_path("genrec-unlearn-bench")
    return folder / "file_digests.json"


def _kept() -> dict[str, str]:
    """State and path of a file -> digest; empty where nothing usable is stored."""
    try:
        return _DIGESTS.validate_json(_cache_file().read_bytes())
    except (OSError, ValueError):
        return {}
