"""Writing files so that a reader sees all of a thing or nothing of it, and saying plainly why that failed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from genrec_unlearn_bench.errors import BenchError, StorageError, UsageError

WRITTEN = ".bench-files"
"""In a folder of outputs: a digest a line of all that ``write_outputs`` ever wrote there."""

_REFUSALS = {
    errno.ENOSPC: ("the disk is full", "free some space there, or choose another place"),
    errno.EDQUOT: ("the disk quota is used up", "free some space there, or choose another place"),
    errno.EROFS: ("the file system is read-only", "choose another place"),
    errno.EACCES: ("no permission", "have the permissions changed, or choose another place"),
    errno.EPERM: ("no permission", "have the permissions changed, or choose another place"),
    errno.EEXIST: ("a file stands where a folder is needed", "choose another place"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "choose another place"),
    errno.EFBIG: ("the file is larger than the limit for files (ulimit -f)", "raise the limit"),
    errno.EIO: ("the disk reports an input/output error", "check the disk, or choose another place"),
    errno.ESTALE: ("the file server has lost the folder", "mount it again, or choose another place"),
    errno.ENAMETOOLONG: ("a name in the path is too long", "choose a shorter name"),
    errno.ELOOP: ("a symbolic link leads back to itself", "remove the link, or choose another place"),
    errno.EMFILE: ("too many files are open (ulimit -n)", "raise the limit"),
    errno.ENFILE: ("too many files are open on this machine", "end other processes"),
    errno.ENOMEM: ("there is not enough memory (ulimit -v)", "raise the limit, or free some memory"),
}

_BY_TEXT = {os.strerror(number): number for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}


def storage_error(fault: BaseException, place: Path, option: str, *, verb: str = "write") -> StorageError | None:
    """The user's error for a refusal of the file system, or None where the fault is something else.

    ``place`` is named where the fault does not name its own; ``option`` is what the user chooses the place with.
    """
    code = fault.errno if isinstance(fault, OSError) else None
    # safetensors and pyarrow wrap the system's error in their own; only its text is left.
    if code is None:
        code = next((number for text, number in _BY_TEXT.items() if text in str(fault)), None)
    if code not in _REFUSALS:
        return None
    what, hint = _REFUSALS[code]
    # Where a file is copied or renamed, the first name is the source and the second the place that refused.
    where = getattr(fault, "filename2", None) or getattr(fault, "filename", None) or place
    return StorageError(f"cannot {verb}: {what}", where=str(where), hint=f"{hint} ({option}), and run it again")


@contextmanager
def guarded(place: Path, option: str, *, verb: str = "write") -> Iterator[None]:
    """Turn refusals of the file system inside the block into StorageError; other faults pass."""
    try:
        yield
    except Exception as fault:
        refusal = None if isinstance(fault, BenchError) else storage_error(fault, place, option, verb=verb)
        if refusal is None:
            raise
        raise refusal from fault


@contextmanager
def atomic_folder(target: Path, option: str, *, replace: bool = False) -> Iterator[Path]:
    """A temporary folder beside ``target`` that becomes it when the block ends, or vanishes when it fails.

    With ``replace`` an existing target gives way; without, it is kept and the new folder dropped. Interrupts (Ctrl-C)
    count as failures. Raises StorageError where the file system refuses.
    """
    draft = target.parent / f"{draft_prefix(target)}{uuid.uuid4().hex[:8]}"
    try:
        with guarded(target, option):
            draft.parent.mkdir(parents=True, exist_ok=True)
            draft.mkdir()
            yield draft
            _apply_umask(draft)
            # What the folder names has to be on the disk before the folder is, and both before its name.
            inside = sorted(draft.rglob("*"), key=lambda path: len(path.parts), reverse=True)
            for path in [*inside, draft]:
                sync(path)
            _move(draft, target, replace=replace)
            sync(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def atomic_text(target: Path, text: str, option: str, *, synced: bool = True) -> None:
    atomic_bytes(target, text.encode("utf-8"), option, synced=synced)


def atomic_bytes(target: Path, content: bytes, option: str, *, synced: bool = True) -> None:
    """Write a file through a hidden draft beside it, so that it is the old one or the new one. Raises StorageError.

    Args:
        synced: Whether that holds after a power cut as well.
    """
    draft = target.parent / f"{draft_prefix(target)}{uuid.uuid4().hex[:8]}"
    try:
        with guarded(target, option):
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(content)
            if synced:
                sync(draft)
            draft.replace(target)
            if synced:
                sync(target.parent)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def write_outputs(files: Mapping[Path, bytes], out: Path, option: str) -> list[Path]:
    """Write files beside those of a user's own, which are never replaced. Returns their paths.

    Raises:
        UsageError: One is there and is not as such a call left it; nothing has been written then.
        StorageError: Names ``option``, which ``out`` is the value of.
    """
    free = out.parent / "bench" / out.name if out in files else out / "bench"
    for path, content in files.items():
        with guarded(path, option, verb="read"):
            there = path.read_bytes() if path.is_file() else b""
        says_so = b"<!-- Made by `bench " in there[:200]
        if not says_so and _digest(there) not in (_digest(b""), _digest(content), *_written(path)):
            raise UsageError(
                f"{path} exists and was not made by bench, or has been changed since",
                hint=f"write to another place ({option} {free}), or move the file away",
            )
    for path, content in files.items():
        if (digest := _digest(content)) not in _written(path):
            # Before the file, as a call may end in between. In a place like /tmp the list may be somebody else's.
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.with_name(WRITTEN).open("a", encoding="utf-8") as listed:
                    listed.write(f"{digest}\n")
        atomic_bytes(path, content, option)
    return list(files)


def _written(path: Path) -> list[str]:
    with suppress(OSError):
        return path.with_name(WRITTEN).read_text(encoding="utf-8", errors="replace").split()
    return []


def _digest(content: bytes) -> str:
    """White space does not count: git and LaTeX change it."""
    return hashlib.blake2b(b" ".join(content.split()), digest_size=16).hexdigest()


def find_files(root: Path, name: str) -> list[Path]:
    """Every file of a name below a folder, sorted; hidden folders (drafts) and what vanishes meanwhile are left out."""
    found = []
    for place, folders, files in os.walk(root):
        folders[:] = [folder for folder in folders if not folder.startswith(".")]
        found += [Path(place, name)] if name in files else []
    return sorted(found, key=Path.as_posix)


def draft_prefix(target: Path) -> str:
    """How the temporary folders of a target are named; hidden, so that nobody takes them for results."""
    return f".draft-{target.name[:24]}-"


def sync(path: Path) -> None:
    """Have the system write a file or folder to the disk before going on (folders: where it can)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as fault:
        # Some network file systems know no fsync of folders: they write names through.
        if fault.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write indented JSON; infinities and NaN are refused, as JSON has none."""
    path.write_text(json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8")


def file_digest(path: Path) -> str:
    """blake2b-256 of a file's bytes, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.blake2b(digest_size=32)).hexdigest()


