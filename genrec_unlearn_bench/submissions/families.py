"""Columns of the per-user table that a submitter may withhold, by family, and what cannot be re-scored then.

Ranks, counts and neighbours are never withheld: without them nothing of a result could be checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from genrec_unlearn_bench.errors import UnknownName

__all__ = ["FAMILIES", "known_families", "rests_on"]

FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "similarity": (
            "first_similarity",
            "mean_similarity",
            "first_similarity_scrubbed",
            "mean_similarity_scrubbed",
        ),
        "influence": ("js_forget", "js_random", "change_forget", "change_random"),
        "log-prob": ("log_prob",),
    }
)
"""Family -> columns. No metric rests on ``log-prob`` so far."""


def known_families(names: Iterable[str]) -> tuple[str, ...]:
    """The named families in the order of ``FAMILIES``. Raises UnknownName."""
    wanted = {name.strip() for name in names if name.strip()}
    for name in sorted(wanted):
        if name not in FAMILIES:
            raise UnknownName("column family", name, FAMILIES)
    return tuple(name for name in FAMILIES if name in wanted)


def rests_on(metric: str) -> str | None:
    """The family whose columns a USER-level metric is computed from; None where it needs none of them."""
    head = metric.partition(".")[0]
    return head if head in ("similarity", "influence") else None
