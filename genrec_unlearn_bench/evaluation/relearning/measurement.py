"""Relearning attacks: is the concept gone from the weights, or only hidden in them?

An unlearned model is fine-tuned on part of what it forgot and scored on the rest. What matters is the difference to a
retrained model under the same attack: any model learns a concept that it is taught. Robust means a recovery of at most
0 within its interval: under the same attack, the model comes back no faster than one that never learned the concept. A
low HR@10 says less, since an attack that fails on every model leaves it low.

All uncertainty comes from the choice of held-out interactions: they are resampled together for all models (paired
bootstrap), with one draw for each number of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise, product
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.evaluation.catalogue import family
from genrec_unlearn_bench.evaluation.measurement import (
    FloatArray,
    IntervalEstimate,
    Measured,
    Measurement,
    NotMeasurable,
    References,
    SharedPass,
    Subject,
    unmeasured,
    values_or_reason,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricSpec, MetricValue
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    import pandas as pd

START = SharedPass("relearning-start", "genrec_unlearn_bench.evaluation.relearning.attack:read_start")
"""Hits at step 0, in every space of the model."""


class Attack(StrEnum):
    """Data that the attacker fine-tunes on."""

    MIXED = "mixed"
    """TRACER's attack: batches of which 20 % are concept targets."""
    FORGET_1 = "forget-1"
    FORGET_5 = "forget-5"
    FORGET_10 = "forget-10"
    FORGET_100 = "forget-100"
    """Concept targets alone: 1, 5, 10 or 100 percent of the concept interactions that the attacker has."""
    BENIGN = "benign"
    """Retain targets alone: fine-tuning without an interest in the concept."""


SUBSETS = {Attack.FORGET_1: 0.01, Attack.FORGET_5: 0.05, Attack.FORGET_10: 0.1, Attack.FORGET_100: 1.0}
"""Share of the attacker's concept interactions that a forget-only attack uses."""

CONCEPT_SHARE = 0.2
"""Share of concept targets in a batch of ``mixed`` (TRACER, relearning experiment)."""

DRAWS = 2000
"""Bootstrap samples."""

HELD_OUT = ("train", "test")
"""The held-out interactions that were forgotten, and future ones."""

LEAST_GAP = 0.02
"""Smallest HR@10 of the original beyond the retrained model's that is divided by."""


class Space(StrEnum):
    """SID space and serving rules that the attacker uses."""

    SERVED = "served"
    """The model as it is deployed: its own SID table and its serving rules."""
    ORIGINAL = "original"
    """The attacker kept the table from before unlearning and has the weights, so that no serving rule binds him."""


class RelearningConfig(StrictModel):
    """Optimisation of all attacks: the same for every model, so that their curves can be compared."""

    steps: tuple[int, ...] = (0, 50, 100, 200, 500, 1000, 2000)
    """Optimiser steps after which the model is scored; the first is 0, the last ends the attack."""
    lr: float = Field(default=1e-4, gt=0)
    """AdamW learning rate, constant, without warm-up."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of AdamW (that of the relearning attack of PISCES)."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""
    batch_size: int = Field(default=30, ge=5)
    """Examples per step: 6 concept and 24 retain targets in ``mixed``. TRACER does not say its own. An attack that has
    fewer examples takes all of them in each step."""
    passes: float = Field(default=100.0, gt=0)
    """Most passes over the attack's data, over its concept interactions where it has any. At 1 % of a forget set, 2,000
    steps are thousands of passes over a handful of examples: the weights are then a function of the step size, not of
    what the model still holds. Steps beyond the limit are not taken."""
    adapters: bool = False
    """Attack decoder-only models through low-rank adapters, with ``adapter_lr`` in place of ``lr``. All weights of
    encoder-decoders are trained at every scale."""
    adapter_rank: int = Field(default=16, ge=1)
    """Rank of the adapters, which sit in every linear layer of the blocks."""
    adapter_scale: float = Field(default=2.0, gt=0)
    """Their product is added times this (alpha 32 at rank 16)."""
    adapter_lr: float = Field(default=1e-5, gt=0)
    """AdamW learning rate of the adapters."""
    rows_at_once: int | None = Field(default=None, ge=1)
    """A step is taken in parts of that many examples: less memory, the same gradient. None takes it whole."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.steps[:1] != (0,) or len(self.steps) < 2 or any(a >= b for a, b in pairwise(self.steps)):
            raise ValueError("steps begin with 0, rise, and have an end")
        return self


