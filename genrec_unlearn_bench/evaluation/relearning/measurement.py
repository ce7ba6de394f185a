"""Relearning attacks: is the concept gone from the weights, or only hidden in them?

An unlearned model is fine-tuned on part of what it forgot and scored on the rest. What matters is the difference to a
retrained model under the same attack: any model learns a concept that it is taught. Robust means a recovery of at most
0 within its interval: under the same attack, the model comes back no faster than one that never learned the concept. A
low HR@10 says less, since an attack that fails on every model leaves it low.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.evaluation.catalogue import family
from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    NotMeasurable,
    References,
    SharedPass,
    Subject,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.relearning.recovery import AttackTrace, area, exact_interval, peak, recovery

START = SharedPass("relearning-start", "genrec_unlearn_bench.evaluation.relearning.attack_data:read_start")
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


SUBSETS = MappingProxyType(
    {Attack.FORGET_1: 0.01, Attack.FORGET_5: 0.05, Attack.FORGET_10: 0.1, Attack.FORGET_100: 1.0}
)
"""Share of the attacker's concept interactions that a forget-only attack uses."""

CONCEPT_SHARE = 0.2
"""Share of concept targets in a batch of ``mixed`` (TRACER, relearning experiment)."""


class Space(StrEnum):
    """SID space and serving rules that the attacker uses."""

    SERVED = "served"
    """The model as it is deployed: its own SID table and its serving rules."""
    ORIGINAL = "original"
    """The attacker kept the table from before unlearning and has the weights, so that no serving rule binds him."""


def part_name(attack: Attack, space: Space) -> str:
    """Name of the stored part: ``mixed/served``."""
    return f"{attack}/{space}"


def part_of(name: str) -> tuple[Attack, Space]:
    attack, _, space = name.partition("/")
    return Attack(attack), Space(space)


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
    dropout: bool = False
    """Train with dropout on; off, so that step 0 is exactly the model under attack."""
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


_PRESETS = {
    # A thousandth of the catalogue's size: what can be learned is learned early.
    "smoke": RelearningConfig(steps=(0, 10, 20, 40)),
    "small": RelearningConfig(),
    "paper": RelearningConfig(adapters=True, rows_at_once=15),
    "official": RelearningConfig(adapters=True, rows_at_once=15),
}

QUANTITIES = ("hr@10", "area", "recovery", "peak")


def metric_name(quantity: str, attack: Attack, space: Space) -> str:
    """``relearning.recovery.mixed``, ``relearning.original-sids.hr@10.forget-1`` …"""
    middle = "original-sids." if space is Space.ORIGINAL else ""
    return f"relearning.{middle}{quantity}.{attack}"


SPECS = family("relearning.")
_SPEC = {spec.name: spec for spec in SPECS}
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
        return tuple(part_name(attack, space) for attack in Attack for space in spaces(subject))

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        """By attack and space: HR@10 and R at the last step, the area under the curve, and the largest R.

        References that have one space stand in it for both: their table is the original's.
        """
        return tuple(value for space in Space for attack in Attack for value in _values(own, references, attack, space))


def spaces(subject: Subject) -> tuple[Space, ...]:
    """The spaces that differ for this model; one where table and serving rules are the original's."""
    served = subject.recommender.serving
    plain = served.blocked is None and served.ignored is None
    return (Space.SERVED,) if plain and same_codes(subject) else (Space.SERVED, Space.ORIGINAL)


def same_codes(subject: Subject) -> bool:
    return np.array_equal(subject.recommender.sids.codes, subject.original_sids.codes)


def _values(own: Mapping[str, Measured], references: References, attack: Attack, space: Space) -> Iterator[MetricValue]:
    names = {quantity: metric_name(quantity, attack, space) for quantity in QUANTITIES}
    try:
        trace = _trace(own, attack, space, "the run")
    except NotMeasurable as fault:
        yield from unmeasured((_SPEC[name] for name in names.values()), fault.what)
        return
    note = _note(trace, copied=part_name(attack, space) not in own)
    last = trace.train[-1]
    hits, n = int(last.sum()), len(last)
    yield number(names["hr@10"], Group.FORGET, hits / n, n=n, interval=exact_interval(hits, n), note=note)
    under = area(trace)
    yield number(names["area"], Group.FORGET, under.value, n=n, interval=under.interval, note=note)
    for quantity, estimated in (("recovery", recovery), ("peak", peak)):
        try:
            if not references.oracles:
                raise NotMeasurable("no retrained model to compare with")
            original = _trace(references.original, attack, space, "original")
            retrain = _trace(references.oracles[0], attack, space, "retrain")
            found = estimated(trace, original, retrain)
        except NotMeasurable as fault:
            yield from unmeasured((_SPEC[names[quantity]],), fault.what)
            continue
        yield number(names[quantity], Group.FORGET, found.value, n=n, interval=found.interval, note=note)


def _trace(parts: Mapping[str, Measured], attack: Attack, space: Space, whose: str) -> AttackTrace:
    """The trace of a part; of the served space where there is no other one. Raises NotMeasurable with the reason."""

    found = parts.get(part_name(attack, space)) or parts.get(part_name(attack, Space.SERVED)) or parts.get("")
    if found is None:
        raise NotMeasurable(f"{whose} was not attacked")
    if found.reason:
        raise NotMeasurable(found.reason if whose == "the run" else f"{whose}: {found.reason}")
    return AttackTrace.of(found)


def _note(trace: AttackTrace, *, copied: bool) -> str | None:
    sentences = [_ONE_SPACE] if copied else []
    steps, planned = trace.steps.tolist(), trace.planned.tolist()
    if len(steps) < len(planned):
        following, last = trace.passes[len(steps)], trace.passes[-1]
        sentences.append(
            f"the attack ends after {steps[-1]} of {planned[-1]} steps: {planned[len(steps)]} would be {following:.0f} "
            f"passes over its data, {planned[-1]} would be {last:.0f}"
        )
    return "; ".join(sentences) or None
