"""Digest of a source's text without comments, docstrings and blank lines: how choices of ``bench tune`` know a method's
file, and how keys of version 1 knew every module. Stage keys now go by ``meaning``."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize

__all__ = ["source_digest"]


def source_digest(text: str) -> str:
    """blake2b-128 of Python source without comments, docstrings and blank lines."""
    lines = text.splitlines()
    for first, last in _docstring_lines(ast.parse(text)):
        lines[first - 1 : last] = [""] * (last - first + 1)
    kept = _without_comments("\n".join(lines) + "\n")
    return hashlib.blake2b("\n".join(kept).encode(), digest_size=16).hexdigest()


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