_LARGE = RelearningConfig(adapters=True, rows_at_once=15)
_PRESETS = {
    "smoke": RelearningConfig(steps=(0, 10, 20, 40)),
    "small": RelearningConfig(),
    "paper": _LARGE,
    "official": _LARGE,
}

RECOVERABLE = "relearning.recoverable"

QUANTITIES = ("hr@10", "area", "recovery", "peak")
_PREFIX = {Space.SERVED: "relearning.", Space.ORIGINAL: "relearning.original-sids."}

SPECS = family("relearning.")
_SPEC = {spec.name: spec for spec in SPECS}
_NO_ORACLE = "no retrained model to compare with"
_ONE_SPACE = "table and serving rules are the original's, so that this is the attack in the served space"


class Relearning(Measurement):
    """Six attacks in two SID spaces; one part for each that this model has."""

    name = "relearning"
    specs = SPECS
    passes = (START,)
    target = "genrec_unlearn_bench.evaluation.relearning.attack:measure_attack"

    def config(self, scale: str) -> RelearningConfig:
        return _PRESETS[scale]

    def parts(self, subject: Subject) -> tuple[str, ...]:
        """``mixed/served`` …; the original space is a part of its own only where it differs."""
        return tuple(f"{attack}/{space}" for attack in Attack for space in spaces(subject))

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        """By attack and space: HR@10 and R at the last step, the area under the curve, and the largest R.

        References that have one space stand in it for both: their table is the original's. ``recoverable`` is the
        largest R over all of them.
        """
        found = [value for space in Space for attack in Attack for value in _values(own, references, attack, space)]
        return (*found, *values_or_reason([_SPEC[RECOVERABLE]], lambda: [_recoverable(own, references)]))


def _recoverable(own: Mapping[str, Measured], references: References) -> MetricValue:
    """The largest R of all scored steps of all attacks in all spaces, with a joint bootstrap interval.

    An attack that could not be compared is left out and counted. Raises NotMeasurable where none could be.
    """
    if not references.oracles:
        raise NotMeasurable(_NO_ORACLE)
    found: dict[str, tuple[FloatArray, FloatArray]] = {}
    fault, n = "the run was not attacked", 0
    for space, attack in product(Space, Attack):
        if (place := f"{attack}/{space}") not in own and space is Space.ORIGINAL:
            continue
        try:
            trace = _trace(own, attack, space, "the run")
            found[place] = _ratios(trace, *_references(references, attack, space))
        except NotMeasurable as reason:
            fault = reason.what
        else:
            n = trace.train.shape[1]
    if not found:
        raise NotMeasurable(fault)
    best = max(found, key=lambda place: float(found[place][0].max()))
    highest = np.stack([sampled.max(axis=1) for _, sampled in found.values()])
    estimate = _estimate(float(found[best][0].max()), highest.max(axis=0), n)
    return estimate.metric(RECOVERABLE, Group.FORGET, note=f"by {best}, of {len(found)} attacks")


def spaces(subject: Subject) -> tuple[Space, ...]:
    """The spaces that differ for this model; one where table and serving rules are the original's."""
    served = subject.recommender.serving
    plain = served.blocked is None and served.ignored is None
    return (Space.SERVED,) if plain and same_codes(subject) else (Space.SERVED, Space.ORIGINAL)


def same_codes(subject: Subject) -> bool:
    return np.array_equal(subject.recommender.sids.codes, subject.original_sids.codes)


