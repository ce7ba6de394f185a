"""The planted recommender of the public testing kit; ``build`` trains it once per process."""

from __future__ import annotations

from functools import cache

from genrec_unlearn_bench import testing
from genrec_unlearn_bench.testing import (
    CODES,
    GROUPS,
    HISTORY,
    MEMBERS,
    Planted,
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

build = cache(testing.build)
