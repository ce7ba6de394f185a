"""What lies in a submission's folder: every file with its digest, and whatever must not lie there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from genrec_unlearn_bench.files import file_digest, folder_digest
from genrec_unlearn_bench.submissions.fault import Fault
from genrec_unlearn_bench.submissions.limits import FILES, TOTAL_BYTES, file_limit
from genrec_unlearn_bench.submissions.paths import colliding, layout_fault, unsafe
from genrec_unlearn_bench.submissions.spec import SPEC

__all__ = ["VERIFICATION", "Inventory", "content_digest", "take_inventory"]

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