def _values(
    own: Mapping[str, Measured], references: References, attack: Attack, space: Space
) -> tuple[MetricValue, ...]:
    specs = [_SPEC[f"{_PREFIX[space]}{quantity}.{attack}"] for quantity in QUANTITIES]
    try:
        trace = _trace(own, attack, space, "the run")
    except NotMeasurable as fault:
        return unmeasured(specs, fault.what)
    note = _note(trace, copied=f"{attack}/{space}" not in own)
    hits, n = int(trace.train[-1].sum()), trace.train.shape[1]

    def values(named: Sequence[MetricSpec], *found: IntervalEstimate) -> list[MetricValue]:
        return [one.metric(spec.name, Group.FORGET, n=n, note=note) for spec, one in zip(named, found, strict=True)]

    def compared() -> list[MetricValue]:
        models = trace, *_references(references, attack, space)
        return values(specs[2:], recovery(*models), peak(*models))

    last = IntervalEstimate(hits / n, *exact_interval(hits, n))
    return (*values(specs[:2], last, area(trace)), *values_or_reason(specs[2:], compared))


def _references(references: References, attack: Attack, space: Space) -> tuple[AttackTrace, AttackTrace]:
    """The traces of the original and of the retrained model. Raises NotMeasurable where there is none."""
    if not references.oracles:
        raise NotMeasurable(_NO_ORACLE)
    original = _trace(references.original, attack, space, "original")
    return original, _trace(references.oracles[0], attack, space, "retrain")


def _trace(parts: Mapping[str, Measured], attack: Attack, space: Space, whose: str) -> AttackTrace:
    """The trace of a part; of the served space where there is no other one. Raises NotMeasurable with the reason."""
    found = parts.get(f"{attack}/{space}") or parts.get(f"{attack}/{Space.SERVED}") or parts.get("")
    if found is None:
        raise NotMeasurable(f"{whose} was not attacked")
    if found.reason:
        raise NotMeasurable(found.reason if whose == "the run" else f"{whose}: {found.reason}")
    return AttackTrace(**found.samples)  # type: ignore[arg-type]


def _note(trace: AttackTrace, *, copied: bool) -> str | None:
    sentences = [_ONE_SPACE] if copied else []
    steps, planned = trace.steps.tolist(), trace.planned.tolist()
    if len(steps) < len(planned):
        step, passes = planned[len(steps)], trace.passes[len(steps)]
        sentences.append(
            f"the attack ends after {steps[-1]} of {planned[-1]} steps: {step} are {passes:.0f} passes over its data"
        )
    return "; ".join(sentences) or None


@dataclass(frozen=True, eq=False)
class AttackTrace:
    """Hits on held-out interactions while an attack goes on.

    Attributes:
        planned: [P] steps at which the model was to be scored.
        passes: [P] passes over the attack's data until then (``AttackSet.passes``).
        train: [S, n] hits of the held-out train interactions at the first S planned steps; later ones were not allowed.
        test: [S, m] the same of held-out test interactions.
        targets: [n] items of the held-out train interactions, by which two traces are known to be of the same ones.
    """

    planned: IntArray
    passes: NDArray[np.float64]
    train: BoolArray
    test: BoolArray
    targets: IntArray

    @property
    def steps(self) -> IntArray:
        """[S] the steps that were taken and scored."""
        return self.planned[: len(self.train)]

    def curve(self, attack: str, space: str) -> pd.DataFrame:
        """One row for each part and planned step; no rate where it was not allowed, or nothing is held out."""
        import pandas as pd

        rows = []
        for part, hits in zip(HELD_OUT, (self.train, self.test), strict=True):
            n = hits.shape[1]
            for index, (step, passes) in enumerate(zip(self.planned.tolist(), self.passes.tolist(), strict=True)):
                known = index < len(hits) and n > 0
                found = int(hits[index].sum()) if known else 0
                low, high = exact_interval(found, n) if known else (np.nan, np.nan)
                rate = found / n if known else np.nan
                rows.append((attack, space, step, passes, part, rate, low, high, n))
        columns = ["attack", "space", "step", "passes", "part", "hr@10", "low", "high", "n"]
        return pd.DataFrame(rows, columns=columns)


