"""Rules about a method's file, read without importing it, and about what its class declares."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import math
import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.contract.rules import MAX_TRIALS, NAME, RuleResult, broken, judged, kept, left_out
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
    source_file,
    variants_of,
)
from genrec_unlearn_bench.store.manifest import canonical
from genrec_unlearn_bench.tuning.rule import configurations, search_space
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod

Method = type[UnlearningMethod[Any]]

PACKAGE = "genrec_unlearn_bench."

SOURCE_WORDS = re.compile(r"arXiv|doi|https?://|et al\.|\b(?:19|20)\d\d\b|\bpaper\b|unpublished", re.IGNORECASE)
UPDATE_WORDS = re.compile(
    r"updat|chang|train|mov|edit|adapter|retrain|serv|filter|set to|taken out|left as|dropped|remove", re.IGNORECASE
)
SUMMARY_LENGTH = 110


def file_rules(entry: Entry) -> Iterator[RuleResult]:
    path = source_file(entry)
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
        yield kept("name", entry.name)
    yield _documentation(tree, node)
    yield _variants(entry)
    yield judged("imports", _forbidden_imports(tree, path.name))


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
    return judged("documentation", faults, summary)


def _variants(entry: Entry) -> RuleResult:
    if entry.variant_of:
        return left_out("variants", f"it is a variant itself: check {entry.variant_of}")
    try:
        names = [variant.name for variant in variants_of(entry)]
    except BenchError as fault:
        return broken("variants", fault.what, hint=fault.hint)
    taken = [name for name in names if entry.origin == "file" and name in methods()]
    faults = [f"there is a method {name!r} already, so no variant can have that name" for name in taken]
    return judged("variants", faults, ", ".join(names) or "none")


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
        return None, broken("import", fault.what, hint=fault.hint)
    if inspect.isabstract(found):
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        return None, broken("import", f"{found.__name__} does not define {missing}", hint=f"write {missing}()")
    if not (isinstance(found.Config, type) and issubclass(found.Config, MethodConfig)):
        reason = f"Config of {found.__name__} is no subclass of MethodConfig"
        return None, broken("import", reason, hint="derive it from MethodConfig, or from DescentConfig")
    first = output.getvalue().strip().partition("\n")[0][:80]
    faults = [f"importing it prints to stdout: {first!r}"] if output.getvalue() else []
    return found, judged("import", faults, found.__name__, hint="remove the print; facts go to progress.note")


def class_rules(entry: Entry, method: Method) -> Iterator[RuleResult]:
    fields = method.Config.model_fields
    bare = [name for name, field in fields.items() if not (field.description or "").strip()]
    faults = [f"{method.Config.__name__}.{name} has no line of documentation" for name in bare]
    yield judged("config-documented", faults, f"{len(fields)} fields")
    faults = _default_faults(method.Config)
    yield judged("config-default", faults)
    if not faults:
        yield _search_space(method)
        yield judged("variant-fields", list(_variant_faults(entry, method)))
    needs, kinds = ", ".join(sorted(entry.requires)) or "nothing", ", ".join(sorted(map(str, method.kinds)))
    yield judged("declarations", list(_declaration_faults(entry, method)), f"needs {needs}; serves {kinds}")


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
        space = search_space(method.Config)
        count = math.prod(len(values) for values in space.values())
        if count > MAX_TRIALS:
            sizes = " × ".join(f"{len(values)} of {name}" for name, values in space.items())
            return broken("search-space", f"{count} configurations: {sizes}")
        made = configurations(method.Config, {}, name=method.name, limit=MAX_TRIALS)
    except ConfigError as fault:
        return broken("search-space", *fault.faults)
    return kept("search-space", f"{len(made)} over {', '.join(space) or 'nothing: the default alone'}")


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
