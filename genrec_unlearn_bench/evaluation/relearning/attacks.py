"""The attacks there are, and the SID spaces they are made in. Imports nothing heavy: the list of metrics reads it."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

__all__ = ["CONCEPT_SHARE", "SUBSETS", "Attack", "Space", "part_name", "part_of"]


class Attack(StrEnum):
    """What the attacker fine-tunes on."""

    MIXED = "mixed"
    """TRACER's attack: batches of which 20 % are concept targets."""
    FORGET_1 = "forget-1"
    FORGET_5 = "forget-5"
    FORGET_10 = "forget-10"
    FORGET_100 = "forget-100"
    """Concept targets alone: 1, 5, 10 or 100 percent of the concept interactions that the attacker has."""
    BENIGN = "benign"
    """Retain targets alone: fine-tuning by somebody who wants nothing back."""


SUBSETS = MappingProxyType(
    {Attack.FORGET_1: 0.01, Attack.FORGET_5: 0.05, Attack.FORGET_10: 0.1, Attack.FORGET_100: 1.0}
)
"""Share of the attacker's concept interactions that a forget-only attack uses."""

CONCEPT_SHARE = 0.2
"""Share of concept targets in a batch of ``mixed`` (TRACER, relearning experiment)."""


class Space(StrEnum):
    """What the attacker writes and reads items with."""

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
