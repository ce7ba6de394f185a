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

from collections.abc import Mapping

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

FIRST_LAYER = {"prompt": 1, "pooled": 0, "history": 0, "embedding": 0}
"""By site, its lowest layer. 0 is the input embeddings, l is behind block l (the last one also behind the final norm).
``prompt`` has no layer 0: there its one token is the same for all."""

NUMBERS = (
    *("auroc", "auroc_low", "auroc_high", "accuracy", "accuracy_low", "accuracy_high", "control_accuracy"),
    *("selectivity", "selectivity_low", "selectivity_high", "validation_auroc", "n"),
)
COLUMNS = ("site", "layer", *NUMBERS, "note")
"""Of the curve: a row for each site and layer. A site that cannot be probed has one row with layer -1, n = 0 and the
reason as its note."""

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


_PRESETS = {"smoke": ProbingConfig(examples=500, splits=3, minimum=3), "small": ProbingConfig()}

STATES = SharedPass("hidden-states", "genrec_unlearn_bench.evaluation.probing.states:read_states")
"""Hidden states of the pool by site, [examples, layers, width] each; see ``states.read_states``."""


class Probing(Measurement):
    name = "probing"
    specs = SPECS
    passes = (STATES,)
    target = "genrec_unlearn_bench.evaluation.probing.probes:measure_probing"
    untrained = True

    def config(self, scale: str) -> ProbingConfig:
        return _PRESETS.get(scale, ProbingConfig(examples=4000))

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        values: list[MetricValue] = []
        for spec in SPECS:
            quantity, site = spec.name.split(".")[1:]
            if quantity != "floor":
                values += _value(spec, own[""], site, quantity)
            elif references.untrained is not None:
                values += _value(spec, references.untrained[""], site, "auroc")
            else:
                values += unmeasured((spec,), "no model with random weights was measured")
        return tuple(values)


def _value(spec: MetricSpec, measured: Measured, site: str, column: str) -> tuple[MetricValue, ...]:
    if measured.curve is None:
        return unmeasured((spec,), measured.reason)
    note = str(measured.curve.loc[measured.curve["site"] == site, "note"].iloc[0])
    if f"{site}.headline" not in measured.samples:
        return unmeasured((spec,), note)
    numbers = dict(zip(NUMBERS, measured.samples[f"{site}.headline"].astype(float).tolist(), strict=True))
    if not np.isfinite(numbers[column]):
        return unmeasured((spec,), note)
    layers = f"layers of the divisions: {', '.join(map(str, measured.samples[f'{site}.layers'].astype(int).tolist()))}"
    interval = (numbers[f"{column}_low"], numbers[f"{column}_high"])
    found = number(spec.name, Group.ALL, numbers[column], n=int(numbers["n"]), interval=interval, note=layers)
    return (found,)
