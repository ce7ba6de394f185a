"""Packs a submission into one zip file, and unpacks a stranger's without writing outside a folder or filling a disk.

The same folder gives the same archive: names in order, no dates, no owners.
"""

from __future__ import annotations

import errno
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from genrec_unlearn_bench.files import guarded, storage_error
from genrec_unlearn_bench.submissions.faults import Refused
from genrec_unlearn_bench.submissions.inventory import colliding, unsafe
from genrec_unlearn_bench.submissions.limits import ARCHIVE_BYTES, FILES, TOTAL_BYTES, file_limit

__all__ = ["pack", "unpack"]

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest date a zip file can hold."""
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UNUSUAL = 0x1 | 0x20 | 0x40
"""Flags of an entry: encrypted, patch data, strongly encrypted."""
_PACK = "pack the folder with `bench submit`"
_BLOCK = 1 << 20


def pack(folder: Path, target: Path) -> None:
    """Write every file of a folder, under the folder's name, to a zip file. Raises StorageError."""
    with guarded(target, "--out"), zipfile.ZipFile(target, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
            info = zipfile.ZipInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}", _EPOCH)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes(), compresslevel=9)


def unpack(archive: Path, target: Path) -> Path:
    """Unpack into the empty folder ``target``; returns the folder that holds the submission. Raises Refused."""
    name = archive.name
    if archive.stat().st_size > ARCHIVE_BYTES:
        raise Refused(f"the archive is larger than {ARCHIVE_BYTES >> 20} MiB", where=name, hint="withhold columns")
    try:
        with _reading(name):
            opened = zipfile.ZipFile(archive)
        with opened:
            infos = opened.infolist()
            if len(infos) > FILES:
                raise Refused(f"the archive holds {len(infos)} files, more than {FILES}", where=name, hint=_PACK)
            files = [info for info in infos if _check(info)]
            for fault in colliding(info.filename for info in files):
                raise Refused(fault.what, where=f"{name}: {fault.where}", hint=fault.hint)
            left = TOTAL_BYTES
            for info in files:
                left -= _extract(opened, info, target, left)
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            # No fault of the archive: there is no room here to unpack it.
            raise storage_error(fault, target, "$TMPDIR") or fault from None
        raise Refused(f"the archive cannot be read: {fault}", where=name, hint=_PACK) from None
    tops = sorted(target.iterdir())
    return tops[0] if len(tops) == 1 and tops[0].is_dir() else target


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Around zipfile's calls alone, so that a fault of ours is not reported as the archive's. Raises Refused.

    What they say of broken data (names that are not in the encoding that they claim included) and of a version of the
    format that they do not know. Encryption and other compressions are refused before (``_check``).
    """
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, UnicodeDecodeError, NotImplementedError, EOFError) as fault:
        raise Refused(f"the archive cannot be read: {fault}", where=where, hint=_PACK) from None


def _check(info: zipfile.ZipInfo) -> bool:
    """Whether an entry is a file to be written (True) or a folder. Raises Refused for anything else."""
    place, kind = info.filename, stat.S_IFMT(info.external_attr >> 16)
    fault = unsafe(place.removesuffix("/"))
    if fault is not None:
        raise Refused(f"in the archive, {fault.what}", where=fault.where, hint=fault.hint)
    if kind == stat.S_IFLNK:
        raise Refused("the archive holds a link", where=place, hint="put the file itself there")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise Refused("the archive holds something that is no file", where=place, hint=_PACK)
    if info.is_dir():
        return False
    if (info.external_attr >> 16) & 0o111:
        raise Refused("the archive holds an executable file", where=place, hint="chmod -x, and pack it again")
    if info.flag_bits & _UNUSUAL or info.compress_type not in _PLAIN:
        raise Refused("the archive is encrypted or packed in an unusual way", where=place, hint=_PACK)
    limit = file_limit(place)
    if info.file_size > limit:
        what = f"a file in the archive is too large: {info.file_size} bytes, at most {limit}"
        raise Refused(what, where=place, hint="withhold columns (--withhold similarity)")
    return True


def _extract(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, left: int) -> int:
    """Write one file, counting what really comes out of it; returns its bytes."""
    path = target.joinpath(*info.filename.split("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    size, limit = 0, min(left, file_limit(info.filename))
    with _reading(info.filename):
        source = archive.open(info)
    with source, path.open("xb") as sink:
        while block := _block(source, info.filename):
            size += len(block)
            if size > limit:
                what = f"the archive unpacks to more than {TOTAL_BYTES >> 20} MiB in all, or this file to too much"
                raise Refused(what, where=info.filename, hint="withhold columns (--withhold similarity)")
            sink.write(block)
    return size


def _block(source: IO[bytes], where: str) -> bytes:
    with _reading(where):
        return source.read(_BLOCK)