def exact_interval(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a rate (Clopper & Pearson 1934)."""
    from scipy.stats import binomtest

    interval = binomtest(hits, n).proportion_ci(0.95, method="exact")
    return float(interval.low), float(interval.high)


def area(trace: AttackTrace) -> IntervalEstimate:
    """Mean HR@10 over the attack: the area under the recovery curve (trapezoids over steps) by its length; 0 to 1."""
    steps = trace.steps
    of_each = (np.trapezoid(_columns(trace.train), steps, axis=1) / (steps[-1] - steps[0]))[:, None]
    return _estimate(float(of_each.mean()), (_weights(len(of_each)) @ of_each)[:, 0], len(of_each))


def recovery(own: AttackTrace, original: AttackTrace, retrain: AttackTrace) -> IntervalEstimate:
    value, sampled = _ratios(own, original, retrain)
    return _estimate(float(value[-1]), sampled[:, -1], own.train.shape[1])


def peak(own: AttackTrace, original: AttackTrace, retrain: AttackTrace) -> IntervalEstimate:
    """The largest R of all scored steps, step 0 among them. Noise lifts a maximum, and its samples with it; where it
    lifts nearly all of them, the interval is widened to hold the measured value."""
    value, sampled = _ratios(own, original, retrain)
    return _estimate(float(value.max()), sampled.max(axis=1), own.train.shape[1])


def _ratios(own: AttackTrace, original: AttackTrace, retrain: AttackTrace) -> tuple[FloatArray, FloatArray]:
    """R(t) = [HR_own(t) - HR_retrain(t)] / [HR_original(0) - HR_retrain(0)], [S], and its bootstrap samples [2000, S].

    Nothing is clipped: below 0 the model holds less than one that never learned the concept, above 1 it gives back more
    than the original knew. Raises NotMeasurable where the attacks differ, or the denominator may be 0.
    """
    for other in (original, retrain):
        if not np.array_equal(own.targets, other.targets):
            raise NotMeasurable("the run and its references were scored on different held-out interactions")
    if not np.array_equal(own.steps, retrain.steps):
        raise NotMeasurable("the run and the retrained model were attacked for different steps")
    hits = [_columns(own.train), _columns(retrain.train), _columns(original.train[:1]), _columns(retrain.train[:1])]
    values = [found.mean(axis=0) for found in hits]
    sampled = [_weights(len(found)) @ found for found in hits]
    gap, gaps = float((values[2] - values[3])[0]), sampled[2] - sampled[3]
    low, high = (float(bound) for bound in np.quantile(gaps, (0.025, 0.975)))
    if gap < LEAST_GAP or low <= 0:
        raise NotMeasurable(
            f"before the attack the original's HR@10 is {gap:+.3f} beyond the retrained model's ({low:+.3f} to "
            f"{high:+.3f}): too little to be recovered and divided by"
        )
    return (values[0] - values[1]) / gap, (sampled[0] - sampled[1]) / np.where(gaps > 0, gaps, np.nan)


def _columns(hits: BoolArray) -> FloatArray:
    """[n, S] from [S, n]."""
    return hits.T.astype(np.float64)


@cache
def _weights(n: int) -> FloatArray:
    """[2000, n] how much each of n interactions counts in each sample; rows sum to 1."""
    return numpy_generator(0, "relearning", "bootstrap", n).multinomial(n, np.full(n, 1 / n), size=DRAWS) / n


def _estimate(value: float, sampled: FloatArray, n: int) -> IntervalEstimate:
    low, high = np.nanquantile(sampled, (0.025, 0.975))
    return IntervalEstimate(value, min(float(low), value), max(float(high), value), n)
