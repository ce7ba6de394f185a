"""Layers: an import never points upward nor in a circle, nothing imports a method by name, nothing is evaluated.

Held over the source itself, imports inside functions and for type checking included.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "genrec_unlearn_bench"

FLOORS = [
    ("errors",),
    ("config", "registry", "seeding", "progress", "tensors", "files"),
    ("store",),
    ("progress_display",),
    ("data",),
    ("features",),
    ("sids",),
    ("decoding",),
    ("backbones",),
    ("unlearning",),
    ("evaluation",),
    ("tuning",),
    ("pipeline",),
    ("grid",),
    ("executors",),
    ("reproduce",),
    ("testing",),
    ("contract",),
    ("listing", "notebook"),
    ("api",),
    ("cli", ""),
]
HEIGHT = {name: height for height, names in enumerate(FLOORS) for name in names}

# The result record is what reporting and submissions read; its file may know the metric declaration and nothing else.
RECORD = {"pipeline.record", "evaluation.metric"}
SIDE_ROOMS = {"reporting", "submissions"}
# What these two may read besides: files, results and declarations, as far as torch does not come along
# (tests/reporting/test_no_torch.py holds that at run time).
READABLE = {
    "files",
    "pipeline.results",
    "pipeline.list_lookup",
    "decoding.ranking",
    "evaluation.catalogue",
    "evaluation.exposure",
    "evaluation.invariants",
    "evaluation.lists",
    "evaluation.per_user",
    "evaluation.ranking",
    "tuning.rule",
}

HEAVY = {"torch", "transformers", "sklearn", "pandas", "accelerate", "sentence_transformers", "scipy", "pyarrow"} | {
    "datasets"
}


def sources() -> list[Path]:
    engine = sorted((ROOT / PACKAGE).rglob("*.py"))
    folders = ("methods", "tasks", "leaderboard")
    content = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [*engine, *content]


def module_of(path: Path) -> str:
    """Dotted name inside the package: ``data.items``, ``methods.tracer``; ``""`` for the package itself."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == PACKAGE:
        parts = parts[1:]
    if parts and parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def known_modules() -> frozenset[str]:
    return frozenset(module_of(path) for path in sources())


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import, wherever it stands."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")
            for alias in node.names:
                # `from package import module` imports the module.
                if node.module == PACKAGE or (node.module or "").startswith(f"{PACKAGE}."):
                    inner = f"{node.module}.{alias.name}"
                    if inner.removeprefix(f"{PACKAGE}.") in known_modules():
                        yield node.lineno, inner


def inner_imports(path: Path) -> Iterator[tuple[int, str]]:
    for line, name in imports(path):
        if name.startswith(f"{PACKAGE}."):
            yield line, name.removeprefix(f"{PACKAGE}.")


def allowed(importer: str, imported: str) -> bool:
    """Whether ``importer`` may import ``imported`` (dotted names inside the package)."""
    floor, target = importer.partition(".")[0], imported.partition(".")[0]
    if floor == target:
        return True
    if target in ("methods", "tasks", "leaderboard"):
        # Content is found by the registry, never imported by the engine.
        return False
    if importer in RECORD:
        return imported in RECORD or target in ("config", "errors")
    if floor in SIDE_ROOMS:
        readable = imported in RECORD | READABLE or target in SIDE_ROOMS
        return readable or HEIGHT.get(target, 99) <= HEIGHT["data"]
    if floor == "methods":
        return target in HEIGHT and target != "store" and HEIGHT[target] <= HEIGHT["unlearning"]
    if floor in ("api", "cli") and target in SIDE_ROOMS:
        return True
    if floor not in HEIGHT or target not in HEIGHT:
        return False
    return HEIGHT[target] <= HEIGHT[floor]


def test_the_rule_itself() -> None:
    assert allowed("pipeline.run", "backbones.recommender")
    assert allowed("methods.tracer", "unlearning.method")
    assert allowed("methods.random_reassign", "methods.tracer")
    assert allowed("reporting.table", "pipeline.record")
    assert not allowed("backbones.tiger", "unlearning.request")
    assert not allowed("data.items", "features.item_features")
    assert not allowed("methods.tracer", "evaluation.core")
    assert not allowed("methods.tracer", "pipeline.run")
    assert not allowed("pipeline.run", "methods.tracer")
    assert not allowed("reporting.table", "pipeline.run")
    assert not allowed("submissions.verification", "evaluation.core")
    assert not allowed("reporting.table", "backbones.recommender")
    assert allowed("submissions.verification", "evaluation.per_user")
    assert not allowed("pipeline.record", "sids.table")
    assert not allowed("errors", "config")


