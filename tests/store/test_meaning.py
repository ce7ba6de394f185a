"""What a source means: edits that cannot change an outcome keep the digest, all others change it."""

from __future__ import annotations

import ast
import types
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import genrec_unlearn_bench
from genrec_unlearn_bench.store.meaning import meaning_digest

SOURCE = '''"""A module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from package.engine import train

if TYPE_CHECKING:
    from package.data import Examples

__all__ = ["Config", "fit"]

T = TypeVar("T")
LIMIT = 3
"""How many."""


@dataclass(frozen=True)
class Config:
    """Settings."""

    lr: float = 1e-3
    """Step size."""
    names: Mapping[str, int] | None = None

    @property
    def double(self) -> float:
        """Twice."""
        return 2 * self.lr


@torch.no_grad()
def fit(examples: Examples, config: Config, *rest: Any, seed: int = 0) -> dict[str, float]:
    """Fit."""
    # a reason
    text = "# not a comment"
    total: int = 0
    for step in range(LIMIT):
        total += step
    if not text:
        pass
    return train(examples, lr=config.lr, seed=seed, total=total, rest=rest, text=text)
'''

FREE = [
    ('"""A module."""\n', '"""Another account,\nover two lines."""\n'),
    ('"""A module."""\n', ""),
    ('    """Twice."""\n', ""),
    ('    """Step size."""\n', '    """How far a step goes."""\n'),
    ('"""How many."""\n', ""),
    ("    # a reason\n", "    # reasons, and more of them\n\n"),
    ('"# not a comment"', "'# not a comment'"),
    ('"# not a comment"', '"# not " "a comment"'),
    ("1e-3", "0.001"),
    ("LIMIT = 3", "LIMIT = (3)"),
    ("range(LIMIT)", "range(\n        LIMIT,\n    )"),
    ('__all__ = ["Config", "fit"]', '__all__ = ["fit"]'),
    ('__all__ = ["Config", "fit"]\n', ""),
    ("    from package.data import Examples\n", "    from package.data import Examples, Items\n"),
    ("examples: Examples, config: Config", "examples: Items, config"),
    ("examples: Examples, config: Config", "examples: 'Examples', config: Config | None"),
    ("*rest: Any, seed: int = 0) -> dict[str, float]", "*rest: object, seed: float = 0) -> Any"),
    ("    total: int = 0", "    total = 0"),
    ("    total: int = 0", "    total: float = 0"),
    ("import Iterable, Mapping", "import Mapping"),
    ("import Iterable, Mapping", "import Callable, Mapping"),
    ("TYPE_CHECKING, Any, TypeVar", "TYPE_CHECKING, Any, Protocol, TypeVar"),
    ('T = TypeVar("T")\n', ""),
    ('T = TypeVar("T")\n', 'T = TypeVar("T", bound=int)\n'),
    ("    if not text:\n        pass\n", "    if not text:\n        ...\n"),
    ("        total += step\n", "        total += step  # noqa\n        pass\n"),
    ("    def double(self) -> float:", "    def double(self) -> Any:"),
]
"""Edits that leave the digest alone."""

COUNTED = [
    ("lr: float = 1e-3", "lr: float = 1e-4"),
    ("lr: float = 1e-3", "lr: int = 1e-3"),
    ("    names: Mapping[str, int] | None = None", "    names: Mapping[str, str] | None = None"),
    ("    lr: float = 1e-3\n", ""),
    ("LIMIT = 3", "LIMIT = 4"),
    ("LIMIT = 3", "LIMIT = 3.0"),
    ("LIMIT = 3", "LIMIT = True"),
    ("not a comment", "no comment"),
    ("total: int = 0", "total: int = 1"),
    ("    total: int = 0", "    total: int"),
    ("2 * self.lr", "self.lr * 2"),
    ("2 * self.lr", "2 - self.lr"),
    ("seed: int = 0", "seed: int = 1"),
    ("seed: int = 0", "seed: int"),
    ("*rest: Any, ", "*, "),
    ("@torch.no_grad()\n", ""),
    ("@torch.no_grad()", "@torch.no_grad(True)"),
    ("@property", "@cached"),
    ("@dataclass(frozen=True)", "@dataclass"),
    ("class Config:", "class Config(Base):"),
    ("from package.engine import train", "from package.motor import train"),
    ("import train", "import learn as train"),
    ("import torch", "import torch.nn"),
    ("from __future__ import annotations\n", ""),
    ("    if not text:\n        pass\n", ""),
    ("        total += step\n", "        total += 1\n"),
    ("range(LIMIT)", "range(1, LIMIT)"),
    ("step in range", "count in range"),
    ("return train", "yield train"),
    ("lr=config.lr, seed=seed", "seed=seed, lr=config.lr"),
    ("def fit", "async def fit"),
]
"""Edits that change it."""


def edited(old: str, new: str) -> str:
    assert old in SOURCE
    return SOURCE.replace(old, new, 1)


@pytest.mark.parametrize(("old", "new"), FREE, ids=range(len(FREE)))
def test_what_cannot_change_an_outcome_does_not_count(old: str, new: str) -> None:
    assert edited(old, new) != SOURCE
    assert meaning_digest(edited(old, new)) == meaning_digest(SOURCE)
    assert bytecode(edited(old, new)) == bytecode(SOURCE), "and the interpreter agrees"


