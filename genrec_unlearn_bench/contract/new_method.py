"""Writes a method's first file and its test: both pass as they are, so that an author changes one thing at a time."""

from __future__ import annotations

import ast
import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.registry import METHOD_PACKAGE, methods

__all__ = ["Written", "clone_root", "new_method"]

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 24
"""Characters of a name; tables have a column for it."""

TEMPLATES = ("templates", "method")
CONTENT = "genrec_unlearn_bench.leaderboard"


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
        method_option: What ``--method`` and ``bench check`` take for it.
    """

    name: str
    method: Path
    test: Path
    method_option: str


def new_method(name: str, *, folder: Path | None, in_tree: bool, year: int) -> Written:
    """Write the two files.

    Args:
        folder: Where both go; None for ``methods/`` and ``tests/methods/`` of the clone.
        in_tree: Whether the method is to be part of the suite.
        year: For the docstring.

    Raises:
        UsageError: The name will not do, or a file is there already; nothing was written.
        StorageError: The folder cannot be written.
    """
    module = name.replace("-", "_")
    _check_name(name, module, in_tree=in_tree)
    if in_tree:
        root = clone_root()
        if root is None:
            raise UsageError(
                "the suite is installed as a package here, and a method of its own belongs into a clone",
                hint="leave out --in-tree (--dir says where the files go), or clone the repository",
            )
        method, test = root / "methods" / f"{module}.py", root / "tests" / "methods" / f"test_{module}.py"
    else:
        place = folder or Path()
        method, test = place / f"{module}.py", place / f"test_{module}.py"
    there = [str(path) for path in (method, test) if path.exists()]
    if there:
        raise UsageError("nothing is overwritten", where=" and ".join(there), hint="choose another name, or remove it")
    texts = [_rendered(part, name, module, in_tree=in_tree, year=year) for part in ("method", "test_method")]
    _check_class(_class_name(name), texts[0])
    for path, text in zip((method, test), texts, strict=True):
        with guarded(path, "--dir"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return Written(name, method, test, name if in_tree else str(method))


def clone_root() -> Path | None:
    """The repository that this package is run from, where it is a clone with its tests."""
    spec = importlib.util.find_spec(METHOD_PACKAGE)
    for place in (spec.submodule_search_locations if spec else None) or ():
        root = Path(place).parent
        if (root / "pyproject.toml").is_file() and (root / "tests" / "methods").is_dir():
            return root
    return None


def _check_name(name: str, module: str, *, in_tree: bool) -> None:
    if not NAME.fullmatch(name):
        near = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()).strip("-")
        hint = f"for example {near}" if NAME.fullmatch(near) else "for example my-method"
        raise UsageError(f"{name!r} is no name of a method: small letters, digits and single hyphens", hint=hint)
    if len(name) > LONGEST:
        raise UsageError(f"{name!r} has {len(name)} characters, and tables have room for {LONGEST}", hint="shorten it")
    if name in methods():
        raise UsageError(f"there is a method {name!r} already", hint="choose another name (bench ls methods)")
    if keyword.iskeyword(module) or keyword.issoftkeyword(module):
        raise UsageError(
            f"{module!r} is a word of Python, and no module can have it", hint=f"for example {name}-method"
        )
    if not in_tree and (module in sys.stdlib_module_names or _installed(module)):
        raise UsageError(
            f"a file {module}.py would hide the installed module {module!r}", hint=f"for example {name}-unlearning"
        )


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None and Path(f"{module}.py").resolve() != _origin(module)
    except (ImportError, ValueError):
        return False


def _origin(module: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    return Path(spec.origin).resolve() if spec is not None and spec.origin else None


def _check_class(name: str, text: str) -> None:
    """Raises UsageError where the class would have the name of something that its file imports."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    clash = sorted({name, f"{name}Config"} & imported)
    if clash:
        raise UsageError(f"its class would be named {clash[0]}, which the file imports", hint="choose another name")


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def _rendered(part: str, name: str, module: str, *, in_tree: bool, year: int) -> str:
    from jinja2 import Environment, StrictUndefined

    place = resources.files(CONTENT).joinpath(*TEMPLATES, f"{part}.py.j2")
    # Python is written, not HTML; all that is filled in has been checked above.
    made = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False)  # noqa: S701
    words = {"name": name, "module": module, "cls": _class_name(name), "title": name.replace("-", " ").capitalize()}
    return made.from_string(place.read_text(encoding="utf-8")).render(**words, in_tree=in_tree, year=year)
