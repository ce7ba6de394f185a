"""The planted recommender of the public testing kit, under the name that tests know it by."""

from __future__ import annotations

from genrec_unlearn_bench.testing import (
    CODES,
    GROUPS,
    HISTORY,
    MEMBERS,
    Planted,
    build,
    catalogue,
    concept,
    examples,
    features,
    groups,
    sequences,
    sids,
)

__all__ = [
    "CODES",
    "GROUPS",
    "HISTORY",
    "MEMBERS",
    "Planted",
    "build",
    "catalogue",
    "concept",
    "examples",
    "features",
    "groups",
    "sequences",
    "sids",
]
