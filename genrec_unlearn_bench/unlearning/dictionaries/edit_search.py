"""Search for an edit's strength (PISCES, find_hps): a grid of thresholds τ and strengths μ in random order.

Both axes go from weak to strong. A point that changes too little excludes all weaker ones, and a point that costs too
much all stronger ones, without evaluating them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.unlearning.likelihood import resting
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import example_batches, positive_set
from genrec_unlearn_bench.unlearning.validation import validate

TAUS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.5, 0.4, 0.3, 0.2)
MUS = (4.0, 7.0, 10.0, 13.0, 18.0, 24.0, 30.0, 36.0, 42.0, 50.0)
"""The official grid, from weak to strong."""
NEIGHBOURS = 5
"""Size of P(i), the items used as the similar domain (TRACER's size)."""


@dataclass(frozen=True)
class Effect:
    """Scores of an edited model as ratios to the original's, 1 if unchanged.

    Attributes:
        forget: HR@10 on forget examples (``probability`` if the original has no hit).
        retain: NDCG@10 on retain examples.
        probability: Mean probability of the forget targets' tokens.
        similar: The same for their nearest retain items P(i).
    """

    forget: float
    retain: float
    probability: float
    similar: float

    @property
    def harmonic(self) -> float:
        """Harmonic mean of efficacy, specificity and coherence, each in [0, 1]; 0 if one of them is 0.

        Deviation: the official mean omits zeros, so that an edit without any effect could win.
        """
        parts = (1 - self.forget, min(1.0, self.retain), min(1.0, self.similar))
        return 0.0 if min(parts) <= 0 else len(parts) / sum(1 / part for part in parts)


class GridPoint(NamedTuple):
    """A point of the grid and the edit's effect there."""

    tau: float
    mu: float
    effect: Effect


class Gauge:
    """Measures edited models against the original on fixed examples."""

    def __init__(self, original: Recommender, request: ForgetRequest, groups: Groups) -> None:
        self._groups = groups
        self._near = positive_set(
            request.features, original.sids, groups.forget.targets, request.affected_items, NEIGHBOURS
        )
        self._before = validate(original, groups)
        self._probabilities = self.probabilities(original)

    def effect(self, model: Recommender) -> Effect:
        now, before = validate(model, self._groups), self._before
        pairs = zip(self.probabilities(model), self._probabilities, strict=True)
        probability, similar = (_ratio(after, first, 1.0) for after, first in pairs)
        hits = _ratio(now.forget_hr, before.forget_hr, probability)
        return Effect(hits, _ratio(now.retain_ndcg, before.retain_ndcg, 1.0), probability, similar)

    def probabilities(self, model: Recommender) -> tuple[float, float]:
        """Mean token probability, over quantised levels, of forget targets and of their P(i)."""
        sums, counts = np.zeros(2), np.zeros(2)
        levels = model.sids.quantised_levels
        with resting(model):
            for number, part in enumerate(example_batches(self._groups.forget, 128)):
                items = np.concatenate([part.targets[:, None], self._near[number * 128 : number * 128 + 128]], 1)
                rows, places = np.nonzero(items >= 0)
                context = model.encode(part.histories(model.history_limit))
                codes = model.codes_of(items[rows, places])
                output = model.decode(context, codes, rows=torch.from_numpy(rows).to(codes.device))
                real = np.asarray((codes[:, :levels] >= 0).cpu())
                values = output.token_log_probs()[:, :levels].exp().float().cpu().numpy() * real
                for side, here in enumerate((places == 0, places > 0)):
                    sums[side] += values[here].sum()
                    counts[side] += real[here].sum()
        forget, similar = sums / np.maximum(counts, 1)
        return float(forget), float(similar)


def target_probability(model: Recommender, examples: Examples) -> float:
    """Mean probability of the targets' content codes."""
    total, count = 0.0, 0
    with resting(model):
        for part in example_batches(examples, 128):
            real = model.sids.quantised_codes[part.targets] >= 0
            values = model.target_log_probs(part.histories(model.history_limit), part.targets)
            total += float((values[:, : real.shape[1]].exp().double().cpu().numpy() * real).sum())
            count += int(real.sum())
    return total / max(count, 1)


def search_cells(
    effect: Callable[[float, float], Effect],
    generator: np.random.Generator,
    *,
    evaluations: int,
    too_weak: float,
    too_strong: float,
) -> GridPoint | None:
    """The grid point with the highest harmonic mean among at most ``evaluations``; None if all are 0.

    ``effect`` applies the edit with (τ, μ) and measures it. A point whose forget ratio exceeds ``too_weak`` excludes
    all weaker ones; one whose retain ratio is below ``too_strong`` excludes itself and all stronger ones.
    """
    gone = np.zeros((len(MUS), len(TAUS)), dtype=np.bool_)
    best: GridPoint | None = None
    for place in generator.permutation(gone.size):
        i, j = divmod(int(place), len(TAUS))
        if evaluations == 0:
            break
        if gone[i, j]:
            continue
        evaluations -= 1
        point = GridPoint(TAUS[j], MUS[i], effect(TAUS[j], MUS[i]))
        gone[i, j] = True
        if point.effect.forget > too_weak:
            gone[: i + 1, : j + 1] = True
        if not point.effect.retain >= too_strong:
            gone[i:, j:] = True
            continue
        if point.effect.harmonic > (0.0 if best is None else best.effect.harmonic):
            best = point
    return best


def _ratio(now: float, before: float, otherwise: float) -> float:
    """now / before; ``otherwise`` if ``before`` is 0 or not finite."""
    return now / before if before > 0 and math.isfinite(before) else otherwise
