"""What a method's file says about itself, read without importing it: name, documentation, variants, imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from genrec_unlearn_bench.contract.finding import Finding, broken, judged, left_out
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.registry import Entry, methods, source_file, variants_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FORBIDDEN", "NAME", "source_findings"]

PACKAGE = "genrec_unlearn_bench"

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

FORBIDDEN = {
    "evaluation": "measurements belong to the suite",
    "runs": "the runner calls the method, not the other way round",
    "cli": "the runner calls the method, not the other way round",
    "reporting": "tables are made from records",
    "submissions": "submissions are made from records",
    "data.storage": "the request holds all data a method may see",
    "data.prepare": "the request holds all data a method may see",
    "data.demo": "the request holds all data a method may see",
    "data.locate": "the request holds all data a method may see",
    "data.formats": "the request holds all data a method may see",
    "data.splits": "the request holds all data a method may see",
    "data.dataset": "the request holds all data a method may see",
}
"""Parts of the suite that a method may not import, and why. Test data and retrained models lie behind them."""

SOURCE_WORDS = re.compile(r"arXiv|doi|https?://|et al\.|\b(?:19|20)\d\d\b|\bpaper\b|unpublished", re.IGNORECASE)
UPDATE_WORDS = re.compile(
    r"updat|chang|train|mov|edit|adapter|retrain|serv|filter|set to|taken out|left as|dropped", re.IGNORECASE
)
SUMMARY_LENGTH = 110


def source_findings(entry: Entry) -> Iterator[Finding]:
    """Everything that can be said before the file is imported."""
    path = source_file(entry)
    if path is None:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = entry.target.rpartition(":")[2]
    node = next(part for part in tree.body if isinstance(part, ast.ClassDef) and part.name == name)
    yield _name(entry, node)
    yield _documentation(tree, node)
    yield _variants(entry)
    yield _imports(tree, path)


def _name(entry: Entry, node: ast.ClassDef) -> Finding:
    title = "the name is a plain string in kebab case"
    values = [
        part.value
        for part in node.body
        if isinstance(part, ast.Assign | ast.AnnAssign) and "name" in ast.unparse(_target(part)).split()
    ]
    if not values or not (isinstance(values[0], ast.Constant) and isinstance(values[0].value, str)):
        return broken(
            "name",
            title,
            f"`name` of {node.name} is not a string literal, so `bench ls` cannot read it without importing the file",
            hint='write it out: name = "my-method"',
        )
    faults = []
    if not NAME.fullmatch(entry.name):
        faults.append(f"{entry.name!r} is not of the form my-method (small letters, digits and single hyphens)")
    return judged("name", title, faults, hint="choose another name", seen=entry.name)


def _target(part: ast.Assign | ast.AnnAssign) -> ast.expr:
    return part.targets[0] if isinstance(part, ast.Assign) else part.target


def _documentation(tree: ast.Module, node: ast.ClassDef) -> Finding:
    text = ast.get_docstring(tree) or ""
    line = (ast.get_docstring(node) or "").strip().partition("\n")[0]
    faults = []
    if not text:
        faults.append("the file has no docstring")
    else:
        if not SOURCE_WORDS.search(text):
            faults.append(
                "the file's docstring names no source: a paper with its year or arXiv number, or 'unpublished'"
            )
        if not UPDATE_WORDS.search(text):
            faults.append("the file's docstring does not say what is updated (all parameters, adapters, tokens …)")
    if not line:
        faults.append(f"{node.name} has no docstring; its first line stands in tables and in `bench ls methods`")
    elif len(line) > SUMMARY_LENGTH:
        faults.append(
            f"the first line of {node.name}'s docstring has {len(line)} characters, tables take {SUMMARY_LENGTH}"
        )
    return judged(
        "documentation",
        "the docstrings say where the method is from and what it updates",
        faults,
        hint='begin the file with """My method (Author 2026, arXiv …): one sentence.\\n\\nUpdates …; deviations: …"""',
        seen=line,
    )


def _variants(entry: Entry) -> Finding:
    title = "variants are a plain literal, each named after the method"
    if entry.variant_of:
        return left_out("variants", title, f"it is a variant itself: check {entry.variant_of}")
    try:
        names = [variant.name for variant in variants_of(entry)]
    except BenchError as fault:
        return broken("variants", title, fault.what, hint=fault.hint or "begin every variant's name with the method's")
    taken = [name for name in names if entry.origin == "file" and name in methods()]
    return judged(
        "variants",
        title,
        [f"the variant {name!r} has the name of a method that is there already" for name in taken],
        hint="choose another name",
        seen=", ".join(names) or "none",
    )


def _imports(tree: ast.Module, path: Path) -> Finding:
    faults = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            inner = name.removeprefix(f"{PACKAGE}.") if name.startswith(f"{PACKAGE}.") else ""
            for part, why in FORBIDDEN.items():
                if inner == part or inner.startswith(f"{part}."):
                    faults.append(f"{path.name}:{getattr(node, 'lineno', 0)} imports {name}: {why}")
    return judged(
        "imports",
        "of the suite, only what a method may see is imported",
        list(dict.fromkeys(faults)),
        hint="use what unlearn() is given, and the modules of unlearning/ and backbones/",
    )
