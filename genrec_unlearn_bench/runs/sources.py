"""Which code a stage depends on: digests of the modules that its entry modules import, directly or not.

They are part of every stage's key. A changed line of the engine therefore re-runs the stages whose code it is, and
those alone; nobody has to remember to raise a number, and nothing stale is reused silently. Comments, docstrings and
blank lines do not count. ``key.json`` lists the digests by module, so a re-run can be explained. The price is that a
release which rewrites training code without changing a number trains again; a wrong hit would cost more.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import io
import tokenize
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

__all__ = ["code_digests", "source_digest"]

PACKAGE = "genrec_unlearn_bench"

INERT = frozenset(
    [
        PACKAGE,
        *(
            f"{PACKAGE}.{name}"
            for name in ("config", "errors", "progress", "registry", "runs.record", "evaluation.metric")
        ),
    ]
)
"""Modules that say things and compute nothing: the version number, messages, bars, records. How a configuration is
read changes what it holds, and that is part of every key by itself."""


def code_digests(roots: Iterable[str], files: Mapping[str, Path] | None = None) -> dict[str, str]:
    """Module name -> digest for the named modules and everything of this package that they import.

    ``files`` are Python files outside the package (a user's method) under names of their own, read anew each time, as
    they are imported anew each time; of them too, only the imports from this package are followed.
    """
    found: dict[str, str] = {}
    waiting = list(roots)
    for name, file in (files or {}).items():
        found[name], imports = _read(file)
        waiting.extend(imports)
    while waiting:
        module = waiting.pop()
        path = None if module in found or module in INERT else _path(module)
        if path is None:
            continue
        found[module], imports = _frozen(path)
        waiting.extend(imports)
    return dict(sorted(found.items()))


def source_digest(text: str) -> str:
    """blake2b-128 of Python source without comments, docstrings and blank lines."""
    lines = text.splitlines()
    for first, last in _docstring_lines(ast.parse(text)):
        lines[first - 1 : last] = [""] * (last - first + 1)
    kept = _without_comments("\n".join(lines) + "\n")
    return hashlib.blake2b("\n".join(kept).encode(), digest_size=16).hexdigest()


@cache
def _path(module: str) -> Path | None:
    if module != PACKAGE and not module.startswith(f"{PACKAGE}."):
        return None
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


@cache
def _frozen(path: Path) -> tuple[str, tuple[str, ...]]:
    """A module of this package, read once a process: what runs is what was imported, whatever is edited meanwhile."""
    return _read(path)


def _read(path: Path) -> tuple[str, tuple[str, ...]]:
    """The digest of a source file and the modules of this package that it may import."""
    text = path.read_text(encoding="utf-8")
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            # `from package import module` and `from module import name` look alike; both are tried.
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return source_digest(text), tuple(dict.fromkeys(name for name in names if name.startswith(PACKAGE)))


def _docstring_lines(tree: ast.Module) -> list[tuple[int, int]]:
    spans = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for line in node.body:
            # Strings that stand alone document the module, class, function or field above them.
            is_text = isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
            alone = is_text and isinstance(line.value.value, str)  # type: ignore[attr-defined]
            if alone and line.end_lineno is not None and len(node.body) > 1:
                spans.append((line.lineno, line.end_lineno))
    return spans


def _without_comments(text: str) -> list[str]:
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return [line.rstrip() for line in lines if line.strip()]
