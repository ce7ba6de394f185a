"""Checks of a submission's method: its names are free, its file is the one that ran, and it passes the lint.

The file is read as text and never imported. A lint keeps honest authors within the rules; what keeps others from
oracles and the network is the sandbox of the re-run.
"""

from __future__ import annotations

import ast
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.registry import (
    REFERENCE_ROWS,
    class_attribute,
    imported_modules,
    is_method_import,
    methods,
    source_digest,
)
from genrec_unlearn_bench.submissions.bundle import Bundle, Finding, check
from genrec_unlearn_bench.submissions.spec import METHOD_FILE, SPEC, Submission, read_spec

LIBRARIES = (
    *("__future__", "abc", "collections", "contextlib", "copy", "dataclasses", "enum", "functools", "itertools"),
    *("math", "numbers", "operator", "statistics", "typing", "typing_extensions"),
    *("numpy", "scipy", "sklearn", "torch", "pydantic", "peft", "transformers"),
)
"""What a submitted method may import besides the suite's modules for methods."""
_NAMES = frozenset({"open", "input", "eval", "exec", "compile", "globals", "locals", "vars", "breakpoint"})
_ATTRIBUTES = frozenset(
    {
        *("load", "save", "loadtxt", "savetxt", "genfromtxt", "fromfile", "tofile", "memmap", "from_file", "load_file"),
        *("from_pretrained", "load_state_dict_from_url", "read_text", "read_bytes", "read_parquet", "read_csv"),
        *("serialization", "hub", "FileIO", "ctypeslib", "multiprocessing", "cpp_extension"),
    }
)
# Letters that look like Latin ones in most fonts (Unicode TR 39), after lower-casing; and digits that pass for letters.
_LOOK_ALIKE = str.maketrans(
    {
        **dict(zip("авсԁеһіјӏкмнорԛѕтуѵԝхз", "abcdehljlkmhopqstyvwxz", strict=True)),
        **dict(zip("αβγεηικνορτυχω", "abyenlkvoptuxw", strict=True)),
        **dict(zip("0135|!i", "oleslll", strict=True)),
    }
)


def skeleton(text: str) -> str:
    """What a name looks like: two with one skeleton are taken for each other (``TRACER``, ``trасеr``, ``tr-acer``)."""
    plain = unicodedata.normalize("NFKD", text).casefold().translate(_LOOK_ALIKE)
    return "".join(one for one in plain if one.isalnum()).replace("rn", "m").replace("vv", "w")


def declared_names(source: bytes) -> dict[str, frozenset[str]]:
    """Names of the method classes in a file with the names of their variants, read without importing it."""
    found = {}
    for node in ast.walk(_parsed(source) or ast.Module([], [])):
        name = class_attribute(node, "name") if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.ClassDef) and isinstance(name, ast.Constant):
            variants = class_attribute(node, "variants")
            keys = variants.keys if isinstance(variants, ast.Dict) else []
            found[str(name.value)] = frozenset(str(one.value) for one in keys if isinstance(one, ast.Constant))
    return found


@check(
    "submission",
    "run all cells again with this version and the declared method; `bench submission new` renews the file",
)
def check_declared(bundle: Bundle, spec: Submission) -> Iterator[Finding]:
    if spec.protocol_version != PROTOCOL_VERSION:
        what = f"the submission is for protocol version {spec.protocol_version}, this is {PROTOCOL_VERSION}"
        commands = [result.record.command for result in bundle.results[:1]] or ["bench run …"]
        yield f"{SPEC}: protocol_version", what, f"run all its cells again with this version: {commands[0]}"
    found = {result.record.cell.ruleset for result in bundle.results}
    if bundle.results and found != set(spec.rulesets):
        what = f"the results are of the rulesets {', '.join(sorted(found))}, not {', '.join(sorted(spec.rulesets))}"
        yield f"{SPEC}: rulesets", what
    names = _row_names(bundle, spec)
    for result in bundle.results:
        if result.record.cell.method not in names:
            what = f"the result is of the method {result.record.cell.method!a}, the submission is of "
            yield result.at("cell.method"), f"{what}{', '.join(map(repr, sorted(names)))}"


