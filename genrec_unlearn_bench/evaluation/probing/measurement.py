"""Probing: is the concept gone from the hidden states, or only from the output? (Alain & Bengio 2016, arXiv 1610.01644)

Logistic probes tell interactions of the forget set from as many retain ones, by layer and site. TRACER's paper probes
"following ELM", whose repository has no probe, so that the protocol is ours. The target is the retrained model, not
0.5: a history tells something of its user to any model. Where concept items were given tokens of their own (TRACER),
``history`` and ``embedding`` can separate *better* than before; only ``prompt`` and ``pooled`` speak of interactions.

Deviation: ``history`` takes one concept item of a history where methods' descriptions take the mean over all of them,
as items of different parts in one mean could not be kept apart. It is disjoint in the items and users that are probed,
not in what else their histories hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    References,
    SharedPass,
    Subject,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricSpec, MetricValue
from genrec_unlearn_bench.evaluation.probing.specs import NUMBERS, SITES, SPECS, ProbingConfig, probing_preset
from genrec_unlearn_bench.progress import Progress

__all__ = ["Probing"]

_NO_FLOOR = "no model with random weights was measured"


STATES = SharedPass("hidden-states", "genrec_unlearn_bench.evaluation.probing.states:read_states")
"""Hidden states of the pool by site, [examples, layers, width] each; see ``states.read_states``."""


class Probing(Measurement):
    """Linear probes by site and layer; see the module's docstring."""

    name = "probing"
    specs = SPECS
    passes = (STATES,)
    untrained = True

    def config(self, scale: str) -> ProbingConfig:
        return probing_preset(scale)

    def measure(self, subject: Subject, part: str, config: Any, progress: Progress) -> Measured:
        from genrec_unlearn_bench.evaluation.probing.probes import measure_probing

        return measure_probing(subject, subject.pass_arrays[STATES.name], config, progress)

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        values: list[MetricValue] = []
        for site in SITES:
            specs = [spec for spec in SPECS if spec.name.endswith(f".{site}")]
            below = [spec for spec in specs if spec.name.startswith("probing.floor.")]
            values += _values([spec for spec in specs if spec not in below], own[""], site)
            if references.untrained is None:
                values += unmeasured(below, _NO_FLOOR)
            else:
                values += _values(below, references.untrained[""], site, "auroc")
        order = [spec.name for spec in SPECS]
        return tuple(sorted(values, key=lambda value: order.index(value.metric)))


def _values(specs: Sequence[MetricSpec], measured: Measured, site: str, column: str = "") -> list[MetricValue]:
    """The metrics of one site; each from the column of its own name, or from ``column``."""
    if measured.curve is None:
        return list(unmeasured(specs, measured.reason))
    note = str(measured.curve.loc[measured.curve["site"] == site, "note"].iloc[0])
    if f"{site}.headline" not in measured.samples:
        return list(unmeasured(specs, note))
    numbers = dict(zip(NUMBERS, measured.samples[f"{site}.headline"].astype(float).tolist(), strict=True))
    layers = f"layers of the divisions: {', '.join(map(str, measured.samples[f'{site}.layers'].astype(int).tolist()))}"
    values: list[MetricValue] = []
    for spec in specs:
        key = column or spec.name.split(".")[1]
        if not np.isfinite(numbers[key]):
            values += unmeasured((spec,), note)
            continue
        interval = (numbers[f"{key}_low"], numbers[f"{key}_high"])
        values.append(number(spec.name, Group.ALL, numbers[key], n=int(numbers["n"]), interval=interval, note=layers))
    return values
