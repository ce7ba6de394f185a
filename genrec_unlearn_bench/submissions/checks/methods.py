"""Is the method the one that was run, and does its source show something that the rules forbid.

The file is read as text and never imported. What a look at the source cannot see is in RULES.md, with those who can.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.registry import REFERENCE_ROWS, methods, source_digest
from genrec_unlearn_bench.submissions.bundle import Bundle, identities
from genrec_unlearn_bench.submissions.faults import Fault
from genrec_unlearn_bench.submissions.spec import SPEC, read_spec

__all__ = ["check_method_file", "check_names", "check_one_source", "source_faults"]

FILE = "method.py"
_ENGINE = (
    *("evaluation", "pipeline", "store", "grid", "executors", "tuning", "contract", "reproduce", "launch", "registry"),
    *("cli", "reporting", "submissions", "leaderboard", "tasks"),
)
_MODULES = {
    **{f"genrec_unlearn_bench.{name}": "the rules keep methods away from measuring and running" for name in _ENGINE},
    **dict.fromkeys(("genrec_unlearn_bench.data.prepare", "genrec_unlearn_bench.data.storage"), "it reads datasets"),
    **dict.fromkeys(("genrec_unlearn_bench.data.tasks", "genrec_unlearn_bench.data.catalogue"), "it names tasks"),
    **dict.fromkeys(
        ("socket", "ssl", "urllib", "http", "ftplib", "requests", "httpx", "aiohttp", "huggingface_hub", "datasets"),
        "it reaches the network",
    ),
    **dict.fromkeys(
        ("os", "pathlib", "io", "shutil", "glob", "tempfile", "fileinput", "sqlite3", "mmap"), "it reaches files"
    ),
    **dict.fromkeys(("subprocess", "multiprocessing", "pty", "ctypes", "cffi"), "it leaves the process"),
    **dict.fromkeys(("pickle", "dill", "joblib", "marshal", "shelve", "cloudpickle"), "it unpickles"),
    **dict.fromkeys(("importlib", "inspect", "gc", "sys", "builtins", "runpy", "code"), "it looks into other code"),
}
_CALLS = {
    **dict.fromkeys(("open", "input", "torch.load", "np.load", "numpy.load", "np.loadtxt", "np.genfromtxt"), "files"),
    **dict.fromkeys(("eval", "exec", "compile", "__import__", "globals", "vars"), "code that is made at run time"),
    **dict.fromkeys(("pd.read_parquet", "pd.read_csv", "pandas.read_parquet", "pandas.read_csv"), "files"),
}
_LOADERS = ("from_pretrained", "from_file", "read_text", "read_bytes", "load_state_dict_from_url", "load_file")


def check_method_file(bundle: Bundle) -> Iterable[Fault]:
    """The file parses, is the one that the results were made with, and shows nothing that is forbidden."""
    if bundle.spec is None:
        return
    listed = bundle.spec.method.file is not None
    if listed != (FILE in bundle.inventory.digests):
        what = "the method's file is not there" if listed else "there is a method file that submission.yaml lacks"
        yield Fault(what=what, where=FILE, hint="name it in submission.yaml (method: file: method.py) and put it there")
        return
    if not listed:
        return
    content = (bundle.root / FILE).read_bytes()
    digest = blake2b(content, digest_size=32).hexdigest()
    for result in bundle.results:
        if result.record.method_digest != digest:
            yield Fault(
                what="the method's file is not the one that this result was made with",
                where=f"{FILE}, and {result.record_path}: method_digest",
                hint="run the cells again with the file as it is now, or submit the file as it was",
            )
            break
    yield from source_faults(content, bundle.spec.method.name)


def check_one_source(bundle: Bundle) -> Iterable[Fault]:
    """All results of a submission were made with one source."""
    digests = {result.record.method_digest for result in bundle.results}
    if bundle.spec is not None and len(digests) > 1:
        yield Fault(
            what=f"the results were made with {len(digests)} different versions of the method",
            where="results/: method_digest in result.json",
            hint="run all cells with one version of the method",
        )


def check_names(bundle: Bundle) -> Iterable[Fault]:
    """Neither the method nor the submission takes a name that stands for something else."""
    if bundle.spec is None:
        return
    name = bundle.spec.method.name
    own = {result.record.method_digest for result in bundle.results}
    known = methods()
    if name in REFERENCE_ROWS or (name in known and own and {source_digest(known[name])} != own):
        yield Fault(
            what=f"the suite has a method of the name {name!r}, and it is another one",
            where=f"{SPEC}: method.name",
            hint="give the method a name of its own, and run it again",
        )
    folder = bundle.root.resolve()
    if folder.parent.name == "submissions" and folder.name != bundle.spec.name:
        what = f"the folder is called {folder.name!a}, the submission {bundle.spec.name!r}"
        yield Fault(what=what, where=f"{SPEC}: name", hint="call both the same")
    yield from _taken(bundle, name, own)


def source_faults(content: bytes, name: str) -> Iterator[Fault]:
    """Faults that a method's source shows when it is read. ``name`` is what the class should be called by."""
    hint = "a method uses the recommender and the request it is given, and nothing else (leaderboard/RULES.md)"
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        line = getattr(fault, "lineno", None) or 1
        yield Fault(what=f"the method's file is no Python: {fault}", where=f"{FILE}, line {line}", hint="fix the line")
        return
    if name not in {text for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for text in _names(node)}:
        what = f"the method's file has no class with name = {name!r}"
        yield Fault(what=what, where=FILE, hint="submit the file that was run, under its own name")
    documents = _documents(tree)
    for node in ast.walk(tree):
        for what in _forbidden(node, documents):
            yield Fault(what=f"the method {what}", where=f"{FILE}, line {getattr(node, 'lineno', 1)}", hint=hint)


