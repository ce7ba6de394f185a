"""A submission, or a tree of results, read whole before anything is checked; nothing in it is executed."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.errors import ConfigError, UsageError
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD
from genrec_unlearn_bench.registry import class_attribute
from genrec_unlearn_bench.submissions.faults import Fault, Refused, as_faults
from genrec_unlearn_bench.submissions.inventory import Inventory, content_digest, take_inventory, unpack
from genrec_unlearn_bench.submissions.plain_text import plain_json
from genrec_unlearn_bench.submissions.spec import METHOD_FILE, SPEC, Submission, parse_submission
from genrec_unlearn_bench.submissions.table import read_table

if TYPE_CHECKING:
    import pandas as pd

DEMO = "demo"
"""The dataset that everybody has, as it is generated."""


@cache
def demo_tasks() -> frozenset[str]:
    return frozenset(name for name, task in tasks().items() if task.dataset == DEMO)


@cache
def identities() -> tuple[tuple[str, ...], frozenset[str]]:
    """Names of the tasks, and of the datasets: what a method's source does not name."""
    return tuple(tasks()), frozenset(packaged_datasets())


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Result:
    """One result of a submission: its folder, relative to the submission's, and its record."""

    place: str
    record: RunRecord

    @property
    def record_path(self) -> str:
        return f"{self.place}/{RECORD}"

    def at(self, field: str) -> str:
        return f"{self.record_path}: {field}"

    @property
    def table_path(self) -> str:
        return f"{self.place}/{PER_USER}"


@dataclass(frozen=True, eq=False)
class Bundle:
    """A submission, or a tree of results without a submission.yaml.

    Attributes:
        spec: None for a tree, and where submission.yaml cannot be read.
        faults: What could not be read, by the name of the check it belongs to.
        leaderboard: The leaderboard's folder, whose manifests and submissions this one is held against.
    """

    root: Path
    name: str
    inventory: Inventory
    is_tree: bool
    spec: Submission | None
    results: tuple[Result, ...]
    manifests: Mapping[str, TaskManifest]
    faults: Mapping[str, tuple[Fault, ...]]
    leaderboard: Path

    @cached_property
    def digest(self) -> str:
        return content_digest(self.inventory.digests)

    @cached_property
    def variants(self) -> frozenset[str]:
        if self.spec is None or METHOD_FILE not in self.inventory.digests:
            return frozenset()
        return declared_names((self.root / METHOD_FILE).read_bytes()).get(self.spec.method.name, frozenset())

    def other_submissions(self) -> list[Path]:
        found = sorted((self.leaderboard / "submissions").glob("*"))
        return [one for one in found if one.is_dir() and one.name != self.name and one.resolve() != self.root.resolve()]

    def table(self, result: Result) -> tuple[pd.DataFrame, frozenset[str]]:
        """A result's per-user table and its withheld families. Raises Refused."""
        path = result.table_path
        if path not in self.inventory.digests:
            raise Refused("the per-user table is missing", where=path, hint="submit results with their tables")
        return read_table((self.root / path).read_bytes(), path)


def declared_names(source: bytes) -> dict[str, frozenset[str]]:
    """Names of the method classes in a file with the names of their variants, read without importing it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found = {}
    for node in ast.walk(tree):
        name = class_attribute(node, "name") if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.ClassDef) and isinstance(name, ast.Constant):
            variants = class_attribute(node, "variants")
            keys = variants.keys if isinstance(variants, ast.Dict) else []
            found[str(name.value)] = frozenset(str(one.value) for one in keys if isinstance(one, ast.Constant))
    return found


@contextmanager
def opened(path: Path, leaderboard: Path | None = None) -> Iterator[Bundle]:
    """A folder's or an archive's bundle; the archive is unpacked to a folder that is removed afterwards.

    Raises Refused for an archive that is not safe to unpack and for a link, UsageError where there is nothing.
    """
    if path.is_symlink():
        raise Refused("the submission is a link", where=str(path), hint="give the folder or archive itself")
    if path.is_dir():
        yield load(path, leaderboard)
        return
    if not path.is_file():
        raise UsageError("there is no such submission", where=str(path), hint="give a folder, or an archive's path")
    with tempfile.TemporaryDirectory(prefix="bench-verify-") as place:
        yield load(unpack(path, Path(place)), leaderboard)


def load(root: Path, leaderboard: Path | None = None) -> Bundle:
    """Read everything of a folder that can be read safely."""
    inventory = take_inventory(root)
    is_tree = not (root / SPEC).exists()
    faults: dict[str, list[Fault]] = {"files": list(inventory.faults), "submission": [], "records": [], "manifests": []}
    spec = None
    if SPEC in inventory.digests:
        try:
            spec = parse_submission((root / SPEC).read_bytes())
        except Refused as fault:
            faults["submission"].append(fault.fault)
        except ConfigError as fault:
            hint = "fix the field; `bench submission new --help` says what each one is"
            faults["submission"] += as_faults(((SPEC, line) for line in fault.faults), hint)
    results, manifests = [], {}
    for path in inventory.digests:
        folder, _, name = path.rpartition("/")
        try:
            if name == RECORD:
                results.append(Result(folder, _model(RunRecord, root, path)))
            elif folder == "manifests":
                manifests[name.removesuffix(".json")] = _model(TaskManifest, root, path)
        except Refused as fault:
            faults["records" if name == RECORD else "manifests"].append(fault.fault)
    return Bundle(
        root=root,
        name=spec.name if spec is not None else root.resolve().name,
        inventory=inventory,
        is_tree=is_tree,
        spec=spec,
        results=tuple(results),
        manifests=manifests,
        faults={name: tuple(found) for name, found in faults.items()},
        leaderboard=leaderboard or Path(str(resources.files("genrec_unlearn_bench.leaderboard"))),
    )


def _model(model: type[M], root: Path, path: str) -> M:
    content = plain_json((root / path).read_bytes(), path)
    try:
        return model.model_validate(content)
    except ValidationError as fault:
        first = fault.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        more = f" (and {fault.error_count() - 1} more)" if fault.error_count() > 1 else ""
        raise Refused(
            f"the file does not fit its schema: {place}: {first['msg']}{more}",
            where=path,
            hint="publish it with `bench submission new` from the results of `bench run`",
        ) from None
