"""Registry of unlearning methods: files of ``methods/``, and files named on the command line.

Importing a method imports torch, which is too slow for ``bench ls``. So names, summaries and requirements are read from
the source with ``ast``; the class itself is imported only when a run needs it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from genrec_unlearn_bench.errors import UnknownName, UsageError

METHOD_PACKAGE = "genrec_unlearn_bench.methods"

REFERENCE_ROWS = {
    "original": "The recommender before unlearning.",
    "retrain": "Retrained from scratch without the forget set; same SIDs. The target of every method.",
    "retrain-full": "Retrained without the forget set on new SIDs, made from texts without the concept.",
    "sasrec": "SASRec trained on the original data: a strong recommender that generates nothing.",
    "popularity": "The most popular train items, the same for every user.",
}
"""Baselines that the runner trains itself; they are rows of every table and need no method file."""

METHOD_IMPORTS = (
    *("errors", "config", "seeding", "progress", "tensors", "features", "sids", "decoding", "backbones"),
    *("unlearning", "methods", "testing", "data.examples", "data.forget", "data.items"),
    *("UnlearningMethod", "MethodConfig"),
)
"""Modules of the suite that a method may import: no test data and no retrained model can be reached through them."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")
"""Names are parts of file paths: no separators, and no leading dot or hyphen."""

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A method as described by its source, without importing it. Raises UsageError for a name that is not allowed."""

    kind: Literal["method", "reference"]
    name: str
    summary: str
    """First line of the docstring."""
    target: str
    """``module:Class``, or ``file.py:Class``, empty for a reference row."""
    origin: Literal["runner", "package", "file"]
    requires: tuple[str, ...] = ()
    """Capabilities the backbone must have, as far as the source declares them literally."""
    source: Path | None = None
    variant_of: str = ""
    """For a variant, the method whose configuration it changes in ``fields``."""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise UsageError(
                f"{self.name[:100]!a} cannot be the name of a method",
                where=str(self.source or self.target),
                hint="use letters, digits and -_+. only, at most 80 characters, beginning with a letter or digit",
            )

    @property
    def role(self) -> str:
        """``variant``, ``reference``, ``method``, or ``control`` where that is the first word of the method's file."""
        if self.variant_of:
            return "variant"
        text = "" if self.source is None else self.source.read_text(encoding="utf-8")
        return "control" if text.startswith('"""Control') else self.kind


def methods() -> dict[str, Entry]:
    """All known methods, their variants and the reference rows, by name. Raises UsageError for duplicate names."""
    found = {name: Entry("reference", name, text, target="", origin="runner") for name, text in REFERENCE_ROWS.items()}
    shipped = _package_entries()
    for entry in [*shipped, *(variant for each in shipped for variant in variants_of(each))]:
        if entry.name in found:
            raise _collision(entry, found[entry.name])
        found[entry.name] = entry
    return found


def find_method(text: str) -> Entry:
    """The entry for a name, or for ``path/to/file.py:ClassName``. Raises UnknownName with the nearest names."""
    known = methods()
    if ".py" not in text:
        if text not in known:
            raise UnknownName("method", text, known)
        return known[text]
    # A path without ":Class" means the only method in the file.
    place, _, class_name = (text, "", None) if text.endswith(".py") else text.rpartition(":")
    if not Path(place).is_file():
        hint = "--method takes a name or path/to/file.py:ClassName"
        raise UsageError(f"there is no method file {place!r}", hint=hint)
    path = Path(place).resolve()
    entry = _read_entry(path, class_name, origin="file", module=str(path))
    other = known.get(entry.name, entry)
    # The path of an installed method means that method.
    if other is not entry and (other.source is None or other.source.resolve() != entry.source):
        raise _collision(entry, other)
    return other


def load_class(entry: Entry, base: type[T]) -> type[T]:
    """Import the entry's class. Raises UsageError if that fails or it is not a subclass of ``base``."""
    place, _, class_name = entry.target.rpartition(":")
    if not place:
        raise UsageError(f"{entry.name!r} is a reference row and has no class", hint="pick a method: bench ls methods")
    try:
        module = _import_file(Path(place)) if entry.origin == "file" else importlib.import_module(place)
    except Exception as fault:
        frame = frame_in_file(fault, entry.source)
        raise UsageError(
            f"the method {entry.name!r} cannot be imported: {frame or f'{type(fault).__name__}: {fault}'}",
            where=str(entry.source or place),
            hint="fix the file, or install what it imports; --debug shows the traceback",
        ) from fault
    found = getattr(module, class_name, None)
    if not isinstance(found, type) or not issubclass(found, base):
        raise UsageError(
            f"{class_name!r} is not a subclass of {base.__name__}",
            where=str(entry.source or place),
            hint=f"derive the class from {base.__module__}.{base.__name__}",
        )
    return found


def imported(target: str) -> Any:
    """What ``module:name`` says: heavy modules are named so, and imported when they are needed."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def frame_in_file(fault: BaseException, source: Path | None) -> str:
    """``my_method.py:41 in unlearn: ZeroDivisionError: division by zero``: an exception by its last traceback frame in
    a method's file, empty if there is none."""
    wanted = source and source.resolve()
    what = ": ".join(filter(None, (type(fault).__name__, str(fault).strip().partition("\n")[0])))
    for frame in reversed(traceback.extract_tb(fault.__traceback__)):
        if Path(frame.filename).resolve() == wanted:
            return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}: {what}"
    return ""


