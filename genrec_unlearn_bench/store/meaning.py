"""What a source file means, as a digest: what cannot change an outcome is left out, everything else counts.

Left out are comments, formatting, quotes, docstrings, ``__all__``, imports under ``TYPE_CHECKING``, annotations of
functions and variables, and names that only these needed. Annotated fields of classes do count: pydantic and
dataclasses read them. Where a module reads docstrings or annotations itself, or a decorator might, they count as well.
Two texts of one digest therefore do the same; two that do the same may have different digests (``equal_code`` is for
those).

The tree is written out by rules of this file and not by ``ast.dump``, whose form differs between Python versions.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import cast

__all__ = ["meaning_digest", "runtime_tree"]

_DOCUMENTED = frozenset({"__doc__", "getdoc", "get_docstring", "getsource"})
"""A module that mentions one of these may compute with docstrings."""

_ANNOTATED = frozenset(
    {"__annotations__", "get_type_hints", "get_annotations", "signature", "singledispatch", "singledispatchmethod"}
    | {"validate_call", "Signature", "getfullargspec"}
)
"""A module that mentions one of these may compute with annotations of functions."""

_INERT_DECORATORS = frozenset(
    {"property", "setter", "staticmethod", "classmethod", "abstractmethod", "override", "final", "overload", "wraps"}
    | {"cache", "lru_cache", "cached_property", "contextmanager", "model_validator", "field_validator"}
    | {"no_grad", "inference_mode", "enable_grad", "once_differentiable"}
)
"""Decorators that read no annotation. Functions under any other keep theirs."""

_TYPING = frozenset({"typing", "typing_extensions", "collections.abc", "types", "numpy.typing"})
"""Modules whose names may be imported without effect."""

_TYPE_MAKERS = frozenset({"TypeVar", "ParamSpec", "TypeVarTuple"})

_SKIPPED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields of nodes that say nothing, or what their place says already."""


def meaning_digest(text: str) -> str:
    """blake2b-128 of what a Python source does. Raises SyntaxError."""
    parts: list[str] = []
    _write(runtime_tree(text), parts)
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def runtime_tree(text: str) -> ast.Module:
    """The syntax tree without what cannot change an outcome. Raises SyntaxError."""
    tree = ast.parse(text)
    names = set(_mentioned(tree))
    lazy = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
    pruner = _Pruner(
        documents=bool(names & _DOCUMENTED),
        # Without the future import, annotations are evaluated when a function is defined.
        annotations=bool(names & _ANNOTATED) or not lazy,
        checks_types=_imports_type_checking(tree),
    )
    # A visitor may return any node; of a module this one returns a module.
    pruned = cast("ast.Module", pruner.visit(tree))
    _drop_unused(pruned)
    return pruned


def _mentioned(tree: ast.AST) -> Iterator[str]:
    """Every name, attribute and imported name that stands in a tree, and identifiers in strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            # getattr(module, "__doc__"), and annotations in quotes that something evaluates.
            yield node.value


def _imports_type_checking(tree: ast.Module) -> bool:
    """Whether ``TYPE_CHECKING`` is typing's constant here, and nothing else gives it another value."""
    imported = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "typing"
        and any(alias.name == "TYPE_CHECKING" and alias.asname is None for alias in node.names)
        for node in tree.body
    )
    bound = any(
        isinstance(node, ast.Name) and node.id == "TYPE_CHECKING" and not isinstance(node.ctx, ast.Load)
        for node in ast.walk(tree)
    )
    return imported and not bound


