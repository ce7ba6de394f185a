"""The configurations that are tried: at most twelve points of a method's search space, even over its learning rates.

The space is the product of the values that a method declares (``unlearning/search.py``). The default and the
configurations that the declaration always wants come first. Every further trial has the learning rate that was tried
least so far, and among those points the values of the other fields that were; draws from a generator of the method's
name break ties. So the trials are the same for every task and backbone, fewer are the first of more, and a space that
is not larger than the budget is tried whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod
from genrec_unlearn_bench.unlearning.search import Search, Value

STRATUM = "lr"
"""The field over which trials are spread first."""


@dataclass(frozen=True)
class SearchSpace:
    """What may be tried of a method or variant, whose ``name`` alone decides draws."""

    name: str
    default: MethodConfig
    """Where the search starts: the default with the variant's and the user's fields."""
    values: Mapping[str, tuple[Value, ...]]
    """Searched field -> its values."""
    always: tuple[MethodConfig, ...]
    """Configurations that no draw leaves out, the default first."""

    @property
    def size(self) -> int:
        """Number of different configurations."""
        points = [self._with(dict(zip(self.values, one, strict=True))) for one in product(*self.values.values())]
        return len({one.model_dump_json() for one in (*points, *self.always)})

    def trials(self, limit: int) -> tuple[MethodConfig, ...]:
        """At most ``limit`` different configurations, the default first. Raises ConfigError for a wrong value."""
        made = {one.model_dump_json(): one for one in self.always[:limit]}
        points = list(product(*self.values.values()))
        order = numpy_generator(0, "tuning", self.name).permutation(len(points)).tolist()
        left = {index: dict(zip(self.values, points[index], strict=True)) for index in order}
        counts = Counter((name, getattr(one, name)) for one in made.values() for name in self.values)
        while left and len(made) < limit:
            # min takes the first of equals: the order of the draw.
            values = left.pop(min(left, key=lambda one: _uses(left[one], counts)))
            one = self._with(values)
            if made.setdefault(one.model_dump_json(), one) is one:
                counts.update(values.items())
        return tuple(made.values())

    def _with(self, values: Mapping[str, Value]) -> MethodConfig:
        content = {**self.default.model_dump(), **values}
        return parse(type(self.default), content, where=f"the search space of {self.name}")


def _uses(values: Mapping[str, Value], counts: Counter[tuple[str, Value]]) -> tuple[int, int]:
    """How often the learning rate was tried so far, and the values of the other fields."""
    others = sum(counts[item] for item in values.items() if item[0] != STRATUM)
    return counts[STRATUM, values.get(STRATUM)], others


def search_space(
    method: type[UnlearningMethod[Any]], name: str, variant: Mapping[str, Any], given: Mapping[str, Any]
) -> SearchSpace:
    """The space of a method or variant of that name. Raises ConfigError where a field or value is none of the method's.

    Args:
        variant: Fields that the variant changes; they are searched only if its own declaration lists them.
        given: Fields that keep the user's value in every trial.
    """
    own = method.variant_search.get(name, Search())
    search, held = own.over(method.Config.search), {*(set(variant) - set(own.fields)), *given}
    start = {**variant, **given}
    default = parse(method.Config, start, where="--set")
    kept = {field: start[field] for field in held}
    where = f"the search space of {name}"
    always = [parse(method.Config, {**start, **fields, **kept}, where=where) for fields in search.always]
    values = {field: listed for field, listed in search.fields.items() if field not in held}
    distinct = {one.model_dump_json(): one for one in (default, *always)}
    return SearchSpace(name, default, values, tuple(distinct.values()))
