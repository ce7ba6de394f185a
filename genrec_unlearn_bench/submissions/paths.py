"""Which names the files of a submission may have: the same file on every system, and never outside the folder."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from genrec_unlearn_bench.submissions.fault import Fault
from genrec_unlearn_bench.submissions.limits import SAFE_PART

__all__ = ["colliding", "layout_fault", "unsafe"]

_LONGEST = 300
_RESERVED = re.compile(r"^(con|prn|aux|nul|com\d|lpt\d)(\..*)?$", re.IGNORECASE)
_CELL = r"([A-Za-z0-9_.+-]+/){4}(result\.json|per_user\.parquet|measurements/[a-z0-9-]+\.csv)"
_SUBMISSION = re.compile(
    rf"^(submission\.yaml|verification\.json|method\.py|manifests/[a-z0-9_.-]+\.json|results/{_CELL})$"
)
_TREE = re.compile(rf"^(README\.md|verification\.json|manifests/[a-z0-9_.-]+\.json|{_CELL})$")


def unsafe(path: str) -> Fault | None:
    """What is wrong with a relative path as it stands in an archive or a folder, if anything."""
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
