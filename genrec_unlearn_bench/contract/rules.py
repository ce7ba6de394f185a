"""The rules of the contract of an unlearning method, and those that hold for its file and its declarations.

A method's file is read without importing it as far as that goes, then its class is imported and looked at.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import ValidationError

from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.config import StrictModel, parse
from genrec_unlearn_bench.contract.new_method import NAME
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import BenchError, ConfigError
from genrec_unlearn_bench.registry import (
    Entry,
    class_attribute,
    class_node,
    imported_modules,
    is_method_import,
    load_class,
    methods,
    variants_of,
)
from genrec_unlearn_bench.store.manifest import canonical
from genrec_unlearn_bench.tuning.space import search_space
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod

Method = type[UnlearningMethod[Any]]

MAX_TRIALS = 12
"""The most configurations that ``bench tune`` tries."""

GENERATOR = 'draw from numpy_generator(request.seed, "my-method") or torch_generator(…) of genrec_unlearn_bench.seeding'

RULES = {
    "file": ("the file can be read and holds one method with its own name", ""),
    "name": ("the name is a plain string in kebab case", 'write it out: name = "my-method"'),
    "documentation": (
        "the docstrings say where the method is from and what it updates",
        'begin the file with """My method (Author 2026, arXiv …): one sentence.\n\nUpdates …; deviations: …"""',
    ),
    "variants": (
        "variants are a plain literal, each named after the method",
        "begin every variant's name with the method's, and choose names that are free",
    ),
    "imports": (
        "of the suite, only what a method may see is imported",
        "use what unlearn() is given, and the modules of unlearning/ and backbones/",
    ),
    "import": ("the file can be imported, quietly, and holds an UnlearningMethod", "fix the file"),
    "config-documented": (
        "every field of the configuration is documented",
        'write a docstring below the field: gamma: float = 1.0, then """Weight of the forget term."""',
    ),
    "config-default": (
        "the default configuration is valid and survives JSON",
        "give every field a default of a plain type (numbers, strings, booleans, tuples, null)",
    ),
    "search-space": (
        "the search space names fields of the configuration, with values that they take",
        "declare it in the configuration: search = Search(gamma=(0.1, 0.3, 1.0))",
    ),
    "variant-fields": ("every variant is a valid configuration", "name fields of the configuration, with valid values"),
    "declarations": (
        "requirements and kinds of request are declared in their types",
        "requires = frozenset({Capability.HAS_CODEBOOKS}); kinds = frozenset(ConceptKind) is the default",
    ),
    "runs": ("it runs: a few steps on the smallest TIGER of the demo", "fix unlearn(), or require less in `requires`"),
    "original-untouched": ("the original is unchanged", "work on a copy: model = recommender.clone()"),
    "request-untouched": ("the request is unchanged", "copy arrays before changing them; other methods get the same"),
    "changed": (
        "something has changed: weights, semantic IDs or serving rules",
        'train the copy and return it; if there is nothing to do, progress.note("applicable", False)',
    ),
    "result-whole": (
        "the result is a whole recommender: finite, as trainable as before, the same when saved and loaded",
        "remove hooks and adapters and restore requires_grad (unlearning/lora.py, anatomy.tapped)",
    ),
    "lists": ("its recommendation lists are full, in order and without duplicates", "see the line above"),
    "losses": (
        "losses are reported, and finite",
        'call progress.log("unlearn", step, {"forget": …, "retain": …}) at every step, as descend does',
    ),
    "random-state": ("no global random state is used", GENERATOR),
    "request-alone": (
        "it uses the request only: no file of the suite, no network",
        "use what unlearn() is given; test data and retrained models are off limits",
    ),
    "quiet": ("nothing is printed to stdout", "use progress.info(…), or keep it with progress.note(name, value)"),
    "settings": ("torch's settings are unchanged", "restore them before returning"),
    "deterministic": (
        "the same seed gives the same result to the bit",
        f"{GENERATOR}; iterate over sets in sorted order; keep nothing on self",
    ),
    "kind": ("it serves requests of the kind {}", "fix it, or leave {} out of `kinds`"),
    "backbone": (
        "it works on {}",
        "use the interface only (backbones/recommender.py): levels, masks and heads differ between backbones; declare "
        "what a backbone must have in `requires`",
    ),
    "time": ("time on one thread", ""),
}
"""Title and hint of every rule by name; ``kind`` and ``backbone`` are checked once per kind or backbone."""

PACKAGE = "genrec_unlearn_bench."
SOURCE_WORDS = re.compile(r"arXiv|doi|https?://|et al\.|\b(?:19|20)\d\d\b|\bpaper\b|unpublished", re.IGNORECASE)
UPDATE_WORDS = re.compile(
    r"updat|chang|train|mov|edit|adapter|retrain|serv|filter|set to|taken out|left as|dropped|remove", re.IGNORECASE
)
SUMMARY_LENGTH = 110


class RuleResult(StrictModel):
    rule: str
    """Short name, stable for scripts."""
    title: str
    status: Literal["kept", "broken", "left out"]
    reasons: tuple[str, ...] = ()
    """Faults, the reason for leaving it out, or for a kept rule what was observed."""
    hint: str = ""
    """How to fix a broken rule."""


class CheckReport(StrictModel):
    method: str
    file: str
    findings: tuple[RuleResult, ...]
    seconds: float

    @property
    def sound(self) -> bool:
        return not any(finding.status == "broken" for finding in self.findings)


def checked(
    rule: str, faults: Sequence[str] = (), observed: str = "", *, hint: str | None = None, subject: str = ""
) -> RuleResult:
    """Broken if there are faults, with the rule's hint unless there is a more specific one; kept otherwise.

    Args:
        subject: The kind or backbone that the rule was checked for.
    """
    name, title = _named(rule, subject)
    if not faults:
        return RuleResult(rule=name, title=title, status="kept", reasons=(observed,) if observed else ())
    hint = hint or RULES[rule][1].replace("{}", subject)
    return RuleResult(rule=name, title=title, status="broken", reasons=tuple(faults), hint=hint)


def broken(rule: str, *reasons: str, hint: str | None = None) -> RuleResult:
    return checked(rule, reasons, hint=hint)


def left_out(rule: str, reason: str, *, subject: str = "") -> RuleResult:
    name, title = _named(rule, subject)
    return RuleResult(rule=name, title=title, status="left out", reasons=(reason,))


def _named(rule: str, subject: str) -> tuple[str, str]:
    return f"{rule}-{subject}" if subject else rule, RULES[rule][0].replace("{}", subject)


def file_rules(entry: Entry) -> Iterator[RuleResult]:
    path = entry.source
    if path is None:
        return
    tree, node = class_node(entry, path)
    literal = class_attribute(node, "name")
    if not (isinstance(literal, ast.Constant) and isinstance(literal.value, str)):
        yield broken("name", f"`name` of {node.name} is not a string literal, so `bench ls` cannot read it")
    elif not NAME.fullmatch(entry.name):
        form = "of the form my-method (small letters, digits and single hyphens)"
        yield broken("name", f"{entry.name!r} is not {form}", hint="choose another name")
    else:
        yield checked("name", (), entry.name)
    yield _documentation(tree, node)
    yield _variants(entry)
    yield checked("imports", _forbidden_imports(tree, path.name))


def _documentation(tree: ast.Module, node: ast.ClassDef) -> RuleResult:
    text = ast.get_docstring(tree) or ""
    summary = (ast.get_docstring(node) or "").strip().partition("\n")[0]
    faults = []
    if not text:
        faults.append("the file has no docstring")
    elif not SOURCE_WORDS.search(text):
        faults.append("the file's docstring names no source: a paper with its year or arXiv number, or 'unpublished'")
    if text and not UPDATE_WORDS.search(text):
        faults.append("the file's docstring does not say what is updated (all parameters, adapters, tokens …)")
    if not summary:
        faults.append(f"{node.name} has no docstring; its first line is shown in tables and in `bench ls methods`")
    elif len(summary) > SUMMARY_LENGTH:
        faults.append(f"the first line of {node.name}'s docstring is longer than {SUMMARY_LENGTH} characters")
    return checked("documentation", faults, summary)


def _variants(entry: Entry) -> RuleResult:
    if entry.variant_of:
        return left_out("variants", f"it is a variant itself: check {entry.variant_of}")
    try:
        names = [variant.name for variant in variants_of(entry)]
    except BenchError as fault:
        return broken("variants", fault.what, hint=fault.hint)
    taken = [name for name in names if entry.origin == "file" and name in methods()]
    faults = [f"there is a method {name!r} already, so no variant can have that name" for name in taken]
    return checked("variants", faults, ", ".join(names) or "none")


def _forbidden_imports(tree: ast.Module, file: str) -> list[str]:
    faults = []
    for node in ast.walk(tree):
        for name in imported_modules(node):
            if name.startswith(PACKAGE) and not is_method_import(name):
                data = name.startswith(f"{PACKAGE}data")
                why = "the request holds all data a method may see" if data else "the suite calls methods"
                faults.append(f"{file}:{getattr(node, 'lineno', 0)} imports {name}: {why}")
    return list(dict.fromkeys(faults))


def import_rule(entry: Entry) -> tuple[Method | None, RuleResult]:
    """Import the method's class; None if that fails."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            # mypy: the class may be abstract.
            found: Method = load_class(entry, UnlearningMethod)  # type: ignore[type-abstract]
    except BenchError as fault:
        if isinstance(fault.__cause__, ConfigError):
            return None, broken("search-space", *fault.__cause__.faults, hint=fault.__cause__.hint)
        return None, broken("import", fault.what, hint=fault.hint)
    if inspect.isabstract(found):
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        return None, broken("import", f"{found.__name__} does not define {missing}", hint=f"write {missing}()")
    if not (isinstance(found.Config, type) and issubclass(found.Config, MethodConfig)):
        reason = f"Config of {found.__name__} is no subclass of MethodConfig"
        return None, broken("import", reason, hint="derive it from MethodConfig, or from DescentConfig")
    first = output.getvalue().strip().partition("\n")[0][:80]
    faults = [f"importing it prints to stdout: {first!r}"] if output.getvalue() else []
    return found, checked("import", faults, found.__name__, hint="remove the print; facts go to progress.note")


