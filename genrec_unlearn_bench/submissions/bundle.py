"""A submission, or a tree of results, read whole before anything is checked; nothing in it is executed.

Names have to be the same on every system, and never lead outside the folder. Archives are packed so that one folder
gives the same bytes, and unpacked without writing outside a folder or filling a disk.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from genrec_unlearn_bench.config import first_fault
from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.errors import ConfigError, UsageError
from genrec_unlearn_bench.files import file_digest, folder_digest, guarded, storage_error
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD
from genrec_unlearn_bench.submissions.plain_text import Fault, Refused, plain_json
from genrec_unlearn_bench.submissions.publish import MANIFESTS, read_table
from genrec_unlearn_bench.submissions.spec import SPEC, Submission, parse_submission

if TYPE_CHECKING:
    import pandas as pd

VERIFICATION = "verification.json"

FILES = 8000
"""Files in one submission: 16 tasks x 5 backbones x 50 seeds with two files each."""
TOTAL_BYTES = 512 << 20
"""All files together, unpacked."""
ARCHIVE_BYTES = 256 << 20
SIZES = {".yaml": 256 << 10, ".py": 256 << 10, ".json": 4 << 20}
"""Bytes of one file by its ending."""
FILE_BYTES = 32 << 20
"""Of any other file; the largest is an unabridged per-user table of a million rows."""
PATH_LENGTH, PATH_DEPTH = 300, 8

_PART = re.compile(r"(?!(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$))[a-z0-9][a-z0-9_.+-]{0,119}(?<!\.)\Z", re.IGNORECASE)
"""One part of a path: plain letters, so that it means the same on every system. A method may be named ``flat+``."""
_CELL = r"([A-Za-z0-9_.+-]+/){4}(result\.json|per_user\.parquet|measurements/[a-z0-9-]+\.csv)"
_SUBMISSION = re.compile(
    rf"^(submission\.yaml|verification\.json|method\.py|manifests/[a-z0-9_.-]+\.json|results/{_CELL})$"
)
_TREE = re.compile(rf"^(README\.md|verification\.json|manifests/[a-z0-9_.-]+\.json|{_CELL})$")
_PACK = "pack the folder with `bench submission new`"
_SMALLER = "withhold columns (--withhold similarity), or submit in parts"

SHIPPED = Path(str(resources.files("genrec_unlearn_bench.leaderboard")))
"""The installation's leaderboard."""

M = TypeVar("M", bound=BaseModel)

Finding = tuple[str, str] | tuple[str, str, str]
"""What a check finds: where, what, and how to fix it where that is not the check's own hint."""
Find = Callable[..., Iterator[Finding]]
Decorator = Callable[[Find], Find]


class Check(NamedTuple):
    """A check of the outcome; without ``find`` its faults are found while the bundle or a table is read."""

    hint: str = ""
    of: str = ""
    find: Find | None = None


CHECKS = {
    **dict.fromkeys(("files", "submission", "records"), Check()),
    "table": Check("run the cell again with this version of the suite"),
    "claim": Check("make it anew with `bench submission verify PATH --write`, or remove it"),
}
"""Every check by name."""


def check(of: Literal["bundle", "submission", "result", "table", "ranks"], hint: str) -> Decorator:
    """Register ``check_the_name``, a check of ``(bundle)``, ``(bundle, spec)``, ``(bundle, result)``,
    ``(bundle, result, table, withheld)`` or ``(bundle, hit ranks of all tables by place)``; the hint is how to fix what
    it finds, where a finding does not say it better."""

    def registered(find: Find) -> Find:
        CHECKS[find.__name__.removeprefix("check_").replace("_", "-")] = Check(hint, of, find)
        return find

    return registered


@dataclass(frozen=True)
class Result:
    """One result of a submission: its folder, relative to the submission's, and its record."""

    place: str
    record: RunRecord

    def at(self, field: str) -> str:
        return f"{self.place}/{RECORD}: {field}"

    @property
    def table_path(self) -> str:
        return f"{self.place}/{PER_USER}"


