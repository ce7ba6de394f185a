"""Every metric by name, as ``metrics.yaml`` declares it. Imports neither NumPy nor any measurement.

Metrics that a retrained model has its own value of are compared with it: ``gap.<metric>`` is the difference to the mean
over the oracle's runs, ``gapz.<metric>`` the same in standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.config import one_of, plain_yaml
from genrec_unlearn_bench.evaluation.metric import Better, MetricSpec

_FILE = Path(__file__).with_name("metrics.yaml")

_COMPARED = ("", "probing", "relearning", "membership", "forget-quality", "quantisation")
"""Families in the order in which their gaps are listed; "": all others, which are measured on users."""


def metric_spec(name: str) -> MetricSpec:
    """The declaration of one metric. Raises UnknownName, with the nearest names there are."""
    return metric_specs()[one_of("metric", name, metric_specs())]


def family(*prefixes: str) -> tuple[MetricSpec, ...]:
    """The metrics whose names begin with one of ``prefixes``, in the order of reports."""
    return tuple(spec for name, spec in metric_specs().items() if name.startswith(prefixes))


def compared() -> frozenset[str]:
    """Names of the metrics that are compared with the oracle's."""
    return frozenset(name.removeprefix("gap.") for name in metric_specs() if name.startswith("gap."))


@cache
def metric_specs() -> Mapping[str, MetricSpec]:
    """All declared metrics, in the order of reports."""
    declared = [entry for family in plain_yaml(_FILE.read_text(encoding="utf-8")) for entry in _expanded(family)]
    wanted = [str(entry.pop("compared", False)) == "True" for entry in declared]
    specs = [MetricSpec.model_validate(entry) for entry in declared]
    bases = [spec for spec, compared_too in zip(specs, wanted, strict=True) if compared_too]
    bases.sort(key=lambda spec: _COMPARED.index(_family_of(spec)))
    place = 1 + max(number for number, spec in enumerate(specs) if spec.name.startswith("cost."))
    specs[place:place] = [gap for base in bases for gap in _gaps(base)]
    return {spec.name: spec for spec in specs}


def _family_of(spec: MetricSpec) -> str:
    first = spec.name.partition(".")[0]
    return first if first in _COMPARED else ""


class _Choice(str):
    """A name in ``each``; its texts are attributes."""


def _expanded(family: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The metrics of one entry of the file, one for each combination of what ``each`` lists."""
    each = family.pop("each", {})
    for names in product(*each.values()):
        choices = {variable: _Choice(name) for variable, name in zip(each, names, strict=True)}
        for variable, name in zip(each, names, strict=True):
            vars(choices[variable]).update(each[variable][name])
        yield _filled(family, choices) if each else family


def _filled(value: Any, choices: Mapping[str, _Choice]) -> Any:
    """``value`` with ``{variable}`` and ``{variable.text}`` filled in, in texts of texts as well."""
    if isinstance(value, dict):
        return {_filled(key, choices): _filled(inner, choices) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, choices) for inner in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    variable, _, text = value[1:-1].partition(".")
    if text.isidentifier() and value == f"{{{variable}.{text}}}":
        # The whole value is one text, number, list or mapping.
        return _filled(getattr(choices[variable], text), choices)
    return _filled(value.format(**choices), choices)


def _gaps(base: MetricSpec) -> Iterator[MetricSpec]:
    width = base.range[1] - base.range[0]
    minus = f"{base.name} minus its mean over the oracle's runs; 0 is the oracle."
    divided = f"gap.{base.name} divided by the standard deviation of {base.name} over the oracle's seeds."
    for name, end, bound, unit, description in (
        ("gap", "", width, base.unit, minus),
        ("gapz", " / sd", math.inf, "spreads", divided),
    ):
        yield MetricSpec(
            name=f"{name}.{base.name}",
            title=f"Δ {base.title}{end}",
            better=dict.fromkeys(base.better, Better.ORACLE),
            range=(-bound, bound),
            unit=unit,
            description=description,
            source="protocol sec. 3 and 4: the target for forgetting is the retrained model's score, not zero",
        )
