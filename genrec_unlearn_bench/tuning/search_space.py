"""Search space of a method: the product of the values that its configuration fields list under ``search``.

A method that lists nothing has one configuration, its default. The default always comes first. Where there are more
than may be tried, the rest is drawn without replacement by the method's name alone: the same for every task and
backbone, and fewer trials are a part of more.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.method import MethodConfig


def search_space(config: type[MethodConfig], fixed: Mapping[str, Any] | None = None) -> dict[str, tuple[Any, ...]]:
    """Field -> the values that may be tried, without the fields that are ``fixed``."""
    found: dict[str, tuple[Any, ...]] = {}
    for name, field in config.model_fields.items():
        extra = field.json_schema_extra
        values = extra.get("search") if isinstance(extra, dict) else None
        if values is None or name in (fixed or {}):
            continue
        if not isinstance(values, list | tuple) or not values:
            raise ConfigError([f"{name}: `search` is to be a list of values, not {values!r}"], where=config.__name__)
        found[name] = tuple(values)
    return found


def configurations(
    config: type[MethodConfig], fixed: Mapping[str, Any], *, name: str, limit: int
) -> tuple[MethodConfig, ...]:
    """At most ``limit`` different configurations, the default (with ``fixed`` in it) first.

    Raises ConfigError where ``fixed`` or a listed value is none the method takes.
    """
    space = search_space(config, fixed)
    default = parse(config, fixed, where="--set")
    made = {default.model_dump_json(): default}
    for values in product(*space.values()):
        one = parse(config, {**fixed, **dict(zip(space, values, strict=True))}, where=f"the search space of {name}")
        made.setdefault(one.model_dump_json(), one)
    rest = list(made.values())[1:]
    if len(rest) > limit - 1:
        drawn = numpy_generator(0, "tuning", name).permutation(len(rest))[: limit - 1]
        rest = [rest[index] for index in sorted(drawn.tolist())]
    return (default, *rest)
