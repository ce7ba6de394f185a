"""Files of a submission's folder with their digests, the names they may have, and whatever must not lie there.

A name has to be the same file on every system, and never lead outside the folder. Archives are packed so that the same
folder gives the same bytes, and unpacked without writing outside a folder or filling a disk.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from genrec_unlearn_bench.files import file_digest, folder_digest, guarded, storage_error
from genrec_unlearn_bench.submissions.faults import (
    ARCHIVE_BYTES,
    FILES,
    SAFE_PART,
    TOTAL_BYTES,
    Fault,
    Refused,
    file_limit,
)
from genrec_unlearn_bench.submissions.spec import SPEC

__all__ = [
    "VERIFICATION",
    "Inventory",
    "colliding",
    "content_digest",
    "layout_fault",
    "pack",
    "take_inventory",
    "unpack",
    "unsafe",
]

_LONGEST = 300
_RESERVED = re.compile(r"^(con|prn|aux|nul|com\d|lpt\d)(\..*)?$", re.IGNORECASE)
_CELL = r"([A-Za-z0-9_.+-]+/){4}(result\.json|per_user\.parquet|measurements/[a-z0-9-]+\.csv)"
_SUBMISSION = re.compile(
    rf"^(submission\.yaml|verification\.json|method\.py|manifests/[a-z0-9_.-]+\.json|results/{_CELL})$"
)
_TREE = re.compile(rf"^(README\.md|verification\.json|manifests/[a-z0-9_.-]+\.json|{_CELL})$")


def unsafe(path: str) -> Fault | None:
    """The fault of a relative path as it stands in an archive or a folder, if anything."""
    shown = ascii(path[:_LONGEST])[1:-1]

    def fault(what: str, hint: str = "pack the folder with `bench submission new`") -> Fault:
        return Fault(what=what, where=shown, hint=hint)

    if path.startswith(("/", "\\")):
        return fault("the name is an absolute path")
    if re.match(r"^[A-Za-z]:", path):
        return fault("the name begins with a drive letter")
    parts = path.replace("\\", "/").split("/")
    if ".." in parts:
        return fault("the name leads out of the folder (..)")
    if "\\" in path:
        return fault("the name holds a backslash")
    if len(path) > _LONGEST or len(parts) > 8:
        return fault("the name is too long or too deep")
    for part in parts:
        if not SAFE_PART.match(part) or part.endswith(".") or _RESERVED.match(part):
            return fault(
                "the name holds characters that do not mean the same on every system",
                "use letters, digits, and . _ + - behind the first",
            )
    return None


def colliding(paths: Iterable[str]) -> Iterator[Fault]:
    """Names that stand there twice, or that some systems take for the same."""
    seen: dict[str, str] = {}
    for path in paths:
        key = unicodedata.normalize("NFKC", path).casefold()
        first = seen.setdefault(key, path)
        if first is path:
            continue
        what = "the name stands there twice" if first == path else f"the name differs from {first!a} in case alone"
        yield Fault(what=what, where=ascii(path)[1:-1], hint="keep one of the two")


def layout_fault(path: str, *, tree: bool) -> Fault | None:
    """A file that has no place in a submission (or in a tree of results)."""
    if (_TREE if tree else _SUBMISSION).match(path):
        return None
    if tree and path.endswith(("losses.jsonl", "/manifest.json")):
        what = "this is a result as `bench run` wrote it, not in its published form"
        return Fault(what=what, where=path, hint="publish it with `bench submission new`, and verify that")
    place = "manifests/<task>.json and <task>/<backbone>/<method>/<run>/"
    layout = place if tree else "submission.yaml, method.py, verification.json and results/<task>/<backbone>/…"
    return Fault(
        what="there is a file that has no place here", where=path, hint=f"remove it; what belongs here: {layout}"
    )


VERIFICATION = "verification.json"
DEEPEST = 8


@dataclass(frozen=True)
class Inventory:
    """The files that are safe to read, by path, and everything that is wrong with the folder."""

    digests: Mapping[str, str]
    faults: tuple[Fault, ...]


def take_inventory(root: Path) -> Inventory:
    """Look at every entry below ``root``, without following a link, and digest the files that are safe to read."""
    tree = not (root / SPEC).is_file()
    digests: dict[str, str] = {}
    faults: list[Fault] = []
    total = 0
    for number, (path, status) in enumerate(_entries(root, "")):
        if number == FILES:
            faults.append(Fault(what=f"there are more than {FILES} files", where=".", hint="submit in parts"))
            break
        fault = unsafe(path) or _kind_fault(path, status) or layout_fault(path, tree=tree)
        total += status.st_size
        if fault is None and total > TOTAL_BYTES:
            fault = Fault(
                what=f"the files have more than {TOTAL_BYTES >> 20} MiB in all",
                where=path,
                hint="withhold columns (--withhold similarity)",
            )
        if fault is not None:
            faults.append(fault)
            continue
        digests[path] = file_digest(root / path)
    faults += colliding(sorted(digests))
    return Inventory(dict(sorted(digests.items())), tuple(faults))


def content_digest(digests: Mapping[str, str]) -> str:
    """One digest of everything but the verification itself."""
    return folder_digest({path: digest for path, digest in digests.items() if path != VERIFICATION})


def _entries(root: Path, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every entry that is no folder, in order of names; links are not followed."""
    with os.scandir(root) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        path = f"{prefix}{entry.name}"
        # A folder that is too deep is given back as if it were a file, and refused by its name.
        if entry.is_dir(follow_symlinks=False) and path.count("/") < DEEPEST:
            yield from _entries(Path(entry.path), f"{path}/")
        else:
            yield path, entry.stat(follow_symlinks=False)


def _kind_fault(path: str, status: os.stat_result) -> Fault | None:
    if stat.S_ISLNK(status.st_mode):
        return Fault(what="there is a link", where=path, hint="put the file itself there")
    if not stat.S_ISREG(status.st_mode):
        return Fault(what="there is something that is no file", where=path, hint="remove it")
    if status.st_mode & 0o111 and os.name != "nt":
        return Fault(what="there is an executable file", where=path, hint=f"chmod -x {path}")
    limit = file_limit(path)
    if status.st_size > limit:
        what = f"a file is too large: {status.st_size} bytes, at most {limit}"
        return Fault(what=what, where=path, hint="withhold columns (--withhold similarity)")
    return None


_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest date a zip file can hold."""
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UNUSUAL = 0x1 | 0x20 | 0x40
"""Flags of an entry: encrypted, patch data, strongly encrypted."""
_PACK = "pack the folder with `bench submission new`"
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
