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
from types import MappingProxyType

import numpy as np
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.evaluation.catalogue import family
from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    References,
    SharedPass,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricSpec, MetricValue

SITES = ("prompt", "pooled", "history", "embedding")
"""The state that predicts the first token of the answer (target not given), the mean state of the input positions (the
same), the mean state of one concept item's positions in a history, and the mean token embedding of an item."""

FIRST_LAYER = MappingProxyType({"prompt": 1, "pooled": 0, "history": 0, "embedding": 0})
"""By site, its lowest layer. 0 is the input embeddings, l is behind block l (the last one also behind the final norm).
``prompt`` has no layer 0: there its one token is the same for all."""

COLUMNS = (
    "site",
    "layer",
    "auroc",
    "auroc_low",
    "auroc_high",
    "accuracy",
    "accuracy_low",
    "accuracy_high",
    "control_accuracy",
    "selectivity",
    "selectivity_low",
    "selectivity_high",
    "validation_auroc",
    "n",
    "note",
)
"""Of the curve: a row for each site and layer. A site that cannot be probed has one row with layer -1, n = 0 and the
reason as its note."""

NUMBERS = COLUMNS[2:-1]
"""The columns that are numbers."""

SPECS = family("probing.")


class ProbingConfig(StrictModel):
    """Settings of the probes; the number of states read is fixed by the scale (``states.POSITIVES``)."""

    examples: int = Field(default=2000, ge=1)
    """Most positive examples a site is probed with; never more than the scale reads."""
    splits: int = Field(default=5, ge=1)
    """Random divisions into train, validation and test that are averaged; each has a control task of its own."""
    train: float = Field(default=0.5, gt=0, lt=1)
    """Share of the items whose examples probes are trained on."""
    validation: float = Field(default=0.2, gt=0, lt=1)
    """Share of the items that choose the L2 strength and the layer; the rest is tested on."""
    inverse_l2: tuple[float, ...] = Field(default=(1e-4, 1e-3, 1e-2, 1e-1, 1.0), min_length=1)
    """Grid of scikit-learn's C on standardised features, strongest regularisation first."""
    minimum: int = Field(default=5, ge=2)
    """Fewest examples of each class in each part of each split; with fewer the site is not measurable."""
    layers: tuple[int, ...] | None = None
    """Layers that are probed (0: input embeddings, l: behind block l); None for all."""


_PRESETS = MappingProxyType(
    {
        "smoke": ProbingConfig(examples=500, splits=3, minimum=3),
        "small": ProbingConfig(),
        "paper": ProbingConfig(examples=4000),
        "official": ProbingConfig(examples=4000),
    }
)

_NO_FLOOR = "no model with random weights was measured"


STATES = SharedPass("hidden-states", "genrec_unlearn_bench.evaluation.probing.states:read_states")
"""Hidden states of the pool by site, [examples, layers, width] each; see ``states.read_states``."""


class Probing(Measurement):
    name = "probing"
    specs = SPECS
    passes = (STATES,)
    target = "genrec_unlearn_bench.evaluation.probing.probes:measure_probing"
    untrained = True

    def config(self, scale: str) -> ProbingConfig:
        return _PRESETS[scale]

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
