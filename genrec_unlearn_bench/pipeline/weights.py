"""Are a recommender's weights numbers? One that diverged, or was damaged, ranks nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genrec_unlearn_bench.backbones.recommender import Recommender

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.recommender import Ranker

__all__ = ["first_not_finite"]


def first_not_finite(ranker: Ranker) -> str:
    """Name of the first parameter that holds NaN or infinity; empty where there is none."""
    if not isinstance(ranker, Recommender):
        return ""
    for name, weight in ranker.module.named_parameters():
        if not bool(weight.isfinite().all()):
            return name
    return ""