def test_imports_never_point_upward() -> None:
    wrong = [
        f"{module_of(path)}:{line} imports {name}"
        for path in sources()
        for line, name in inner_imports(path)
        if not allowed(module_of(path), name)
    ]
    assert not wrong


def circles(edges: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Groups of names that reach each other, each sorted: every one is at least one circle."""
    reach = {name: set(targets) for name, targets in edges.items()}
    for middle in reach:
        for targets in reach.values():
            if middle in targets:
                targets |= reach[middle]
    groups = {tuple(sorted(other for other in reach[name] if name in reach.get(other, ()))) for name in reach}
    return [list(group) for group in sorted(groups) if group]


def test_what_a_circle_is() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": []}) == []
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": ["e"]}) == [["a", "b", "c"], ["e"]]


def test_modules_of_a_folder_import_each_other_in_no_circle() -> None:
    edges: dict[str, set[str]] = {module_of(path): set() for path in sources()}
    for path in sources():
        module = module_of(path)
        top = module.partition(".")[0]
        edges[module] |= {name for _, name in inner_imports(path) if name in edges and name.partition(".")[0] == top}
    assert not circles(edges)


def test_imports_are_absolute() -> None:
    assert not [f"{path}:{line}" for path in sources() for line, name in imports(path) if name.startswith(".")]


def test_every_folder_has_a_floor() -> None:
    names = {module_of(path).partition(".")[0] for path in sources()} - {""}
    assert names <= set(HEIGHT) | SIDE_ROOMS | {"methods", "tasks", "leaderboard"}


def test_every_package_is_installed() -> None:
    """The clone's editable install finds what the list leaves out; a wheel does not."""
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"])
    there = {f"{PACKAGE}.{module_of(path)}".rstrip(".") for path in sources() if path.name == "__init__.py"}
    assert listed == there


def test_files_are_short_documented_and_postponed() -> None:
    faults = []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if len(text.splitlines()) > 400:
            faults.append(f"{path}: more than 400 lines")
        if text.strip() and not ast.get_docstring(tree_of(path)):
            faults.append(f"{path}: no module docstring")
        if text.strip() and "from __future__ import annotations" not in text:
            faults.append(f"{path}: no postponed annotations")
    assert not faults


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{path}: {node.name} ({node.end_lineno - node.lineno + 1} lines)"
        for path in sources()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > 60
    ]
    assert not long


def test_no_file_is_a_drawer() -> None:
    drawers = {"utils", "util", "common", "helpers", "helper", "misc"}
    assert not [path for path in sources() if path.stem in drawers]


FORBIDDEN_CALLS = {"eval", "exec", "compile", "torch.load", "torch.save", "yaml.unsafe_load", "yaml.full_load"}
UNSAFE_LOADERS = {"Loader", "FullLoader", "UnsafeLoader", "CLoader", "CFullLoader", "CUnsafeLoader"}
FORBIDDEN_MODULES = {"pickle", "joblib", "dill", "marshal", "shelve", "cloudpickle"}


def test_nothing_is_unpickled_evaluated_or_asserted() -> None:
    faults = []
    for path in sources():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Assert):
                faults.append(f"{path}:{node.lineno}: an assert in the engine")
            if isinstance(node, ast.Call) and ast.unparse(node.func) in FORBIDDEN_CALLS:
                faults.append(f"{path}:{node.lineno}: {ast.unparse(node.func)}")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
                faults.append(f"{path}: allow_pickle")
            if isinstance(node, ast.Attribute) and node.attr in UNSAFE_LOADERS and ast.unparse(node.value) == "yaml":
                faults.append(f"{path}:{node.lineno}: yaml.{node.attr}")
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "yaml.load":
                # A loader has to be named, and an unsafe one is caught above wherever it is named.
                faults += [] if any(word.arg == "Loader" for word in node.keywords) else [f"{path}: yaml.load"]
        faults += [f"{path}:{line}: {name}" for line, name in imports(path) if name in FORBIDDEN_MODULES]
    assert not faults


LIGHT = {"errors", "config", "registry", "seeding", "progress", "data", "cli", "reporting", "submissions"}


def test_light_floors_import_nothing_heavy_at_the_top() -> None:
    faults = []
    for path in sources():
        module = module_of(path)
        if module.partition(".")[0] not in LIGHT and module not in RECORD:
            continue
        for node in tree_of(path).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            faults += [f"{module}: {name}" for name in names if name.partition(".")[0] in HEAVY]
    assert not faults
