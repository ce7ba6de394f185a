"""The rules of the contract of an unlearning method, and those that hold for its file and its declarations.

A method's file is read without importing it as far as that goes, then its class is imported and looked at.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import ValidationError

from genrec_unlearn_bench import registry
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.config import StrictModel, parse
from genrec_unlearn_bench.contract.new_method import NAME
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import BenchError, ConfigError
from genrec_unlearn_bench.store.manifest import canonical
from genrec_unlearn_bench.tuning.rule import TRIALS
from genrec_unlearn_bench.tuning.space import search_space
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod

Method = type[UnlearningMethod[Any]]

RULES = {
    "file": "one method class with its own name in a file that can be read",
    "name": 'write it out in kebab case: name = "my-method"',
    "documentation": "say where the method is from and what it updates; the class's first line is shown in tables",
    "imports": "use what unlearn() is given, and the modules of unlearning/ and backbones/",
    "import": "the file must be importable and hold an UnlearningMethod",
    "config-documented": 'write a docstring below the field: gamma: float = 1.0, then """Weight of the forget term."""',
    "config-default": "give every field a default of a plain type (numbers, strings, booleans, tuples, null)",
    "search-space": "declare it with fields of the configuration: search = Search(gamma=(0.1, 0.3, 1.0))",
    "variants": "a plain literal: names that are free and begin with the method's, fields with valid values",
    "declarations": "requires = frozenset({Capability.HAS_CODEBOOKS}); kinds = frozenset(ConceptKind) is the default",
    "runs": "fix unlearn(), or require less in `requires`",
    "original-untouched": "work on a copy: model = recommender.clone()",
    "request-untouched": "copy arrays before changing them; other methods get the same",
    "changed": 'train the copy and return it; if there is nothing to do, progress.note("applicable", False)',
    "result-whole": "remove hooks and adapters and restore requires_grad (unlearning/lora.py, anatomy.tapped)",
    "lists": "lists must be full, in order, without duplicates and without blocked items",
    "losses": 'call progress.log("unlearn", step, {"forget": …, "retain": …}) at every step, as descend does',
    "quiet": "use progress.info(…), or keep it with progress.note(name, value)",
    "settings": "restore torch's settings before returning",
    "deterministic": (
        'draw from numpy_generator(request.seed, "my-method") or torch_generator(…) of genrec_unlearn_bench.seeding; '
        "iterate over sets in sorted order; keep nothing on self"
    ),
    "kind": "fix it, or leave {} out of `kinds`",
    "backbone": "use the interface only (backbones/recommender.py); declare what {} lacks in `requires`",
}
"""How to keep every rule, by its name; ``kind`` and ``backbone`` are checked once per kind or backbone."""

PACKAGE = "genrec_unlearn_bench."
SUMMARY_LENGTH = 110


class RuleResult(StrictModel):
    rule: str
    """Short name, stable for scripts."""
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
    name = f"{rule}-{subject}" if subject else rule
    if not faults:
        return RuleResult(rule=name, status="kept", reasons=(observed,) if observed else ())
    return RuleResult(
        rule=name, status="broken", reasons=tuple(faults), hint=hint or RULES[rule].replace("{}", subject)
    )


def broken(rule: str, *reasons: str, hint: str | None = None) -> RuleResult:
    return checked(rule, reasons, hint=hint)


def left_out(rule: str, reason: str, *, subject: str = "") -> RuleResult:
    return checked(rule, observed=reason, subject=subject).model_copy(update={"status": "left out"})


def file_rules(entry: registry.Entry) -> Iterator[RuleResult]:
    path = entry.source
    if path is None:
        return
    tree, node = registry.class_node(entry, path)
    literal = registry.class_attribute(node, "name")
    if not (isinstance(literal, ast.Constant) and isinstance(literal.value, str)):
        yield broken("name", f"`name` of {node.name} is not a string literal, so `bench ls` cannot read it")
    else:
        form = f"{entry.name!r} is not of the form my-method (small letters, digits and single hyphens)"
        yield checked("name", [] if NAME.fullmatch(entry.name) else [form], entry.name)
    summary = (ast.get_docstring(node) or "").strip().partition("\n")[0]
    faults = [] if ast.get_docstring(tree) else ["the file has no docstring"]
    if not 0 < len(summary) <= SUMMARY_LENGTH:
        faults.append(f"{node.name} has no docstring, or its first line is longer than {SUMMARY_LENGTH} characters")
    yield checked("documentation", faults, summary)
    forbidden = [
        f"{path.name}:{getattr(node, 'lineno', 0)} imports {name}, which methods may not see"
        for node in ast.walk(tree)
        for name in registry.imported_modules(node)
        if name.startswith(PACKAGE) and not registry.is_method_import(name)
    ]
    yield checked("imports", forbidden)


def import_rule(entry: registry.Entry) -> tuple[Method | None, RuleResult]:
    """Import the method's class; None if that fails."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            # mypy: the class may be abstract.
            found: Method = registry.load_class(entry, UnlearningMethod)  # type: ignore[type-abstract]
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
    return found, checked("import", (), found.__name__)


def class_rules(entry: registry.Entry, method: Method) -> Iterator[RuleResult]:
    fields = method.Config.model_fields
    bare = [name for name, field in fields.items() if not (field.description or "").strip()]
    faults = [f"{method.Config.__name__}.{name} has no line of documentation" for name in bare]
    yield checked("config-documented", faults, f"{len(fields)} fields")
    faults = _default_faults(method.Config)
    yield checked("config-default", faults)
    if not faults:
        yield _search_space(method)
        yield _variants(entry, method)
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
        made = space.trials(TRIALS)
    except ConfigError as fault:
        return broken("search-space", *fault.faults)
    fields = ", ".join(space.values) or "nothing: the default alone"
    return checked("search-space", (), f"{len(made)} of {space.size} configurations over {fields}")


def _variants(entry: registry.Entry, method: Method) -> RuleResult:
    if entry.variant_of:
        return left_out("variants", f"it is a variant itself: check {entry.variant_of}")
    try:
        variants = registry.variants_of(entry)
    except BenchError as fault:
        return broken("variants", fault.what, hint=fault.hint)
    faults = []
    for variant in variants:
        if entry.origin == "file" and variant.name in registry.methods():
            faults.append(f"there is a method {variant.name!r} already")
        try:
            parse(method.Config, dict(variant.fields), where=variant.name)
        except ConfigError as fault:
            faults += [f"{variant.name}: {part}" for part in fault.faults]
    return checked("variants", faults, ", ".join(variant.name for variant in variants) or "none")


def _declaration_faults(entry: registry.Entry, method: Method) -> Iterator[str]:
    for name, kind in (("requires", Capability), ("kinds", ConceptKind)):
        declared = getattr(method, name)
        if not isinstance(declared, frozenset) or not all(isinstance(each, kind) for each in declared):
            yield f"`{name}` is not a frozenset of {kind.__name__}"
            return
    if {each.value for each in method.requires} != set(entry.requires):
        listed = ", ".join(sorted(entry.requires)) or "nothing"
        yield f"`requires` is computed: `bench ls` reads {listed} from the source"
    if not method.kinds:
        yield "`kinds` is empty, so the method serves no request at all"