@dataclass(frozen=True, eq=False)
class Bundle:
    """A submission, or a tree of results without a submission.yaml.

    Attributes:
        digests: Of the files that are safe to read, by path.
        spec: None for a tree, and where submission.yaml cannot be read.
        faults: What could not be read, by the name of the check it belongs to.
        leaderboard: The leaderboard's folder, whose manifests and submissions this one is compared with.
    """

    root: Path
    digests: Mapping[str, str]
    spec: Submission | None
    results: tuple[Result, ...]
    manifests: Mapping[str, TaskManifest]
    faults: Mapping[str, list[Fault]]
    leaderboard: Path

    @property
    def is_tree(self) -> bool:
        return not (self.root / SPEC).exists()

    @property
    def name(self) -> str:
        return self.spec.name if self.spec is not None else self.root.resolve().name

    def other_submissions(self) -> list[Path]:
        found = sorted((self.leaderboard / "submissions").glob("*"))
        return [one for one in found if one.is_dir() and one.name != self.name and one.resolve() != self.root.resolve()]

    def table(self, result: Result) -> tuple[pd.DataFrame, frozenset[str]] | None:
        """A result's per-user table and its withheld families; None for a diverged run without. Raises Refused."""
        path = result.table_path
        if path in self.digests:
            return read_table((self.root / path).read_bytes(), path)
        if not result.record.diverged:
            raise Refused("there is no table of a run that has not diverged", where=path, hint=CHECKS["table"].hint)
        return None


@contextmanager
def opened(path: Path, leaderboard: Path | None = None) -> Iterator[Bundle]:
    """A folder's or an archive's bundle; the archive is unpacked to a folder that is removed afterwards.

    Raises Refused for an archive that is not safe to unpack and for a link, UsageError where there is nothing.
    """
    if path.is_symlink():
        raise Refused("the submission is a link", where=str(path), hint="give the folder or archive itself")
    if path.is_dir():
        yield load(path, leaderboard)
    elif path.is_file():
        with tempfile.TemporaryDirectory(prefix="bench-verify-") as place:
            yield load(unpack(path, Path(place)), leaderboard)
    else:
        raise UsageError("there is no such submission", where=str(path), hint="give a folder, or an archive's path")


def load(root: Path, leaderboard: Path | None = None) -> Bundle:
    """Read everything of a folder that can be read safely.

    Args:
        leaderboard: Its folder; None means the installation's.
    """
    digests, found = take_inventory(root)
    faults: dict[str, list[Fault]] = {"files": found, "submission": [], "records": []}
    spec = None
    if SPEC in digests:
        try:
            spec = parse_submission((root / SPEC).read_bytes())
        except Refused as fault:
            faults["submission"].append(fault.fault)
        except ConfigError as fault:
            hint = "fix the field; `bench submission new --help` says what each one is"
            faults["submission"] += [Fault(what=line, where=SPEC, hint=hint) for line in fault.faults]
    results, manifests = [], {}
    for path in digests:
        folder, _, name = path.rpartition("/")
        try:
            if name == RECORD:
                results.append(Result(folder, _model(RunRecord, root, path)))
            elif folder == MANIFESTS:
                manifests[name.removesuffix(".json")] = _model(TaskManifest, root, path)
        except Refused as fault:
            faults["records"].append(fault.fault)
    return Bundle(
        root=root,
        digests=digests,
        spec=spec,
        results=tuple(results),
        manifests=manifests,
        faults=faults,
        leaderboard=leaderboard or SHIPPED,
    )


def _model(model: type[M], root: Path, path: str) -> M:
    content = plain_json((root / path).read_bytes(), path)
    try:
        return model.model_validate(content)
    except ValidationError as fault:
        what = f"the file does not fit its schema: {first_fault(fault)}"
        raise Refused(what, where=path, hint="publish it with `bench submission new`") from None


