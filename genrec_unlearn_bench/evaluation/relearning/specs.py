"""Attacks, SID spaces, configuration and metrics of relearning. Imports neither torch nor pandas.

Robust means a recovery of at most 0 within its interval: under the same attack, the model comes back no faster than one
that never learned the concept. A low HR@10 says less, since an attack that fails on every model leaves it low.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Self

from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.evaluation.measurement import SharedPass
from genrec_unlearn_bench.evaluation.metric import Better, Group, MetricSpec

__all__ = [
    "CONCEPT_SHARE",
    "HELD_OUT",
    "QUANTITIES",
    "SPECS",
    "START",
    "SUBSETS",
    "Attack",
    "RelearningConfig",
    "Space",
    "metric_name",
    "part_name",
    "part_of",
    "preset",
]

START = SharedPass("relearning-start", "genrec_unlearn_bench.evaluation.relearning.attack_data:read_start")
"""Hits at step 0, in every space of the model."""

HELD_OUT = ("train", "test")
"""The held-out interactions that were forgotten, and future ones."""


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
    """The inverse of ``part_name``. Raises ValueError for any other text."""
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


def preset(scale: str) -> RelearningConfig:
    """The configuration at a scale."""
    return _PRESETS[scale]


_ATTACKS = {
    Attack.MIXED: "fine-tuning on batches with 20 % concept targets",
    Attack.FORGET_1: "fine-tuning on 1 % of the attacker's concept interactions",
    Attack.FORGET_5: "fine-tuning on 5 % of the attacker's concept interactions",
    Attack.FORGET_10: "fine-tuning on 10 % of the attacker's concept interactions",
    Attack.FORGET_100: "fine-tuning on all of the attacker's concept interactions",
    Attack.BENIGN: "fine-tuning on retain interactions alone",
}
_SHARE, _RATIO = ((0.0, 1.0), "fraction"), ((float("-inf"), float("inf")), "ratio")
QUANTITIES = MappingProxyType(
    {
        "hr@10": (
            "HR@10",
            _SHARE,
            "HR@10 (beam 50) on held-out forgotten interactions, of users and items that the attack never saw, at the "
            "end of {attack}; Clopper-Pearson interval.",
        ),
        "area": (
            "area",
            _SHARE,
            "Mean of that HR@10 over {attack}: area under the recovery curve by its length; bootstrap interval.",
        ),
        "recovery": (
            "R",
            _RATIO,
            "R at the end of {attack}: HR@10 on held-out forgotten interactions beyond that of retrain under the same "
            "attack, as a share of what original had beyond retrain before it; robust is at most 0 within the paired "
            "bootstrap interval.",
        ),
        "peak": (
            "max R",
            _RATIO,
            "Largest R at any scored step of {attack}, step 0 included; noise lifts a maximum.",
        ),
    }
)
"""By name: title, range and unit, description."""
_ORIGINAL = " The attacker writes and reads items with the original SIDs and is bound by no serving rule."
_SOURCE = "Deeb & Roger, arXiv 2410.08827 (held-out scoring); protocol sec. 4"
_MIXED_SOURCE = "TRACER, relearning experiment (held-out scoring after Deeb & Roger, arXiv 2410.08827); protocol sec. 4"


def metric_name(quantity: str, attack: Attack, space: Space) -> str:
    """``relearning.recovery.mixed``, ``relearning.original-sids.hr@10.forget-1`` …"""
    middle = "original-sids." if space is Space.ORIGINAL else ""
    return f"relearning.{middle}{quantity}.{attack}"


SPECS = tuple(
    MetricSpec(
        name=metric_name(quantity, attack, space),
        title=f"{title} {attack}{' (original SIDs)' if space is Space.ORIGINAL else ''}",
        better={Group.FORGET: Better.LOWER},
        range=bounds,
        unit=unit,
        description=description.format(attack=what) + (_ORIGINAL if space is Space.ORIGINAL else ""),
        source=_MIXED_SOURCE if attack is Attack.MIXED else _SOURCE,
    )
    for space in Space
    for attack, what in _ATTACKS.items()
    for quantity, (title, (bounds, unit), description) in QUANTITIES.items()
)
