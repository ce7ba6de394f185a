"""Method pages: what a method's own source says of it, read with ``ast`` and never imported.

Importing a method imports torch, which reporting does without, and a submitted file is not code to be run for a table.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import genrec_unlearn_bench
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.registry import Entry, methods
from genrec_unlearn_bench.reporting.html.payload_model import ConfigField, Fact, MethodPage

__all__ = ["config_fields", "known_methods", "method_pages"]

_ROOT = Path(genrec_unlearn_bench.__file__).parent
_DEPTH = 8
"""Configurations inherit from each other; a circle ends here."""


def known_methods() -> dict[str, Entry]:
    """The methods that ship; none where the installation is broken, as a page is no place to find that out.

    What other packages of this machine bring is left aside: the same results give the same page everywhere.
    """
    try:
        found = methods()
    except BenchError:
        return {}
    return {name: entry for name, entry in found.items() if entry.origin in ("runner", "package")}


def method_pages(names: Sequence[str], *, known: Mapping[str, Entry]) -> dict[str, MethodPage]:
    """A page for every method of some results and for what they are variants of; bare for one that is not installed."""
    wanted = dict.fromkeys(names)
    wanted |= dict.fromkeys(known[name].variant_of for name in names if name in known and known[name].variant_of)
    return {name: _page(known[name], known) if name in known else MethodPage(summary="") for name in wanted}


def config_fields(path: Path, class_name: str) -> tuple[ConfigField, ...]:
    """The settings of the method class in a file, inherited ones included, in the order in which a config has them."""
    classes = _classes(path)
    node = classes.get(class_name)
    if node is None:
        return ()
    config = next((value for name, value, _ in _assignments(node) if name == "Config"), None)
    if not isinstance(config, ast.Name):
        return ()
    fields: dict[str, ConfigField] = {}
    for level in reversed(list(_lineage(path, config.id, _DEPTH))):
        fields.update({field.name: field for field in _own_fields(level)})
    return tuple(fields.values())


def _page(entry: Entry, known: Mapping[str, Entry]) -> MethodPage:
    if entry.kind == "reference":
        return MethodPage(summary=entry.summary, reference=True)
    path = entry.source
    if path is None or not path.is_file():
        return MethodPage(summary=entry.summary, requires=entry.requires)
    if entry.variant_of:
        changes = tuple(Fact(name=name, text=str(value)) for name, value in entry.fields.items())
        return MethodPage(summary=entry.summary, variant_of=entry.variant_of, changes=changes)
    variants = tuple(
        Fact(name=name, text=_changes(other.fields))
        for name, other in known.items()
        if other.variant_of == entry.name and other.source == entry.source
    )
    shipped = entry.origin == "package"
    return MethodPage(
        summary=entry.summary,
        text=ast.get_docstring(_tree(path)) or "",
        file=f"methods/{path.name}" if shipped else path.name,
        requires=entry.requires,
        variants=variants,
        fields=config_fields(path, entry.target.rpartition(":")[2]),
    )


def _changes(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in fields.items())


@cache
def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ast.Module(body=[], type_ignores=[])


def _classes(path: Path) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in _tree(path).body if isinstance(node, ast.ClassDef)}


def _lineage(path: Path, name: str, depth: int) -> Iterator[ast.ClassDef]:
    """A class and those it extends, as far as their source belongs to this package."""
    node = _classes(path).get(name)
    if node is None:
        home = _imported_from(path, name)
        if home is not None and depth:
            yield from _lineage(home, name, depth - 1)
        return
    yield node
    for base in node.bases:
        if isinstance(base, ast.Name) and depth:
            yield from _lineage(path, base.id, depth - 1)


def _imported_from(path: Path, name: str) -> Path | None:
    """The file that a name is imported from, by its place alone: looking a module up would import its parents."""
    package = genrec_unlearn_bench.__name__
    for node in _tree(path).body:
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            head, _, rest = node.module.partition(".")
            if head != package or not rest:
                return None
            parts = rest.split(".")
            # Methods lie beside each other; in a checkout their folder is not below the package.
            folder = path.parent if parts[0] == "methods" else _ROOT.joinpath(*parts[:-1])
            return folder / f"{parts[-1]}.py"
    return None


def _assignments(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None, int]]:
    """Name, value and place of every assignment in a class."""
    for place, line in enumerate(node.body):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            yield line.target.id, line.value, place
        elif isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name):
            yield line.targets[0].id, line.value, place


def _own_fields(node: ast.ClassDef) -> Iterator[ConfigField]:
    for name, value, place in _assignments(node):
        line = node.body[place]
        if not isinstance(line, ast.AnnAssign) or name.startswith("_"):
            continue
        kind = ast.unparse(line.annotation)
        if kind.startswith("ClassVar"):
            continue
        default, search = _default(value)
        yield ConfigField(name=name, kind=kind, default=default, about=_doc_below(node, place), search=search)


def _default(value: ast.expr | None) -> tuple[str, str]:
    """Default and search space, as written."""
    if value is None:
        return "", ""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "Field"):
        return _plain(value), ""
    given = {word.arg: word.value for word in value.keywords if word.arg}
    default = given.get("default", value.args[0] if value.args else None)
    search = ""
    extra = given.get("json_schema_extra")
    if isinstance(extra, ast.Dict):
        for key, content in zip(extra.keys, extra.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "search":
                search = _plain(content)
    return _plain(default) if default is not None else "", search


def _plain(value: ast.expr) -> str:
    """JSON where it is a plain literal, else the source."""
    try:
        return json.dumps(ast.literal_eval(value))
    except (ValueError, TypeError, SyntaxError):
        return ast.unparse(value)


def _doc_below(node: ast.ClassDef, place: int) -> str:
    below = node.body[place + 1] if place + 1 < len(node.body) else None
    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
        return " ".join(below.value.value.split())
    return ""
