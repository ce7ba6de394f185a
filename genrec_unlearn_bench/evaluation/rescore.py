"""Every USER-level metric from a per-user table alone: how a result is checked without its model.

Apart from the suite, so that whoever reads records can re-score them without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genrec_unlearn_bench.evaluation.collateral import collateral_values
from genrec_unlearn_bench.evaluation.concept_rate import concept_rate_values
from genrec_unlearn_bench.evaluation.history_influence import influence_values
from genrec_unlearn_bench.evaluation.per_user import blocks
from genrec_unlearn_bench.evaluation.ranking import ranking_values
from genrec_unlearn_bench.evaluation.similarity import similarity_values

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.evaluation.metric import MetricValue

__all__ = ["recompute"]


def recompute(per_user: pd.DataFrame) -> tuple[MetricValue, ...]:
    """Every USER-level metric from a per-user table (``per_user.COLUMNS``), to the bit as ``evaluate`` reported it."""
    parts = tuple(blocks(per_user))
    return (
        *ranking_values(parts),
        *similarity_values(parts),
        *concept_rate_values(parts),
        *influence_values(parts),
        *collateral_values(parts),
    )
