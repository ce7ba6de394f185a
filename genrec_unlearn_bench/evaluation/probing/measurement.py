"""Probing: is the concept gone from the hidden states, or only from the output? (Alain & Bengio 2016, arXiv 1610.01644)

Logistic probes tell interactions of the forget set from as many retain ones, by layer and site. TRACER's paper probes
"following ELM", whose repository has no probe, so that the protocol is ours: divisions disjoint in items and users,
balanced by level-1 code, control tasks with random retain items as concept, and a model with random weights as floor.

The target is the retrained model, not 0.5: a history tells something of its user to any model that reads it. Sites are
reported one by one. Where concept items were given tokens of their own (TRACER), ``history`` and ``embedding`` can
separate *better* than before, which says nothing about what the model knows of an interaction; ``prompt`` and
``pooled`` do.

Deviation: ``history`` takes one concept item of a history where methods' descriptions take the mean over all of them.
Items of different parts in one mean could not be kept apart. The places around it are the history's, so that it is
disjoint in the items and users that are probed, not in what else their histories hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    Reading,
    References,
    Subject,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.probing.config import ProbingConfig, probing_preset
from genrec_unlearn_bench.evaluation.probing.specs import SITES, SPECS

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.progress import Progress

__all__ = ["STATES", "Probing"]

_PACKAGE = "genrec_unlearn_bench.evaluation.probing"
_NO_FLOOR = "no model with random weights was measured"


def _read(subject: Subject, progress: Progress) -> Mapping[str, NDArray[np.generic]]:
    from genrec_unlearn_bench.evaluation.probing.sites import read_states

    return read_states(subject, progress)


STATES = Reading("hidden-states", _read, (f"{_PACKAGE}.sites",))
"""Hidden states of the pool by site, [examples, layers, width] each; see ``sites.read_states``."""


class Probing(Measurement):
    """Linear probes by site and layer; see the module's docstring."""

    name = "probing"
    specs = SPECS
    modules = (f"{_PACKAGE}.profile",)
    readings = (STATES,)
    untrained = True

    def config(self, scale: str) -> ProbingConfig:
        return probing_preset(scale)

    def measure(self, subject: Subject, part: str, config: Any, progress: Progress) -> Measured:
        from genrec_unlearn_bench.evaluation.probing.profile import measure_probing

        return measure_probing(subject, subject.readings[STATES.name], config, progress)

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        values: list[MetricValue] = []
        floor = references.untrained
        for site in SITES:
            measured = [spec for spec in SPECS if spec.name.endswith(f".{site}")]
            best, reason = _best(own, site)
            names = {spec.name: spec for spec in measured}
            below = names.pop(f"probing.floor.{site}")
            if best is None:
                values.extend(unmeasured(names.values(), reason))
            else:
                values.extend(_value(name, name.split(".")[1], best) for name in names)
            lowest, reason = (None, _NO_FLOOR) if floor is None else _best(floor, site)
            values.extend(unmeasured((below,), reason) if lowest is None else (_value(below.name, "auroc", lowest),))
        order = [spec.name for spec in SPECS]
        return tuple(sorted(values, key=lambda value: order.index(value.metric)))


def _best(parts: Mapping[str, Measured], site: str) -> tuple[pd.Series[Any] | None, str]:
    """The curve's row at the site's layer with the best validation AUROC, or why there is none."""
    measured = parts[""]
    if measured.curve is None:
        return None, measured.reason
    rows = measured.curve[measured.curve["site"] == site]
    if not rows["n"].sum():
        return None, " ".join(rows["note"].astype(str)) or "the site was not probed"
    return rows.iloc[int(rows["validation_auroc"].argmax())], ""


def _value(metric: str, column: str, row: pd.Series[Any]) -> MetricValue:
    """One column of the row, with its interval."""
    low, high = float(row[f"{column}_low"]), float(row[f"{column}_high"])
    layer = f"layer {row['layer']}"
    if not np.isfinite(float(row[column])):
        return MetricValue(metric=metric, group=Group.ALL, value=None, note=str(row["note"]))
    return number(metric, Group.ALL, float(row[column]), n=int(row["n"]), interval=(low, high), note=layer)
