"""What the page says of methods and tasks: of a method its own source, of a task the manifest that runs leave.

A method's source is read with ``ast`` and never imported: that would import torch, which reporting does without, and a
submitted file is not code to be run for a table. No task page needs the data.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

import genrec_unlearn_bench
from genrec_unlearn_bench.data.catalogue import DatasetSpec, packaged_datasets
from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.data.tasks import TaskSpec, tasks
from genrec_unlearn_bench.pipeline.results import MANIFEST
from genrec_unlearn_bench.registry import Entry, class_attribute, methods
from genrec_unlearn_bench.reporting.board import Block

_ROOT = Path(genrec_unlearn_bench.__file__).parent


class ConfigField(NamedTuple):
    """One setting of a method, as its source writes it; ``search`` are the values that tuning tries."""

    name: str
    default: str
    about: str
    search: str = ""


@dataclass(frozen=True)
class MethodPage:
    """What a method's source says of it.

    Attributes:
        entry: None for a method that is not installed.
        paragraphs: Of the module's docstring: the paper, what is updated, deviations.
        paper: Address of the paper that the docstring names first.
    """

    entry: Entry | None = None
    paragraphs: tuple[str, ...] = ()
    paper: str = ""
    variants: tuple[Entry, ...] = ()
    fields: tuple[ConfigField, ...] = ()


def method_pages(names: Sequence[str]) -> dict[str, MethodPage]:
    """A page for every method of some results and for what they are variants of; bare for one that does not ship.

    What other packages of this machine bring is left aside: the same results give the same page everywhere.
    """
    known = {name: entry for name, entry in methods().items() if entry.origin in ("runner", "package")}
    parents = [known[name].variant_of for name in names if name in known and known[name].variant_of]
    return {name: _method_page(known[name], known) if name in known else MethodPage() for name in (*names, *parents)}


def _method_page(entry: Entry, known: Mapping[str, Entry]) -> MethodPage:
    if entry.source is None:
        return MethodPage(entry)
    text = ast.get_docstring(_tree(entry.source)) or ""
    arxiv = re.search(r"arXiv[: ](\d{4}\.\d{4,5})", text)
    paper = f"https://arxiv.org/abs/{arxiv[1]}" if arxiv else ""
    if entry.variant_of:
        return MethodPage(entry, paper=paper)
    paragraphs = tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip())
    variants = tuple(other for other in known.values() if other.variant_of == entry.name)
    return MethodPage(entry, paragraphs, paper, variants, config_fields(entry.source, entry.target.rpartition(":")[2]))


def config_fields(path: Path, class_name: str) -> tuple[ConfigField, ...]:
    """The settings of the method class in a file, inherited ones included, in the order in which a config has them."""
    node = _class(path, class_name)
    config = class_attribute(node, "Config") if node else None
    search: dict[str, str] = {}
    fields: dict[str, ConfigField] = {}
    for level in reversed(list(_lineage(path, config.id)) if isinstance(config, ast.Name) else []):
        declared = class_attribute(level, "search")
        if isinstance(declared, ast.Call):
            search |= {word.arg: _values(word.value) for word in declared.keywords if word.arg}
        fields |= {field.name: field for field in _own_fields(level)}
    return tuple(field._replace(search=search.get(field.name, "")) for field in fields.values())


def _values(value: ast.expr) -> str:
    """The values that a search tries; those of a shared grid, which is named by a constant."""
    if isinstance(value, ast.Name):
        for line in _tree(_ROOT / "unlearning" / "search.py").body:
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == value.id:
                return _plain(line.value)
    return "" if ast.unparse(value) == "None" else _plain(value)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _class(path: Path, name: str) -> ast.ClassDef | None:
    return next((node for node in _tree(path).body if isinstance(node, ast.ClassDef) and node.name == name), None)


def _lineage(path: Path, name: str) -> Iterator[ast.ClassDef]:
    """A class and those it extends, as far as their source belongs to this package."""
    if node := _class(path, name):
        yield node
        for base in node.bases:
            if isinstance(base, ast.Name):
                yield from _lineage(path, base.id)
    elif home := _imported_from(path, name):
        yield from _lineage(home, name)


def _imported_from(path: Path, name: str) -> Path | None:
    """The file that a name is imported from, by its place alone: looking a module up would import its parents."""
    for node in _tree(path).body:
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            package, *parts = node.module.split(".")
            if package != genrec_unlearn_bench.__name__ or not parts:
                return None
            # Methods lie beside each other; in a checkout their folder is not below the package.
            folder = path.parent if parts[0] == "methods" else _ROOT.joinpath(*parts[:-1])
            return folder / f"{parts[-1]}.py"
    return None


def _own_fields(node: ast.ClassDef) -> Iterator[ConfigField]:
    """Annotated attributes of a class, each described by the docstring below it."""
    for line, below in zip(node.body, [*node.body[1:], None], strict=True):
        if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)):
            continue
        if line.target.id.startswith("_") or ast.unparse(line.annotation).startswith("ClassVar"):
            continue
        text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
        default = line.value
        if isinstance(default, ast.Call) and ast.unparse(default.func) == "Field":
            given = {word.arg: word.value for word in default.keywords}
            default = given.get("default", default.args[0] if default.args else None)
        yield ConfigField(line.target.id, _plain(default), " ".join(str(text).split()))


def _plain(value: ast.expr | None) -> str:
    """A literal without quotes and brackets, else the source; empty for nothing."""
    if value is None:
        return ""
    try:
        literal = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError):
        return ast.unparse(value)
    return ", ".join(map(str, literal)) if isinstance(literal, list | tuple) else str(literal)


@dataclass(frozen=True)
class TaskPage:
    """A task: the request and its data, where the package has them, and what it resolved to.

    Attributes:
        dataset: Name of the dataset, and ``data`` its declaration.
        health: By backbone and scale, the report that ``bench data sids --json`` prints.
    """

    spec: TaskSpec | None
    dataset: str
    data: DatasetSpec | None
    manifest: TaskManifest | None
    health: Mapping[str, Mapping[str, Any]]

    @property
    def request(self) -> list[tuple[str, str]]:
        """Names and values of the request's fields, its kind first."""
        if self.spec is None:
            return []
        concept = self.spec.concept
        fields = {"kind": concept.kind} | concept.model_dump(mode="json", exclude_none=True)
        return [(name.replace("_", " ").capitalize(), _text(value)) for name, value in fields.items()]

    @property
    def about_data(self) -> list[tuple[str, str]]:
        """Names and values of the dataset's declaration."""
        data = self.data
        if data is None:
            return []
        core = f"{data.k_core}-core" if data.k_core > 1 else "as published"
        facts = [("Title", data.title), ("Split", data.split), ("Filtering", core), ("Terms", data.terms)]
        return [fact for fact in facts if fact[1]] + [("Note", note) for note in data.notes]


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value[:20])) + (f" … ({len(value)})" if len(value) > 20 else "")
    return str(value)