@pytest.mark.parametrize(("old", "new"), COUNTED, ids=range(len(COUNTED)))
def test_what_may_change_an_outcome_counts(old: str, new: str) -> None:
    assert meaning_digest(edited(old, new)) != meaning_digest(SOURCE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("print(f.__doc__)\ndef f():\n    '''One.'''\n", "print(f.__doc__)\ndef f():\n    '''Two.'''\n"),
        ("def f(x: int): ...\n", "def f(x: str): ...\n"),
        ("@register\ndef f(x: int): ...\n", "@register\ndef f(x: str): ...\n"),
        (
            "import inspect\ninspect.signature\ndef f(x: int): ...\n",
            "import inspect\ninspect.signature\ndef f(x): ...\n",
        ),
        (
            "from typing import get_type_hints\ndef f(x: int): ...\n",
            "from typing import get_type_hints\ndef f(x): ...\n",
        ),
        (
            "TYPE_CHECKING = True\nif TYPE_CHECKING:\n    import a\n",
            "TYPE_CHECKING = True\nif TYPE_CHECKING:\n    import b\n",
        ),
        ("from typing import List\nx = List\n", "from typing import Dict as List\nx = List\n"),
        ("class A:\n    x: 'List'\nfrom typing import List\n", "class A:\n    x: 'List'\n"),
        ("__all__ = ['a']\n__all__ += b\n", "__all__ = ['a']\n__all__ += c\n"),
    ],
    ids=[
        "docstrings read",
        "annotations run",
        "unknown decorator",
        "signature",
        "hints",
        "own flag",
        "name",
        "quoted",
        "sum",
    ],
)
def test_where_annotations_or_docstrings_may_be_read_they_count(before: str, after: str) -> None:
    lazy = "" if before.startswith("def") else "from __future__ import annotations\n"
    assert meaning_digest(lazy + before) != meaning_digest(lazy + after)


def test_the_else_of_type_checking_is_what_runs() -> None:
    head = "from typing import TYPE_CHECKING\n"
    one = head + "if TYPE_CHECKING:\n    import a\nelse:\n    b = 1\n"
    assert meaning_digest(one) == meaning_digest("b = 1\n")
    assert meaning_digest(one.replace("b = 1", "b = 2")) != meaning_digest(one)


def test_a_known_source_has_a_known_digest() -> None:
    """If this fails, every stage is recomputed; it has to be the same in every version of Python."""
    assert meaning_digest(SOURCE) == PINNED


PINNED = "87eb64d736c02bdbfb32508a578d0ab4"

PACKAGE = Path(genrec_unlearn_bench.__file__).parent
FILES = sorted((PACKAGE / "backbones").rglob("*.py")) + sorted((PACKAGE / "unlearning").rglob("*.py"))


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.data())
def test_equal_digests_mean_equal_bytecode_on_edits_of_real_modules(data: st.DataObject) -> None:
    """One line of a real module is taken out, doubled or swapped with the next; what still is Python is compared."""
    lines = data.draw(st.sampled_from(FILES)).read_text(encoding="utf-8").splitlines(keepends=True)
    before = "".join(lines)
    if len(lines) < 3:
        return
    at = data.draw(st.integers(0, len(lines) - 2))
    match data.draw(st.sampled_from(["out", "double", "swap", "number"])):
        case "out":
            del lines[at]
        case "double":
            lines.insert(at, lines[at])
        case "swap":
            lines[at : at + 2] = [lines[at + 1], lines[at]]
        case "number":
            lines[at] = "".join(str((int(c) + 1) % 10) if c.isdigit() else c for c in lines[at])
    after = "".join(lines)
    try:
        code = bytecode(after)
    except (SyntaxError, ValueError):
        return
    if meaning_digest(before) == meaning_digest(after):
        assert code == bytecode(before)


def bytecode(text: str) -> object:
    """What the interpreter would run, without line numbers, docstrings, ``__all__`` and what is for type checkers."""
    tree = _Stripped().visit(ast.parse(text))
    return _plain(compile(ast.fix_missing_locations(tree), "m", "exec", dont_inherit=True, optimize=0))


def _plain(code: types.CodeType) -> tuple[object, ...]:
    constants = tuple(_plain(one) if isinstance(one, types.CodeType) else repr(one) for one in code.co_consts)
    return code.co_name, code.co_code, constants, code.co_names, code.co_varnames, code.co_flags


class _Stripped(ast.NodeTransformer):
    """By hand and without regard to exceptions: the check of a check has to be another program."""

    def __init__(self) -> None:
        self.depth: list[str] = []

    def visit(self, node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return ast.Pass()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return ast.Pass()
        if isinstance(node, ast.ImportFrom) and node.module in ("typing", "collections.abc", "numpy.typing", "types"):
            return ast.Pass()
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            called = node.value.func if isinstance(node.value, ast.Call) else None
            if node.targets[0].id == "__all__" or (isinstance(called, ast.Name) and called.id == "TypeVar"):
                return ast.Pass()
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.AnnAssign) and "class" not in self.depth[-1:] and node.value is not None:
            node = ast.Assign(targets=[node.target], value=node.value)
        is_class, is_function = isinstance(node, ast.ClassDef), isinstance(node, ast.FunctionDef)
        if is_function:
            node.returns = None
        if is_class or is_function:
            self.depth.append("class" if is_class else "function")
        found = super().generic_visit(node)
        if is_class or is_function:
            self.depth.pop()
        body = getattr(found, "body", None)
        if isinstance(body, list):
            found.body = [line for line in body if not isinstance(line, ast.Pass)] or [ast.Pass()]
        return found
