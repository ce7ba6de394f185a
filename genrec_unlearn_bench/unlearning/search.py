"""Declarations of what ``bench tune`` may try: ``search = Search(gamma=(0.1, 0.3, 1.0))`` in a method's configuration.

Learning rates and lengths of training are the same for every method (protocol, sec. 5), so they are named here once.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from genrec_unlearn_bench.errors import ConfigError

LEARNING_RATES = (3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
"""The one grid of learning rates, in half decades."""

EPOCHS = (2, 5, 10)
"""The one grid of passes over the forget set."""

SHARED = {"lr": LEARNING_RATES, "epochs": EPOCHS}
"""Fields that are searched over the same values in every method."""

MAX_POINTS = 20_000
"""Largest product of a declaration's values; twelve trials say nothing about more."""

Value = float | int | str | bool | None


class Search:
    """The values that may be tried of each field, and the configurations that are tried in any case.

    A configuration class adds its declaration to that of the class it extends. A variant's declaration adds to its
    method's, and the fields in it are searched although the variant changes them.

    Args:
        always: Configurations besides the default that no draw leaves out, such as a paper's official values, each as
            the fields in which it differs from the default.
        values: Field -> the values to try; None leaves an inherited field out.
    """

    def __init__(self, *always: Mapping[str, Value], **values: Sequence[Value] | None) -> None:
        self.always = always
        self.values = values

    def __repr__(self) -> str:
        parts = [*map(repr, self.always), *(f"{name}={values!r}" for name, values in self.values.items())]
        return f"Search({', '.join(parts)})"

    @property
    def fields(self) -> dict[str, tuple[Value, ...]]:
        """Field -> its values, in the order of declaration."""
        return {name: tuple(values) for name, values in self.values.items() if values is not None}

    def over(self, base: Search) -> Search:
        """This declaration added to an inherited one."""
        return Search(*base.always, *self.always, **{**base.values, **self.values})


def check_search(search: Search, config: type[BaseModel], *, where: str) -> None:
    """Check a complete declaration against a configuration class. Raises ConfigError with every fault at once."""
    if not isinstance(search, Search):
        raise ConfigError(
            [f"search: a Search is expected, not {search!r}"], where=where, hint="search = Search(gamma=(0.1, 1.0))"
        )
    faults = [fault for name, values in search.values.items() for fault in _field_faults(config, name, values)]
    for number, fields in enumerate(search.always, start=1):
        if not isinstance(fields, Mapping):
            faults.append(f"search: configuration {number} is {fields!r}, not a mapping of fields")
            continue
        faults += [fault for name, value in fields.items() for fault in _value_faults(config, name, [value])]
    size = math.prod(map(len, search.fields.values())) if not faults else 0
    if size > MAX_POINTS:
        faults.append(f"search: {size} configurations, more than {MAX_POINTS}: list fewer fields or values")
    if faults:
        raise ConfigError(faults, where=where, hint="search = Search(gamma=(0.1, 1.0)), each a field with its values")


def _field_faults(config: type[BaseModel], name: str, values: Any) -> Iterator[str]:
    if values is None:
        return
    if isinstance(values, str) or not isinstance(values, Sequence):
        yield f"search: {name} is to be a tuple of values, not {values!r}"
        return
    if not values:
        yield f"search: {name} lists no value"
    if len(set(map(repr, values))) < len(values):
        yield f"search: {name} lists a value twice: {list(values)}"
    shared = SHARED.get(name)
    if shared is not None and tuple(values) != shared:
        listed = ", ".join(f"{value:g}" for value in shared)
        constant = "LEARNING_RATES" if name == "lr" else "EPOCHS"
        yield f"search: every method searches {name} over the same values, {listed}: write {name}={constant}"
        return
    yield from _value_faults(config, name, values)


def _value_faults(config: type[BaseModel], name: str, values: Sequence[Any]) -> Iterator[str]:
    """Faults of values that a field does not take, or of a field that does not exist."""
    field = config.model_fields.get(name)
    if field is None:
        near = difflib.get_close_matches(name, config.model_fields, n=1)
        more = f"did you mean {near[0]!r}?" if near else f"its fields: {', '.join(config.model_fields)}"
        yield f"search: {config.__name__} has no field {name!r}; {more}"
        return
    annotation: Any = Annotated[(field.annotation, *(field.metadata or [field]))]
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    for value in values:
        try:
            adapter.validate_python(value)
        except ValidationError as fault:
            yield f"search: {name} cannot be {value!r}: {fault.errors()[0]['msg']}"
