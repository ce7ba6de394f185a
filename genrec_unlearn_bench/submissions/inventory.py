"""Files of a submission's folder with their digests, the names they may have, and zip archives of such folders.

A name has to be the same file on every system, and never lead outside the folder. Archives are packed so that the same
folder gives the same bytes, and unpacked without writing outside a folder or filling a disk.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from genrec_unlearn_bench.files import file_digest, folder_digest, guarded, storage_error
from genrec_unlearn_bench.submissions.plain_text import Fault, Refused
from genrec_unlearn_bench.submissions.spec import SPEC

VERIFICATION = "verification.json"

FILES = 8000
"""Files in one submission: 16 tasks x 5 backbones x 50 seeds with two files each."""
TOTAL_BYTES = 512 << 20
"""All files together, unpacked."""
ARCHIVE_BYTES = 256 << 20
TEXT_BYTES = 256 << 10
"""submission.yaml and a method file."""
RECORD_BYTES = 4 << 20
"""A result.json or verification.json."""
FILE_BYTES = 32 << 20
"""Any other file; the largest is an unabridged per-user table of a million rows."""
PATH_LENGTH, PATH_DEPTH = 300, 8

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,119}(?<!\.)\Z")
"""One part of a path: plain letters, so that it means the same on every system. A method may be named ``flat+``."""
_RESERVED = re.compile(r"^(con|prn|aux|nul|com\d|lpt\d)(\..*)?$", re.IGNORECASE)
_CELL = r"([A-Za-z0-9_.+-]+/){4}(result\.json|per_user\.parquet|measurements/[a-z0-9-]+\.csv)"
_SUBMISSION = re.compile(
    rf"^(submission\.yaml|verification\.json|method\.py|manifests/[a-z0-9_.-]+\.json|results/{_CELL})$"
)
_TREE = re.compile(rf"^(README\.md|verification\.json|manifests/[a-z0-9_.-]+\.json|{_CELL})$")
_PACK = "pack the folder with `bench submission new`"
_SMALLER = "withhold columns (--withhold similarity)"


def unsafe(path: str) -> Fault | None:
    """The fault of a relative path as it is written in an archive or a folder, if any."""
    parts = path.replace("\\", "/").split("/")
    odd = any(not _PART.match(part) or _RESERVED.match(part) for part in parts)
    for wrong, what, hint in (
        (path.startswith(("/", "\\")), "is an absolute path", _PACK),
        (re.match(r"^[A-Za-z]:", path), "begins with a drive letter", _PACK),
        (".." in parts, "leads out of the folder (..)", _PACK),
        ("\\" in path, "holds a backslash", _PACK),
        (len(path) > PATH_LENGTH or len(parts) > PATH_DEPTH, "is too long or too deep", _PACK),
        (odd, "holds characters that do not mean the same on every system", "use letters, digits, and . _ + -"),
    ):
        if wrong:
            return Fault(what=f"the name {what}", where=ascii(path[:PATH_LENGTH])[1:-1], hint=hint)
    return None


def _colliding(paths: Iterable[str]) -> Iterator[Fault]:
    seen: dict[str, str] = {}
    for path in paths:
        first = seen.setdefault(unicodedata.normalize("NFKC", path).casefold(), path)
        if first is not path:
            what = "the name is there twice" if first == path else f"the name differs from {first!a} in case alone"
            yield Fault(what=what, where=ascii(path)[1:-1], hint="keep one of the two")


def _layout_fault(path: str, *, tree: bool) -> Fault | None:
    if (_TREE if tree else _SUBMISSION).match(path):
        return None
    if tree and path.endswith(("losses.jsonl", "/manifest.json")):
        what = "this is a result as `bench run` wrote it, not in its published form"
        return Fault(what=what, where=path, hint="publish it with `bench submission new`, and verify that")
    layout = "submission.yaml, method.py, verification.json and results/<task>/<backbone>/<method>/<run>/"
    layout = "manifests/<task>.json and <task>/<backbone>/<method>/<run>/" if tree else layout
    what = "there is a file that has no place here"
    return Fault(what=what, where=path, hint=f"remove it; what belongs here: {layout}")


def _kind_fault(path: str, mode: int, size: int) -> Fault | None:
    limit = _size_limit(path)
    for wrong, what, hint in (
        (stat.S_ISLNK(mode), "there is a link", "put the file itself there"),
        (stat.S_IFMT(mode) not in (0, stat.S_IFREG), "there is something that is no file", "remove it"),
        (mode & 0o111 and os.name != "nt", "there is an executable file", f"chmod -x {path}"),
        (size > limit, f"a file is too large: {size} bytes, at most {limit}", _SMALLER),
    ):
        if wrong:
            return Fault(what=what, where=path, hint=hint)
    return None


def _size_limit(path: str) -> int:
    if path.endswith((".yaml", ".py")):
        return TEXT_BYTES
    return RECORD_BYTES if path.endswith(("result.json", "verification.json")) else FILE_BYTES


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
        fault = unsafe(path) or _kind_fault(path, status.st_mode, status.st_size) or _layout_fault(path, tree=tree)
        total += status.st_size
        if fault is None and total > TOTAL_BYTES:
            what = f"the files have more than {TOTAL_BYTES >> 20} MiB in all"
            fault = Fault(what=what, where=path, hint=_SMALLER)
        if fault is not None:
            faults.append(fault)
        else:
            digests[path] = file_digest(root / path)
    faults += _colliding(sorted(digests))
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
        if entry.is_dir(follow_symlinks=False) and path.count("/") < PATH_DEPTH:
            yield from _entries(Path(entry.path), f"{path}/")
        else:
            yield path, entry.stat(follow_symlinks=False)


_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest date a zip file can hold."""
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UNUSUAL = 0x1 | 0x20 | 0x40
"""Flags of an entry: encrypted, patch data, strongly encrypted."""


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
        raise Refused(f"the archive is larger than {ARCHIVE_BYTES >> 20} MiB", where=name, hint=_SMALLER)
    try:
        with _reading(name):
            opened = zipfile.ZipFile(archive)
        with opened:
            infos = opened.infolist()
            if len(infos) > FILES:
                raise Refused(f"the archive holds {len(infos)} files, more than {FILES}", where=name, hint=_PACK)
            files = [info for info in infos if _check(info)]
            for fault in _colliding(info.filename for info in files):
                raise Refused(fault.what, where=f"{name}: {fault.where}", hint=fault.hint)
            if sum(info.file_size for info in files) > TOTAL_BYTES:
                what = f"the archive unpacks to more than {TOTAL_BYTES >> 20} MiB in all"
                raise Refused(what, where=name, hint=_SMALLER)
            for info in files:
                _extract(opened, info, target)
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise storage_error(fault, target, "$TMPDIR") or fault from None
        raise Refused(f"the archive cannot be read: {fault}", where=name, hint=_PACK) from None
    tops = sorted(target.iterdir())
    return tops[0] if len(tops) == 1 and tops[0].is_dir() else target


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Report what zipfile raises for a broken archive as Refused; around its calls alone, so that no bug of ours is."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, UnicodeDecodeError, NotImplementedError, EOFError) as fault:
        raise Refused(f"the archive cannot be read: {fault}", where=where, hint=_PACK) from None


def _check(info: zipfile.ZipInfo) -> bool:
    """Whether an entry is a file to be written (True) or a folder. Raises Refused for anything else."""
    path, mode = info.filename.removesuffix("/"), info.external_attr >> 16
    folder = info.is_dir() and stat.S_IFMT(mode) in (0, stat.S_IFREG, stat.S_IFDIR)
    fault = unsafe(path) or (None if folder else _kind_fault(path, mode, info.file_size))
    if fault is not None:
        raise Refused(f"in the archive, {fault.what}", where=fault.where, hint=fault.hint)
    if info.flag_bits & _UNUSUAL or info.compress_type not in _PLAIN:
        raise Refused("the archive is encrypted or packed in an unusual way", where=path, hint=_PACK)
    return not folder


def _extract(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> None:
    """Write one file; zipfile gives at most the number of bytes that the directory promises, which was checked."""
    path = target.joinpath(*info.filename.split("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as sink, _reading(info.filename), archive.open(info) as source:
        shutil.copyfileobj(source, sink)
