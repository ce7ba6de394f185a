"""Templates of a new method and its test; both pass unchanged, so that an author changes one thing at a time."""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.registry import METHOD_PACKAGE, methods

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""Names of methods: kebab case, stricter than what the registry accepts."""
MAX_LENGTH = 24
"""Characters of a name in the column of tables."""


class MethodFiles(NamedTuple):
    """The written files, and the argument for ``--method`` and ``bench method check``."""

    method: Path
    test: Path
    method_option: str


def new_method(name: str, *, folder: Path | None = None, root: Path | None = None, year: int) -> MethodFiles:
    """Write a method file and its test to ``folder`` (None: the working folder).

    Args:
        root: A clone, to write to its ``methods/`` and ``tests/methods/`` instead.
        year: Year for the docstring.

    Raises:
        UsageError: The name is not allowed, or a file exists; nothing was written.
        StorageError: The folder cannot be written.
    """
    module = name.replace("-", "_")
    _check_name(name, module, in_tree=root is not None)
    place = folder or Path()
    method = (root / "methods" if root else place) / f"{module}.py"
    test = (root / "tests" / "methods" if root else place) / f"test_{module}.py"
    if existing := [str(path) for path in (method, test) if path.exists()]:
        raise UsageError(
            "nothing is overwritten", where=" and ".join(existing), hint="choose another name, or remove it"
        )
    words = {
        "name": name,
        "module": module,
        "cls": "".join(part.capitalize() for part in name.split("-")),
        "title": name.replace("-", " ").capitalize(),
    }
    texts = [_rendered(part, words, in_tree=root is not None, year=year) for part in ("method", "test_method")]
    if clash := re.search(rf"^(?:from|import)\b.*\b({words['cls']}(?:Config)?)\b", texts[0], re.MULTILINE):
        raise UsageError(f"its class would be named {clash[1]}, which the file imports", hint="choose another name")
    for path, text in zip((method, test), texts, strict=True):
        atomic_text(path, text, "--out")
    return MethodFiles(method, test, name if root else str(method))


def clone_root() -> Path | None:
    """The repository of this package if it is a clone with its tests."""
    root = Path(str(resources.files(METHOD_PACKAGE))).parent
    return root if (root / "pyproject.toml").is_file() and (root / "tests" / "methods").is_dir() else None


def _check_name(name: str, module: str, *, in_tree: bool) -> None:
    if not NAME.fullmatch(name) or len(name) > MAX_LENGTH:
        what = f"{name!r} is no name of a method: small letters, digits and single hyphens, at most {MAX_LENGTH}"
        raise UsageError(what, hint="such as my-method")
    if name in methods():
        raise UsageError(f"there is a method {name!r} already", hint="choose another name (bench ls methods)")
    # A file of that name in the working folder is found as well; it is reported as existing, not as installed.
    hides = not in_tree and not Path(f"{module}.py").exists() and importlib.util.find_spec(module) is not None
    if hides or keyword.iskeyword(module) or keyword.issoftkeyword(module):
        what = f"{module}.py would hide an installed module or a word of Python"
        raise UsageError(what, hint=f"for example {name}-unlearning")


def _rendered(part: str, words: Mapping[str, str], *, in_tree: bool, year: int) -> str:
    from jinja2 import Environment, StrictUndefined

    template = resources.files("genrec_unlearn_bench.leaderboard").joinpath("templates", "method", f"{part}.py.j2")
    # The output is Python, not HTML, and all inserted values are checked above.
    made = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False)  # noqa: S701
    return made.from_string(template.read_text(encoding="utf-8")).render(**words, in_tree=in_tree, year=year)
