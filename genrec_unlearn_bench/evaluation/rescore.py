"""Every USER-level metric from a per-user table alone, without torch: a result is checked without its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genrec_unlearn_bench.evaluation.collateral import collateral_values
from genrec_unlearn_bench.evaluation.concept import concept_rate_values
from genrec_unlearn_bench.evaluation.history_influence import influence_values
from genrec_unlearn_bench.evaluation.per_user import blocks
from genrec_unlearn_bench.evaluation.ranking import ranking_values
from genrec_unlearn_bench.evaluation.similarity import similarity_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from genrec_unlearn_bench.evaluation.metric import MetricValue
    from genrec_unlearn_bench.evaluation.ranking import UserBlock

__all__ = ["recompute", "rescored"]


def recompute(per_user: pd.DataFrame) -> tuple[MetricValue, ...]:
    """Every USER-level metric from a per-user table (``per_user.COLUMNS``), to the bit as ``evaluate`` reported it."""
    return rescored(tuple(blocks(per_user)))


def rescored(parts: Sequence[UserBlock]) -> tuple[MetricValue, ...]:
    """The same from the blocks of a table, wherever their columns lie."""
    return (
        *ranking_values(parts),
        *similarity_values(parts),
        *concept_rate_values(parts),
        *influence_values(parts),
        *collateral_values(parts),
    )
