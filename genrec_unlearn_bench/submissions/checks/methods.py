"""Is the method the one that was run, is its name free, and what a lint of its source shows.

The file is read as text and never imported. A lint keeps honest authors within the rules; what keeps others from
oracles and the network is the sandbox of the re-run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from hashlib import blake2b

from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.registry import REFERENCE_ROWS, imported_modules, is_method_import, methods, source_digest
from genrec_unlearn_bench.submissions.bundle import Bundle, declared_names, identities
from genrec_unlearn_bench.submissions.faults import Finding, skeleton
from genrec_unlearn_bench.submissions.spec import METHOD_FILE, SPEC, read_spec

LIBRARIES = (
    *("__future__", "abc", "collections", "contextlib", "copy", "dataclasses", "enum", "functools", "itertools"),
    *("math", "numbers", "operator", "statistics", "typing", "typing_extensions"),
    *("numpy", "scipy", "sklearn", "torch", "pydantic", "peft", "transformers"),
)
"""What a submitted method may import beside the suite's modules for methods."""
_NAMES = frozenset(
    {"open", "input", "eval", "exec", "compile", "__import__", "globals", "locals", "vars", "breakpoint"}
)
_ATTRIBUTES = frozenset(
    {
        *("load", "save", "loadtxt", "savetxt", "genfromtxt", "fromfile", "tofile", "memmap", "from_file", "load_file"),
        *("from_pretrained", "load_state_dict_from_url", "read_text", "read_bytes", "read_parquet", "read_csv"),
        *("serialization", "hub", "FileIO", "ctypeslib", "multiprocessing", "cpp_extension"),
    }
)


def check_method_file(bundle: Bundle) -> Iterator[Finding]:
    if bundle.spec is None:
        return
    if METHOD_FILE not in bundle.inventory.digests:
        yield METHOD_FILE, "the method's file is not there", "submit it: `bench submission new` copies it"
        return
    content = (bundle.root / METHOD_FILE).read_bytes()
    digest = blake2b(content, digest_size=32).hexdigest()
    other = next((one for one in bundle.results if one.record.method_digest != digest), None)
    if other is not None:
        what = "the method's file is not the one that this result was made with"
        hint = "run the cells again with the file as it is now, or submit the file as it was"
        yield f"{METHOD_FILE}, and {other.at('method_digest')}", what, hint
    yield from source_faults(content, bundle.spec.method.name)


def check_one_source(bundle: Bundle) -> Iterator[Finding]:
    digests = {result.record.method_digest for result in bundle.results}
    if bundle.spec is not None and len(digests) > 1:
        what = f"the results were made with {len(digests)} different versions of the method"
        yield "results/: method_digest in result.json", what


def check_names(bundle: Bundle) -> Iterator[Finding]:
    spec = bundle.spec
    if spec is None:
        return
    own = {result.record.method_digest for result in bundle.results}
    known = methods()
    shipped = {skeleton(name): name for name in known if name in REFERENCE_ROWS or {source_digest(known[name])} != own}
    rows = {result.record.cell.method for result in bundle.results}
    for name in sorted({spec.method.name, *bundle.variants, *rows}):
        if taken := shipped.get(skeleton(name)):
            what = f"the suite has a method of the name {taken!r}, and it is another one"
            yield f"{SPEC}: method.name", what if name == taken else f"{what}: {name!a} looks like it"
    if taken := shipped.get(skeleton(spec.title)):
        what = f"the title {spec.title!a} looks like the name of the suite's own {taken!r}"
        yield f"{SPEC}: title", what, "give it a title of its own"
    folder = bundle.root.resolve()
    if folder.parent.name == "submissions" and folder.name != spec.name:
        yield (
            f"{SPEC}: name",
            f"the folder is called {folder.name!a}, the submission {spec.name!r}",
            "call both the same",
        )
    yield from _taken(bundle, own)


def source_faults(content: bytes, name: str) -> Iterator[Finding]:
    """What the lint shows of a method's source. ``name`` is what the class should be called by."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        line = getattr(fault, "lineno", None) or 1
        yield f"{METHOD_FILE}, line {line}", f"the method's file is no Python: {fault}", "fix the line"
        return
    declared = declared_names(content)
    if name not in {*declared, *(variant for variants in declared.values() for variant in variants)}:
        what = f"the method's file has no class with name = {name!r}"
        yield METHOD_FILE, what, "submit the file that was run, under its own name"
    documents = _documents(tree)
    for node in ast.walk(tree):
        for what in _forbidden(node, documents):
            yield f"{METHOD_FILE}, line {getattr(node, 'lineno', 1)}", f"the method {what}"


def _forbidden(node: ast.AST, documents: set[int]) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for name in imported_modules(node):
            if name.partition(".")[0] not in LIBRARIES and not is_method_import(name):
                yield f"imports {name}: it is not on the list of RULES.md"
    elif isinstance(node, ast.Name) and (node.id in _NAMES or node.id.startswith("__")):
        yield f"uses {node.id}: it reaches files or code that is made at run time"
    elif isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
        yield f"uses {node.attr}: it reads or writes files, or models of its own"
    elif isinstance(node, ast.Attribute) and node.attr.startswith("__") and node.attr not in ("__init__", "__name__"):
        yield f"uses {node.attr}: it looks into other code"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
        known, sets = identities()
        text = node.value.lower()
        named = text if text in sets else next((task for task in known if task in text), None)
        if named is not None:
            yield f"names {named!r}: a method does not ask what it runs on"


def _documents(tree: ast.Module) -> set[int]:
    """Strings that stand alone: documentation of modules, classes, functions and fields."""
    return {
        id(line.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for line in node.body
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    }


def _taken(bundle: Bundle, own: set[str]) -> Iterator[Finding]:
    name = bundle.spec.method.name if bundle.spec else ""
    for folder in bundle.other_submissions():
        try:
            other = read_spec(folder)
        except BenchError:
            continue
        same = other is not None and skeleton(other.method.name) == skeleton(name)
        if other is not None and same and other.contents.get(METHOD_FILE) not in own:
            what = f"another submission, {folder.name}, has a method of the name {other.method.name!r}"
            yield f"{SPEC}: method.name", what
