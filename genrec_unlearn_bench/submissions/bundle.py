"""A submission, or a tree of results, read whole before anything is checked; nothing in it is executed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.errors import ConfigError, UsageError
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD
from genrec_unlearn_bench.submissions.inventory import Inventory, take_inventory, unpack
from genrec_unlearn_bench.submissions.plain_text import Fault, Refused, plain_json
from genrec_unlearn_bench.submissions.publish import MANIFESTS, read_table
from genrec_unlearn_bench.submissions.spec import SPEC, Submission, parse_submission

if TYPE_CHECKING:
    import pandas as pd

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
        spec: None for a tree, and where submission.yaml cannot be read.
        faults: What could not be read, by the name of the check it belongs to.
        leaderboard: The leaderboard's folder, whose manifests and submissions this one is compared with.
    """

    root: Path
    inventory: Inventory
    is_tree: bool
    spec: Submission | None
    results: tuple[Result, ...]
    manifests: Mapping[str, TaskManifest]
    faults: Mapping[str, list[Fault]]
    leaderboard: Path

    @property
    def name(self) -> str:
        return self.spec.name if self.spec is not None else self.root.resolve().name

    def other_submissions(self) -> list[Path]:
        found = sorted((self.leaderboard / "submissions").glob("*"))
        return [one for one in found if one.is_dir() and one.name != self.name and one.resolve() != self.root.resolve()]

    def table(self, result: Result) -> tuple[pd.DataFrame, frozenset[str]] | None:
        """A result's per-user table and its withheld families; None for a diverged run without. Raises Refused."""
        path = result.table_path
        if path in self.inventory.digests:
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
    inventory = take_inventory(root)
    faults: dict[str, list[Fault]] = {"files": list(inventory.faults), "submission": [], "records": []}
    spec = None
    if SPEC in inventory.digests:
        try:
            spec = parse_submission((root / SPEC).read_bytes())
        except Refused as fault:
            faults["submission"].append(fault.fault)
        except ConfigError as fault:
            hint = "fix the field; `bench submission new --help` says what each one is"
            faults["submission"] += [Fault(what=line, where=SPEC, hint=hint) for line in fault.faults]
    results, manifests = [], {}
    for path in inventory.digests:
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
        inventory=inventory,
        is_tree=not (root / SPEC).exists(),
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
        first = fault.errors()[0]
        what = f"the file does not fit its schema: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise Refused(what, where=path, hint="publish it with `bench submission new`") from None