def class_rules(entry: Entry, method: Method) -> Iterator[RuleResult]:
    fields = method.Config.model_fields
    bare = [name for name, field in fields.items() if not (field.description or "").strip()]
    faults = [f"{method.Config.__name__}.{name} has no line of documentation" for name in bare]
    yield checked("config-documented", faults, f"{len(fields)} fields")
    faults = _default_faults(method.Config)
    yield checked("config-default", faults)
    if not faults:
        yield _search_space(method)
        yield checked("variant-fields", list(_variant_faults(entry, method)))
    needs, kinds = ", ".join(sorted(entry.requires)) or "nothing", ", ".join(sorted(map(str, method.kinds)))
    yield checked("declarations", list(_declaration_faults(entry, method)), f"needs {needs}; serves {kinds}")


def _default_faults(config: type[MethodConfig]) -> list[str]:
    try:
        default = config()
        content = default.model_dump(mode="json")
        canonical(content)
        again = config.model_validate(content)
    except ValidationError as fault:
        return [f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in fault.errors()]
    except Exception as fault:
        return [f"{type(fault).__name__}: {fault}"]
    other = [name for name, value in vars(again).items() if value != getattr(default, name)]
    return [f"read back from JSON, {', '.join(other)} differs"] if other else []


def _search_space(method: Method) -> RuleResult:
    try:
        space = search_space(method, method.name, {}, {})
        made = space.trials(MAX_TRIALS)
    except ConfigError as fault:
        return broken("search-space", *fault.faults)
    fields = ", ".join(space.values) or "nothing: the default alone"
    return checked("search-space", (), f"{len(made)} of {space.size} configurations over {fields}")


def _variant_faults(entry: Entry, method: Method) -> Iterator[str]:
    with contextlib.suppress(BenchError):
        for variant in variants_of(entry):
            try:
                parse(method.Config, dict(variant.fields), where=variant.name)
            except ConfigError as fault:
                yield from (f"{variant.name}: {part}" for part in fault.faults)


def _declaration_faults(entry: Entry, method: Method) -> Iterator[str]:
    if not isinstance(method.requires, frozenset) or not all(isinstance(each, Capability) for each in method.requires):
        yield "`requires` is not a frozenset of Capability"
    elif {each.value for each in method.requires} != set(entry.requires):
        listed = ", ".join(sorted(entry.requires)) or "nothing"
        yield f"`requires` is computed: `bench ls` reads {listed} from the source"
    if not isinstance(method.kinds, frozenset) or not all(isinstance(each, ConceptKind) for each in method.kinds):
        yield "`kinds` is not a frozenset of ConceptKind"
    elif not method.kinds:
        yield "`kinds` is empty, so the method serves no request at all"
    extra = [str(each) for each in method.without if each not in method.requires]
    if extra:
        yield f"`without` gives advice about what is not required: {', '.join(extra)}"