def task_pages(
    blocks: Sequence[Block], *, manifests: Path | None = None, health: Path | None = None
) -> dict[str, TaskPage]:
    """A page for every task of some blocks, in their order.

    Args:
        manifests: Folder with ``<task>.json``, for results without a manifest beside them.
        health: Folder with ``<task>-<backbone>-<scale>.json``, as ``bench data sids --json`` prints them.
    """
    out = {}
    # Of what ships alone: a data folder of this machine would make pages that nobody else can make again.
    shipped = tasks()
    for name in dict.fromkeys(block.key.task for block in blocks):
        mine = [block for block in blocks if block.key.task == name]
        manifest, spec = _manifest(name, mine, manifests), shipped.get(name)
        dataset = spec.dataset if spec is not None else manifest.dataset if manifest is not None else ""
        reports = {}
        for backbone, scale in dict.fromkeys((block.key.backbone, block.key.scale) for block in mine):
            path = health / f"{name}-{backbone}-{scale}.json".replace("/", "_") if health is not None else None
            if path is not None and path.is_file():
                reports[f"{backbone}, {scale}"] = json.loads(path.read_bytes())
        out[name] = TaskPage(spec, dataset, packaged_datasets().get(dataset), manifest, reports)
    return out


def _manifest(name: str, blocks: Sequence[Block], folder: Path | None) -> TaskManifest | None:
    """The manifest beside any of the results, if it is the one they were made with; else the folder's."""
    for result in (result for block in blocks for row in block.rows for result in row.results.values()):
        found = _read_manifest(result.folder / MANIFEST)
        if found is not None and (found.task, found.digest) == (name, result.task_digest):
            return found
    return _read_manifest(folder / f"{name}.json") if folder is not None and "/" not in name else None


def _read_manifest(path: Path) -> TaskManifest | None:
    with suppress(OSError, ValidationError):
        return TaskManifest.model_validate_json(path.read_bytes())
    return None