def source_digest(entry: Entry) -> str:
    """blake2b-256 of the method's source file, or of the reference row's name, in hex."""
    content = entry.name.encode() if entry.source is None else entry.source.read_bytes()
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def summary(target: str) -> str:
    """First line of the docstring of a ``module:Class``, read without importing the module."""
    module, _, class_name = target.partition(":")
    spec = importlib.util.find_spec(module)
    tree = ast.parse(Path(str(spec and spec.origin)).read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name]
    return (_first_line(found[0]) if found else "") or _first_line(tree)


def _first_line(node: ast.ClassDef | ast.Module) -> str:
    text = (ast.get_docstring(node) or "").strip()
    return text.splitlines()[0] if text else ""


def _package_entries() -> list[Entry]:
    paths = sorted(Path(str(resources.files(METHOD_PACKAGE))).glob("[!_]*.py"))
    return [_read_entry(path, None, origin="package", module=f"{METHOD_PACKAGE}.{path.stem}") for path in paths]


def variants_of(entry: Entry) -> list[Entry]:
    """Entries of ``variants``, a literal dict of full names -> fields on the method's class.

    Raises UsageError if it is not a literal, or a name does not begin with the method's.
    """
    path = entry.source
    value = class_attribute(class_node(entry, path)[1], "variants") if path is not None else None
    if value is None:
        return []
    try:
        changes: dict[str, dict[str, Any]] = {name: dict(part) for name, part in ast.literal_eval(value).items()}
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            "`variants` cannot be read without importing the file",
            where=f"{path}:{value.lineno}",
            hint='write it as a plain literal: {"name": {"field": value}}',
        ) from None
    variants = []
    for name, fields in changes.items():
        if not name.startswith(entry.name):
            what = f"the variant {name!r} does not begin with the name of its method, {entry.name!r}"
            raise UsageError(what, where=str(path))
        summary = f"{entry.name} with {', '.join(f'{key}={value}' for key, value in fields.items())}"
        variants.append(replace(entry, name=name, summary=summary, variant_of=entry.name, fields=fields))
    return variants


def _read_entry(path: Path, wanted: str | None, *, origin: Literal["package", "file"], module: str) -> Entry:
    """Name, summary and requirements of the method class in a file: the public class that sets ``name``."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    except (SyntaxError, UnicodeDecodeError) as fault:
        where = f"{path}:{getattr(fault, 'lineno', None) or 1}"
        raise UsageError(f"the method file cannot be read: {fault}", where=where) from None
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    named = {name: node for name, node in classes.items() if class_attribute(node, "name") is not None}
    if wanted is not None and wanted not in classes:
        raise UnknownName("class", wanted, named or classes)
    chosen = [wanted] if wanted is not None else [name for name in named if not name.startswith("_")]
    if len(chosen) != 1:
        raise UsageError(
            f"expected one method class, found {', '.join(chosen) or 'none'}",
            where=str(path),
            hint="a method file holds one public subclass of UnlearningMethod, with `name` set",
        )
    node = classes[chosen[0]]
    value = class_attribute(node, "name")
    name = value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else node.name
    text = _first_line(node) or _first_line(tree)
    needs = class_attribute(node, "requires") or ast.Tuple([])
    parts = [part for part in ast.walk(needs) if isinstance(part, ast.Attribute)]
    requires = tuple(part.attr.lower() for part in parts if getattr(part.value, "id", "") == "Capability")
    return Entry("method", name, text, f"{module}:{node.name}", origin, requires, path)


def class_node(entry: Entry, path: Path) -> tuple[ast.Module, ast.ClassDef]:
    """Syntax trees of a method's file and of its class."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    wanted = entry.target.rpartition(":")[2]
    return tree, next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == wanted)


def class_attribute(node: ast.ClassDef, name: str) -> ast.expr | None:
    """The expression that a class body assigns to ``name``; None if there is none."""
    for line in node.body:
        targets = getattr(line, "targets", [getattr(line, "target", None)])
        if isinstance(line, ast.Assign | ast.AnnAssign) and name in [getattr(target, "id", "") for target in targets]:
            return line.value
    return None


def imported_modules(node: ast.AST) -> list[str]:
    """Full names of what an import statement imports: ``a.b`` of ``from a import b``; nothing for other nodes."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
    return []


def is_method_import(name: str) -> bool:
    """Whether a module of the suite (its full name) is one that a method may import."""
    inner = name.removeprefix("genrec_unlearn_bench.")
    return any(f"{inner}.".startswith(f"{part}.") for part in METHOD_IMPORTS)


def _import_file(path: Path) -> ModuleType:
    name = f"bench_method_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()}"
    module = ModuleType(name)
    module.__file__ = str(path)
    # Registered first: pydantic and dataclasses look up the module by name while classes are created.
    sys.modules[name] = module
    try:
        SourceFileLoader(name, str(path)).exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _collision(entry: Entry, other: Entry) -> UsageError:
    return UsageError(
        f"two methods are named {entry.name!r}",
        where=f"{entry.source or entry.target} and {other.source or other.target or 'the runner itself'}",
        hint="rename one of them",
    )
