"""Files of a submission's folder with their digests, the names they may have, and whatever must not lie there.

A name has to be the same file on every system, and never lead outside the folder.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from genrec_unlearn_bench.files import file_digest, folder_digest
from genrec_unlearn_bench.submissions.faults import Fault
from genrec_unlearn_bench.submissions.limits import FILES, SAFE_PART, TOTAL_BYTES, file_limit
from genrec_unlearn_bench.submissions.spec import SPEC

__all__ = ["VERIFICATION", "Inventory", "colliding", "content_digest", "layout_fault", "take_inventory", "unsafe"]

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

    def fault(what: str, hint: str = "pack the folder with `bench submit`") -> Fault:
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
        return Fault(what=what, where=path, hint="publish it with `bench submit`, and verify that")
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
