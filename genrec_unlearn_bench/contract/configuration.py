"""What a method declares: its class, its configuration and search space, what it needs and what it serves."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.contract.finding import Finding, broken, judged, kept
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import BenchError, ConfigError
from genrec_unlearn_bench.registry import Entry, load_class, variants_of
from genrec_unlearn_bench.store.keys import canonical
from genrec_unlearn_bench.tuning.search_space import configurations, search_space
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod

__all__ = ["TRIALS", "configuration_findings", "imported"]

TRIALS = 12
"""What ``bench tune`` tries of any method."""

Method = type[UnlearningMethod[Any]]


def imported(entry: Entry) -> tuple[Method | None, Finding]:
    """The method's class, and what importing its file showed."""
    title = "the file can be imported, quietly, and holds an UnlearningMethod"
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            # mypy: an abstract class may be looked for.
            found: Method = load_class(entry, UnlearningMethod)  # type: ignore[type-abstract]
    except BenchError as fault:
        return None, broken("import", title, fault.what, hint=fault.hint or "mend the file")
    faults = []
    if said.getvalue():
        faults.append(f"importing it prints to stdout: {said.getvalue().strip().splitlines()[0][:80]!r}")
    if inspect.isabstract(found):
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        return None, broken("import", title, f"{found.__name__} does not define {missing}", hint=f"write {missing}()")
    if not (isinstance(found.Config, type) and issubclass(found.Config, MethodConfig)):
        reason = f"Config of {found.__name__} is no subclass of MethodConfig"
        return None, broken("import", title, reason, hint="derive it from MethodConfig, or from DescentConfig")
    return found, judged(
        "import", title, faults, hint="remove the print; facts go to progress.note", seen=found.__name__
    )


def configuration_findings(entry: Entry, method: Method) -> Iterator[Finding]:
    """Everything about what the class declares."""
    yield _documented(method.Config)
    default = _default(method.Config)
    yield default
    if default.status == "kept":
        yield _search(method)
        yield _variant_fields(entry, method)
    yield _declared(entry, method)


def _documented(config: type[MethodConfig]) -> Finding:
    bare = [name for name, field in config.model_fields.items() if not (field.description or "").strip()]
    return judged(
        "config-documented",
        "every field of the configuration is documented",
        [f"{config.__name__}.{name} has no line of documentation" for name in bare],
        hint='write one below the field: gamma: float = 1.0, and on the next line """Weight of the forget term."""',
        seen=f"{len(config.model_fields)} fields",
    )


def _default(config: type[MethodConfig]) -> Finding:
    title = "the default configuration is valid and survives JSON"
    hint = "give every field a default of a plain type (numbers, strings, booleans, tuples, null)"
    try:
        default = config()
        content = default.model_dump(mode="json")
        canonical(content)
        again = config.model_validate(content)
    except ValidationError as fault:
        places = [f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in fault.errors()]
        return broken("config-default", title, *places, hint=hint)
    except Exception as fault:
        return broken("config-default", title, f"{type(fault).__name__}: {fault}", hint=hint)
    if again != default:
        other = [name for name, value in vars(again).items() if value != getattr(default, name)]
        return broken("config-default", title, f"read back from JSON, {', '.join(other)} differs", hint=hint)
    return kept("config-default", title)


def _search(method: Method) -> Finding:
    title = f"the search space holds at most {TRIALS} configurations"
    hint = 'list few values in few fields: json_schema_extra={"search": [0.1, 1.0]}'
    try:
        space = search_space(method.Config)
        count = 1
        for values in space.values():
            count *= len(values)
        if count > TRIALS:
            sizes = " × ".join(f"{len(values)} of {name}" for name, values in space.items())
            return broken("search-space", title, f"{count} configurations: {sizes}", hint=hint)
        made = configurations(method.Config, {}, name=method.name, limit=TRIALS)
    except ConfigError as fault:
        return broken("search-space", title, *fault.faults, hint="every listed value must be one the field takes")
    return kept("search-space", title, f"{len(made)} over {', '.join(space) or 'nothing: the default alone'}")


def _variant_fields(entry: Entry, method: Method) -> Finding:
    title = "every variant is a valid configuration"
    faults: list[str] = []
    with contextlib.suppress(BenchError):
        for variant in variants_of(entry):
            try:
                parse(method.Config, dict(variant.fields), where=variant.name)
            except ConfigError as fault:
                faults += [f"{variant.name}: {part}" for part in fault.faults]
    return judged("variant-fields", title, faults, hint="name fields of the configuration, with values they take")


def _declared(entry: Entry, method: Method) -> Finding:
    title = "what it needs and serves is declared in the types that say so"
    faults = []
    if not isinstance(method.requires, frozenset) or not all(isinstance(each, Capability) for each in method.requires):
        faults.append("`requires` is not a frozenset of Capability")
    elif {each.value for each in method.requires} != set(entry.requires):
        told = ", ".join(sorted(entry.requires)) or "nothing"
        faults.append(f"`requires` is computed: read from the source it says {told}, so `bench ls` shows another one")
    if not isinstance(method.kinds, frozenset) or not all(isinstance(each, ConceptKind) for each in method.kinds):
        faults.append("`kinds` is not a frozenset of ConceptKind")
    elif not method.kinds:
        faults.append("`kinds` is empty, so the method serves no request at all")
    extra = [str(each) for each in method.without if each not in method.requires]
    if extra:
        faults.append(f"`without` gives advice about what is not required: {', '.join(extra)}")
    seen = f"needs {', '.join(sorted(entry.requires)) or 'nothing'}; serves {', '.join(sorted(method.kinds))}"
    return judged(
        "declarations",
        title,
        faults,
        hint="requires = frozenset({Capability.HAS_CODEBOOKS}); kinds = frozenset(ConceptKind) is the default",
        seen=seen,
    )