class _Pruner(ast.NodeTransformer):
    """Takes out what has no effect, level by level."""

    def __init__(self, *, documents: bool, annotations: bool, checks_types: bool) -> None:
        self._documents = documents
        self._annotations = annotations
        self._checks_types = checks_types
        self._in_class = False

    def visit_Module(self, node: ast.Module) -> ast.AST:
        node.body = [line for line in node.body if not _declares_exports(line)]
        return self._with_bodies(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node, in_class=True)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if self._annotations or self._in_class:
            return self.generic_visit(node)
        if node.value is None:
            # Without a value it still makes the name a local one.
            node.annotation = ast.Constant(value=None)
            return self.generic_visit(node)
        return self.generic_visit(ast.Assign(targets=[node.target], value=node.value))

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        if self._checks_types and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            kept: list[ast.stmt] = []
            for line in node.orelse:
                found = self.visit(line)
                kept += found if isinstance(found, list) else [found] if found is not None else []
            return kept
        return self._with_bodies(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return self._with_bodies(node) if isinstance(getattr(node, "body", None), list) else super().generic_visit(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if not self._annotations and all(_name_of(one) in _INERT_DECORATORS for one in node.decorator_list):
            node.returns = None
            arguments = node.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                argument.annotation = None
            for rest in (arguments.vararg, arguments.kwarg):
                if rest is not None:
                    rest.annotation = None
        return self._inside(node, in_class=False)

    def _inside(self, node: ast.AST, *, in_class: bool) -> ast.AST:
        before, self._in_class = self._in_class, in_class
        try:
            return self._with_bodies(node)
        finally:
            self._in_class = before

    def _with_bodies(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            lines = getattr(node, name, None)
            if isinstance(lines, list):
                setattr(node, name, [line for line in lines if not self._is_idle(line)])
        return node

    def _is_idle(self, line: ast.stmt) -> bool:
        if isinstance(line, ast.Pass):
            return True
        if not isinstance(line, ast.Expr) or not isinstance(line.value, ast.Constant):
            return False
        return not (self._documents and isinstance(line.value.value, str))


def _declares_exports(line: ast.stmt) -> bool:
    return (
        isinstance(line, ast.Assign)
        and len(line.targets) == 1
        and isinstance(line.targets[0], ast.Name)
        and line.targets[0].id == "__all__"
        and isinstance(line.value, ast.List | ast.Tuple)
    )


def _name_of(decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call):
        return _name_of(decorator.func)
    if isinstance(decorator, ast.Attribute):
        return decorator.attr
    return decorator.id if isinstance(decorator, ast.Name) else ""


def _drop_unused(tree: ast.Module) -> None:
    """Take out names at the module's level that come from typing and that nothing left in it mentions."""
    while True:
        # Without the lines that make type variables: TypeVar("T") names T itself.
        used = _uses([line for line in tree.body if not _makes_types(line)])
        body = [kept for line in tree.body for kept in _without_types(line, used)]
        if len(body) == len(tree.body) and all(new is old for new, old in zip(body, tree.body, strict=True)):
            return
        tree.body = body


def _uses(lines: list[ast.stmt]) -> set[str]:
    """Names that are read, and everything in a string: annotations of classes are often written so."""
    found: set[str] = set()
    for node in (node for line in lines for node in ast.walk(line)):
        if isinstance(node, ast.Name) and not (isinstance(node.ctx, ast.Store)):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(part for part in "".join(c if c.isalnum() or c == "_" else " " for c in node.value).split())
        elif isinstance(node, ast.Global):
            found.update(node.names)
    return found


def _without_types(line: ast.stmt, used: set[str]) -> list[ast.stmt]:
    if isinstance(line, ast.ImportFrom) and line.level == 0 and line.module in _TYPING:
        names = [alias for alias in line.names if alias.name == "*" or (alias.asname or alias.name) in used]
        if len(names) == len(line.names):
            return [line]
        return [ast.ImportFrom(module=line.module, names=names, level=0)] if names else []
    return [] if isinstance(line, ast.Assign) and _makes_types(line) and not _targets(line) & used else [line]


def _makes_types(line: ast.stmt) -> bool:
    """Whether a line does nothing but name a type variable."""
    return (
        isinstance(line, ast.Assign)
        and isinstance(line.value, ast.Call)
        and isinstance(line.value.func, ast.Name)
        and line.value.func.id in _TYPE_MAKERS
        and all(isinstance(target, ast.Name) for target in line.targets)
    )


def _targets(line: ast.Assign) -> set[str]:
    return {target.id for target in line.targets if isinstance(target, ast.Name)}


def _write(node: object, parts: list[str]) -> None:
    """A tree in a form that is the same in every Python version: empty fields, which newer ones add, are left out."""
    if isinstance(node, ast.AST):
        parts.append(f"({type(node).__name__}")
        for name in node._fields:
            value = getattr(node, name, None)
            # None stands for an absent field; the constant None is told by its node's name alone.
            if value is None or value == [] or name in _SKIPPED:
                continue
            parts.append(f".{name}")
            _write(value, parts)
        parts.append(")")
    elif isinstance(node, list):
        parts.append("[")
        for part in node:
            _write(part, parts)
        parts.append("]")
    else:
        parts.append(f"{type(node).__name__}:{node!r}")