def take_inventory(root: Path) -> tuple[dict[str, str], list[Fault]]:
    """Digests of the files below ``root`` that are safe to read, and what is wrong; no link is followed."""
    layout = _SUBMISSION if (root / SPEC).is_file() else _TREE
    digests: dict[str, str] = {}
    faults: list[Fault] = []
    total = 0
    for number, (path, status) in enumerate(_entries(root, "")):
        fault = _fault(path, status.st_mode, status.st_size)
        if fault is None and not layout.match(path):
            hint = "remove it; what `bench run` wrote is published with `bench submission new`"
            fault = Fault(what="there is a file that has no place here", where=path, hint=hint)
        total += status.st_size
        if number >= FILES or total > TOTAL_BYTES:
            what = f"there are more than {FILES} files, or more than {TOTAL_BYTES >> 20} MiB in all"
            faults.append(Fault(what=what, where=path, hint=_SMALLER))
            break
        if fault is None:
            digests[path] = file_digest(root / path)
        else:
            faults.append(fault)
    return dict(sorted(digests.items())), [*faults, *_colliding(sorted(digests))]


def content_digest(digests: Mapping[str, str]) -> str:
    """One digest of everything but the verification itself."""
    return folder_digest({path: digest for path, digest in digests.items() if path != VERIFICATION})


def _fault(path: str, mode: int, size: int, *, folder: bool = False) -> Fault | None:
    """What is wrong with an entry of a folder or an archive, if anything."""
    parts = path.split("/")
    plain = len(path) <= PATH_LENGTH and len(parts) <= PATH_DEPTH and all(map(_PART.match, parts))
    limit = SIZES.get(Path(path).suffix, FILE_BYTES)
    what = ""
    if not plain:
        what = "a name leads elsewhere, is too long or too deep, or does not mean the same on every system"
    elif stat.S_IFMT(mode) not in (0, stat.S_IFDIR if folder else stat.S_IFREG):
        what = "there is a link, or something else that is no file"
    elif not folder and mode & 0o111 and os.name != "nt":
        what = "there is an executable file"
    elif size > limit:
        what = f"a file is too large: {size} bytes, at most {limit}"
    return Fault(what=what, where=ascii(path[:PATH_LENGTH])[1:-1], hint=_PACK) if what else None


def _colliding(paths: Iterable[str]) -> Iterator[Fault]:
    seen = set[str]()
    for path in paths:
        if path.casefold() in seen:
            what = "a name is there twice, or differs from another one in case alone"
            yield Fault(what=what, where=path, hint="keep one of the two")
        seen.add(path.casefold())


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


def pack(folder: Path, target: Path) -> None:
    """Write every file of a folder, under the folder's name, to a zip file. Raises StorageError."""
    with guarded(target, "--out"), zipfile.ZipFile(target, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
            # Without a date, which would be the earliest that a zip file can hold.
            info = zipfile.ZipInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes(), compresslevel=9)


def unpack(archive: Path, target: Path) -> Path:
    """Unpack into the empty folder ``target``; returns the folder that holds the submission. Raises Refused."""
    name = archive.name
    try:
        with zipfile.ZipFile(archive) as opened:
            infos = opened.infolist()
            total = sum(info.file_size for info in infos)
            if archive.stat().st_size > ARCHIVE_BYTES or len(infos) > FILES or total > TOTAL_BYTES:
                what = f"the archive holds {len(infos)} files of {total >> 20} MiB, more than {FILES} or "
                raise Refused(f"{what}{TOTAL_BYTES >> 20} MiB", where=name, hint=_SMALLER)
            files = [info for info in infos if not info.is_dir()]
            for info in infos:
                path, mode = info.filename.removesuffix("/"), info.external_attr >> 16
                if fault := _fault(path, mode, info.file_size, folder=info.is_dir()):
                    raise Refused(f"in the archive, {fault.what}", where=fault.where, hint=fault.hint)
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise Refused("the archive cannot be read: it is packed in an unusual way", where=path, hint=_PACK)
            for fault in _colliding(info.filename for info in files):
                raise Refused(f"in the archive, {fault.what}", where=fault.where, hint=fault.hint)
            for info in files:
                # At most the number of bytes that the directory promises, which was checked.
                opened.extract(info, target)
    except (zipfile.BadZipFile, zlib.error, ValueError, RuntimeError, EOFError, OSError) as fault:
        if isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise storage_error(fault, target, "$TMPDIR") or fault from None
        raise Refused(f"the archive cannot be read: {fault}", where=name, hint=_PACK) from None
    tops = sorted(target.iterdir())
    return tops[0] if len(tops) == 1 and tops[0].is_dir() else target