def _forbidden(node: ast.AST, documents: set[int]) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for module in _imported(node):
            found = next((name for name in _MODULES if module == name or module.startswith(f"{name}.")), None)
            if found is not None:
                yield f"imports {module}: {_MODULES[found]}"
    elif isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        last = called.rpartition(".")[2]
        if called in _CALLS:
            yield f"calls {called}: it reaches {_CALLS[called]}"
        elif last in _LOADERS:
            yield f"calls {last}: it reads a file or a model of its own"
    elif isinstance(node, ast.Attribute) and node.attr.startswith("__") and node.attr not in ("__init__", "__name__"):
        yield f"uses {node.attr}: it looks into other code"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
        known, sets = identities()
        text = node.value.lower()
        named = text if text in sets else next((task for task in known if task in text), None)
        if named is not None:
            yield f"names {named!r}: a method does not ask what it runs on"


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    module = node.module or ""
    return [module, *(f"{module}.{alias.name}" for alias in node.names if module == "genrec_unlearn_bench")]


def _names(node: ast.ClassDef) -> Iterator[str]:
    """The name of a method's class, and those of its variants."""
    for line in node.body:
        value = line.value if isinstance(line, ast.Assign | ast.AnnAssign) else None
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and target.id == "name" and isinstance(value, ast.Constant):
                yield str(value.value)
            if isinstance(target, ast.Name) and target.id == "variants" and isinstance(value, ast.Dict):
                yield from (str(key.value) for key in value.keys if isinstance(key, ast.Constant))


def _documents(tree: ast.Module) -> set[int]:
    """Strings that stand alone: documentation of modules, classes, functions and fields."""
    return {
        id(line.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for line in node.body
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    }


def _taken(bundle: Bundle, name: str, own: set[str]) -> Iterator[Fault]:
    """Another submission's method of the same name."""
    place = bundle.leaderboard / "submissions" if bundle.leaderboard is not None else None
    if place is None or not place.is_dir():
        return
    for folder in sorted(place.iterdir()):
        if folder.resolve() == bundle.root.resolve() or folder.name == bundle.name or not folder.is_dir():
            continue
        try:
            other = read_spec(folder)
        except BenchError:
            continue
        if other is not None and other.method.name == name and other.contents.get(FILE) not in own:
            yield Fault(
                what=f"another submission, {folder.name}, has a method of the name {name!r}",
                where=f"{SPEC}: method.name",
                hint="give the method a name of its own, and run it again",
            )