def folder_digest(digests: Mapping[str, str]) -> str:
    """One digest for a folder, from the digests of its files by relative path."""
    state = hashlib.blake2b(digest_size=32)
    for name in sorted(digests):
        state.update(f"{name}\0{digests[name]}\n".encode())
    return state.hexdigest()


def _apply_umask(draft: Path) -> None:
    """Give what lies in a folder the permissions that the folder itself got from the umask (or the parent's ACL).

    safetensors and other writers go through temporary files, which are private (0600) whatever the umask.
    """
    folder_mode = stat.S_IMODE(draft.stat().st_mode) & 0o777
    for path in draft.rglob("*"):
        mode = path.lstat().st_mode
        wanted = folder_mode if stat.S_ISDIR(mode) else folder_mode & 0o666
        if not stat.S_ISLNK(mode) and mode & 0o777 != wanted:
            path.chmod(wanted | stat.S_IMODE(mode) & ~0o777)


def _move(draft: Path, target: Path, *, replace: bool) -> None:
    """Rename the draft to its target; several processes may try that at once, and one of them comes last."""
    while True:
        try:
            draft.rename(target)
            return
        except OSError as fault:
            # A folder cannot be renamed onto one that holds something.
            if fault.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if not replace:
            return
        old = target.parent / f"{draft_prefix(target)}old-{uuid.uuid4().hex[:8]}"
        with suppress(FileNotFoundError):
            target.rename(old)
        shutil.rmtree(old, ignore_errors=True)
