"""Which code a stage depends on: digests of the modules that its entry modules import, directly or not.

They are part of every stage's key, as one digest of them all. A changed line of the engine therefore re-runs the stages
whose code it is, and those alone; nobody has to remember to raise a number, and nothing stale is reused silently. What
cannot change an outcome does not count (``meaning``), and a refactor that was proven to change none keeps the keys
(``equal_code``). ``key.json`` lists the digests by module, so a re-run can be explained.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from genrec_unlearn_bench.store.meaning import meaning_digest, runtime_tree

__all__ = ["INERT", "PACKAGE", "code_digests", "module_digest", "module_file", "read_source"]

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

EVERYTHING = ".*"
"""Behind a module's name: its text, as it counts for whoever imports all names of it."""


def code_digests(roots: Iterable[str], files: Mapping[str, Path] | None = None) -> dict[str, str]:
    """Module name -> digest for the named modules and everything of this package that they import when they run.

    ``files`` are Python files outside the package (a user's method) under names of their own, read anew each time, as
    they are imported anew each time; of them too, only the imports from this package are followed.
    """
    own: dict[str, str] = {}
    waiting = list(roots)
    for name, file in (files or {}).items():
        own[name], imports = read_source(file)
        waiting.extend(imports)
    return dict(sorted({**_closure(PACKAGE, tuple(dict.fromkeys(waiting))), **own}.items()))


def module_digest(module: str) -> str | None:
    """The digest under which ``code_digests`` lists a module of this package today; None where there is none."""
    path = None if module in INERT else module_file(module.removesuffix(EVERYTHING))
    if path is None:
        return None
    return _text_digest(path) if module.endswith(EVERYTHING) else _frozen(path)[0]


@cache
def module_file(module: str) -> Path | None:
    """The file of a module of this package; None for all others."""
    if module != PACKAGE and not module.startswith(f"{PACKAGE}."):
        return None
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


@cache
def _closure(package: str, roots: tuple[str, ...]) -> Mapping[str, str]:
    """Planning asks for the same few hundred sets of modules tens of thousands of times."""
    found: dict[str, str] = {}
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        digest = None if module in found else module_digest(module)
        if digest is None:
            continue
        found[module] = digest
        path = module_file(module)
        if path is not None:
            waiting.extend(_frozen(path)[1])
    return found


@cache
def _frozen(path: Path) -> tuple[str, tuple[str, ...]]:
    """A module of this package, read once a process: what runs is what was imported, whatever is edited meanwhile."""
    return read_source(path)


@cache
def _text_digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def read_source(path: Path) -> tuple[str, tuple[str, ...]]:
    """The digest of a source file and the modules of this package that it may import when it runs."""
    text = path.read_text(encoding="utf-8")
    names: list[str] = []
    for node in ast.walk(runtime_tree(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            # `from package import module` and `from module import name` look alike; both are tried. A star takes what
            # __all__ says, which digests leave out, so it stands for the module's whole text.
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return meaning_digest(text), tuple(dict.fromkeys(name for name in names if name.startswith(PACKAGE)))
