"""Methods written in a notebook cell or a script: the class as a file of its own, to be run, keyed and submitted.

The file holds the class, and those imports, constants, functions and classes of its cell that it uses, in their order;
calls in the cell, which may run the method, are left out.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import linecache
import symtable
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.registry import methods

if TYPE_CHECKING:
    from genrec_unlearn_bench.unlearning.method import UnlearningMethod

FOLDER = ".methods"
"""Folder of such files in a results folder."""

_DEFINING = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef)

REGISTERED: dict[str, type[UnlearningMethod[Any]]] = {}
"""Methods of this session by name."""

M = TypeVar("M", bound="type[UnlearningMethod[Any]]")


def register(cls: M) -> M:
    """Make a method known by its name in this session. Raises UsageError as ``api.register_method`` says."""
    from genrec_unlearn_bench.unlearning.method import UnlearningMethod

    is_method = isinstance(cls, type) and issubclass(cls, UnlearningMethod)
    if not is_method or not isinstance(getattr(cls, "name", None), str):
        hint = "pass the class itself" if isinstance(cls, UnlearningMethod) else "derive one and set its `name`"
        raise UsageError(f"{cls!r} is no subclass of UnlearningMethod with a name", hint=hint)
    if cls.name in methods():
        raise UsageError(f"the name {cls.name!r} belongs to a method of the suite", hint="choose another name")
    if in_session(cls):
        cell_source(cls)
    REGISTERED[cls.name] = cls
    return cls


def method_name(method: str | Path | type[UnlearningMethod[Any]], results_dir: Path) -> str:
    """What ``--method`` takes for a name, a path or a class. Raises UnknownName, or UsageError as ``register``."""
    known, found = methods(), REGISTERED.get(method, method) if isinstance(method, str) else method
    if isinstance(found, str | Path):
        if ".py" not in str(found) and found not in known:
            raise UnknownName("method", str(found), [*known, *REGISTERED])
        return str(found)
    own = known.get(getattr(found, "name", ""))
    if own is not None and isinstance(found, type) and own.target == f"{found.__module__}:{found.__qualname__}":
        return own.name
    return method_file(register(found), results_dir)


def method_file(cls: type, results_dir: Path) -> str:
    """``path/to/file.py:Class`` of a method class, where a module holds it, else of a file that is written here.

    Raises UsageError for a source that is not known or not complete, StorageError where it cannot be written.
    """
    path = Path(_file_of(cls))
    if in_session(cls):
        text = cell_source(cls)
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        path = results_dir / FOLDER / digest / f"{cls.__name__.lower()}.py"
        if not path.is_file():
            atomic_text(path, text, "results_dir")
    return f"{path}:{cls.__qualname__}"


def in_session(cls: type) -> bool:
    """Whether a class is of a notebook or the running script, which cannot be imported again."""
    return cls.__module__ == "__main__" or not Path(_file_of(cls)).is_file()


def cell_source(cls: type) -> str:
    """The source of a class without a file: itself and what it uses of the cell it was written in. Raises UsageError"""
    where = f"class {cls.__qualname__}"
    text = "".join(linecache.getlines(_file_of(cls)))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        hint = "write it in a cell without %magics"
        raise UsageError("the cell of the method is no plain Python", where=where, hint=hint) from None
    statements = [node for node in tree.body if isinstance(node, _DEFINING)]
    classes = [node for node in statements if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
    wanted: list[ast.stmt] = [*classes[-1:]]
    if not wanted or cls.__qualname__ != cls.__name__:
        hint = "define the class at the top of a cell or a file"
        raise UsageError("the source of the method is not known", where=where, hint=hint)
    for node in wanted:
        # What it uses, and what that uses, and so on.
        used = set(_free_names(_segment(text, node)))
        wanted += [other for other in statements if other not in wanted and used & set(_defined(other))]
    future = [node for node in statements if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    docstring = tree.body[:1] if ast.get_docstring(tree) is not None else []
    kept = [*docstring, *(node for node in statements if node in wanted or node in future)]
    source = "\n".join(_segment(text, node) for node in kept) + "\n"
    known = {name for node in wanted for name in _defined(node)} | set(dir(builtins)) | {"__name__", "__file__"}
    if missing := sorted(set(_free_names(source)) - known):
        raise UsageError(
            f"the method uses names that its cell does not define: {', '.join(missing)}",
            where=where,
            hint="put imports, constants and functions that the class uses into the same cell",
        )
    return source


def _file_of(cls: type) -> str:
    """Where a class stands, by the code of a function of its own, or the file of its module."""
    own = (one for one in vars(cls).values() if inspect.isfunction(one) and one.__module__ == cls.__module__)
    module = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return next((inspect.unwrap(one).__code__.co_filename for one in own), module or "")


def _segment(text: str, node: ast.stmt) -> str:
    """The lines of a statement; a decorator that registers the class is left out."""
    decorators = [ast.unparse(each) for each in getattr(node, "decorator_list", ())]
    lines = [f"@{each}" for each in decorators if not each.endswith("register_method")]
    blank = [""] * 2 if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    return "\n".join([*blank, *lines, *text.splitlines()[node.lineno - 1 : node.end_lineno]])


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]


def _free_names(source: str) -> Iterator[str]:
    """Names that some source reads from its module, or from nowhere."""

    top = symtable.symtable(source, "<cell>", "exec")
    tables = [top]
    for table in tables:
        tables += table.get_children()
        for name in table.get_symbols():
            if name.is_referenced() and (table is top or name.is_global()):
                yield name.get_name()
