"""Method pages: what a method's own source says of it, read with ``ast`` and never imported.

Importing a method imports torch, which reporting does without, and a submitted file is not code to be run for a table.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import genrec_unlearn_bench
from genrec_unlearn_bench.registry import Entry, methods

_ROOT = Path(genrec_unlearn_bench.__file__).parent


class ConfigField(NamedTuple):
    """One setting of a method, as its source writes it; ``search`` are the values that tuning tries."""

    name: str
    default: str
    about: str
    search: str


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
    return {name: _page(known[name], known) if name in known else MethodPage() for name in (*names, *parents)}


def config_fields(path: Path, class_name: str) -> tuple[ConfigField, ...]:
    """The settings of the method class in a file, inherited ones included, in the order in which a config has them."""
    node = _classes(path).get(class_name)
    config = next((line.value for line in _assignments(node) if line.name == "Config"), None) if node else None
    if not isinstance(config, ast.Name):
        return ()
    fields: dict[str, ConfigField] = {}
    for level in reversed(list(_lineage(path, config.id))):
        fields.update({field.name: field for field in _own_fields(level)})
    return tuple(fields.values())


def _page(entry: Entry, known: Mapping[str, Entry]) -> MethodPage:
    if entry.source is None:
        return MethodPage(entry)
    text = ast.get_docstring(_tree(entry.source)) or ""
    arxiv = re.search(r"arXiv[: ](\d{4}\.\d{4,5})", text)
    paper = f"https://arxiv.org/abs/{arxiv[1]}" if arxiv else ""
    if entry.variant_of:
        return MethodPage(entry, paper=paper)
    return MethodPage(
        entry,
        paragraphs=tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()),
        paper=paper,
        variants=tuple(other for other in known.values() if other.variant_of == entry.name),
        fields=config_fields(entry.source, entry.target.rpartition(":")[2]),
    )


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _classes(path: Path) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in _tree(path).body if isinstance(node, ast.ClassDef)}


def _lineage(path: Path, name: str) -> Iterator[ast.ClassDef]:
    """A class and those it extends, as far as their source belongs to this package."""
    node = _classes(path).get(name)
    if node is None:
        home = _imported_from(path, name)
        if home is not None:
            yield from _lineage(home, name)
        return
    yield node
    for base in node.bases:
        if isinstance(base, ast.Name):
            yield from _lineage(path, base.id)


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


class _Assignment(NamedTuple):
    name: str
    value: ast.expr | None
    about: str
    """The docstring below it."""
    kind: str
    """Its annotation; empty where it has none."""


def _assignments(node: ast.ClassDef) -> Iterator[_Assignment]:
    for line, below in zip(node.body, [*node.body[1:], None], strict=True):
        text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
        about = " ".join(text.split()) if isinstance(text, str) else ""
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            yield _Assignment(line.target.id, line.value, about, ast.unparse(line.annotation))
        elif isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name):
            yield _Assignment(line.targets[0].id, line.value, about, "")


def _own_fields(node: ast.ClassDef) -> Iterator[ConfigField]:
    for line in _assignments(node):
        if line.kind and not line.name.startswith("_") and not line.kind.startswith("ClassVar"):
            yield ConfigField(line.name, *_default(line.value, line.about))


def _default(value: ast.expr | None, about: str) -> tuple[str, str, str]:
    """Default, description and search space, as a reader writes them."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "Field"):
        return _plain(value), about, ""
    given = {word.arg: word.value for word in value.keywords if word.arg}
    extra = given.get("json_schema_extra")
    pairs = zip(extra.keys, extra.values, strict=True) if isinstance(extra, ast.Dict) else ()
    search = next((content for key, content in pairs if isinstance(key, ast.Constant) and key.value == "search"), None)
    return _plain(given.get("default", value.args[0] if value.args else None)), about, _plain(search)


def _plain(value: ast.expr | None) -> str:
    """A literal without quotes and brackets, else the source; empty for nothing."""
    if value is None:
        return ""
    try:
        literal = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError):
        return ast.unparse(value)
    return ", ".join(map(str, literal)) if isinstance(literal, list | tuple) else str(literal)