@check(
    "submission",
    "submit the file that was run; it uses the recommender and the request it is given alone (leaderboard/RULES.md)",
)
def check_method_file(bundle: Bundle, spec: Submission) -> Iterator[Finding]:
    digest = bundle.digests.get(METHOD_FILE)
    others = [one for one in bundle.results if one.record.method_digest != digest]
    if others:
        what = f"{len(others)} of {len(bundle.results)} results were made with another file than the one submitted"
        yield f"{METHOD_FILE}, and {others[0].at('method_digest')}", what
    if digest is not None:
        yield from lint((bundle.root / METHOD_FILE).read_bytes(), spec.method.name)


@check("submission", "give the method, its title and the folder a name of their own, and run it again")
def check_names(bundle: Bundle, spec: Submission) -> Iterator[Finding]:
    own = {result.record.method_digest for result in bundle.results}
    known = methods()
    shipped = {skeleton(name): name for name in known if name in REFERENCE_ROWS or {source_digest(known[name])} != own}
    rows = {result.record.cell.method for result in bundle.results} | _row_names(bundle, spec)
    for place, name in [*(("method.name", row) for row in sorted(rows)), ("title", spec.title)]:
        if taken := shipped.get(skeleton(name)):
            yield f"{SPEC}: {place}", f"{name!a} looks like the name of the suite's own {taken!r}"
    folder = bundle.root.resolve()
    if folder.parent.name == "submissions" and folder.name != spec.name:
        yield f"{SPEC}: name", f"the folder is called {folder.name!a}, the submission {spec.name!r}"
    for other in bundle.other_submissions():
        with suppress(BenchError):
            theirs = read_spec(other)
            same = theirs is not None and skeleton(theirs.method.name) == skeleton(spec.method.name)
            if theirs is not None and same and theirs.contents.get(METHOD_FILE) not in own:
                what = f"another submission, {other.name}, has a method of the name {theirs.method.name!r}"
                yield f"{SPEC}: method.name", what


def lint(content: bytes, name: str) -> Iterator[Finding]:
    """What a method's source shows. ``name`` is what the class, or a variant of it, should be called."""
    tree = _parsed(content)
    if tree is None:
        yield METHOD_FILE, "the method's file is no Python"
        return
    if not any(name == method or name in variants for method, variants in declared_names(content).items()):
        yield METHOD_FILE, f"the method's file has no class with name = {name!r}"
    documentation = _documentation(tree)
    for node in ast.walk(tree):
        if id(node) not in documentation:
            for what in _forbidden(node):
                yield f"{METHOD_FILE}, line {getattr(node, 'lineno', 1)}", f"the method {what}"


def _row_names(bundle: Bundle, spec: Submission) -> set[str]:
    """The names that rows of a submission may have: the method's, and those of the variants that its file declares."""
    there = METHOD_FILE in bundle.digests
    declared = declared_names((bundle.root / METHOD_FILE).read_bytes()) if there else {}
    return {spec.method.name, *declared.get(spec.method.name, ())}


def _parsed(source: bytes) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _forbidden(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for name in imported_modules(node):
            if name.partition(".")[0] not in LIBRARIES and not is_method_import(name):
                yield f"imports {name}: it is not on the list of RULES.md"
    elif isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        listed = _NAMES if isinstance(node, ast.Name) else _ATTRIBUTES
        if name in listed or (name.startswith("__") and name not in ("__init__", "__name__")):
            yield f"uses {name}: it reaches files, models of its own, or other code"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        known, datasets = _identities()
        text = node.value.lower()
        named = text if text in datasets else next((task for task in known if task in text), None)
        if named is not None:
            yield f"names {named!r}: a method does not ask what it runs on"


def _documentation(tree: ast.Module) -> set[int]:
    """Ids of the nodes of documentation: strings that stand alone in modules, classes and functions."""
    return {
        id(line.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for line in node.body
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    }


@cache
def _identities() -> tuple[tuple[str, ...], frozenset[str]]:
    """Names of the tasks, and of the datasets."""
    return tuple(tasks()), frozenset(packaged_datasets())
