"""The per-user table: one row a test example and beam, and every USER-level metric recomputed from it (no torch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.collateral import collateral_values, retain_near_values
from genrec_unlearn_bench.evaluation.exposure import concept_rate_values, exposure_values
from genrec_unlearn_bench.evaluation.history_influence import influence_values
from genrec_unlearn_bench.evaluation.lists import similarity_values
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import blocks, ranking_values

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Mapping[str, str] = {
    "example": "int64",
    "user": "int64",
    "group": "str",
    "target": "int64",
    "beam": "int64",
    "rank": "int64",
    "log_prob": "float64",
    "first_similarity": "float64",
    "mean_similarity": "float64",
    "first_similarity_scrubbed": "float64",
    "mean_similarity_scrubbed": "float64",
    "concept_in_list": "int64",
    "n_list": "int64",
    "original_rank": "int64",
    "original_concept_in_list": "int64",
    "original_n_list": "int64",
    "exposed_rank": "int64",
    "exposed_concept_in_list": "int64",
    "exposed_n_list": "int64",
    "concept_in_history": "int64",
    "js_forget": "float64",
    "js_matched": "float64",
    "change_forget": "float64",
    "change_matched": "float64",
    "near_prefix": "int8",
    "near_category": "int8",
    "near_concept": "int8",
}
"""Columns of this protocol's tables and their types.

example: row of the test group. user, target: row numbers of the dataset. rank: 1-based place of the target in the
decoded list (max(10, beam) places), 0 where it is not there. log_prob: of the target in that list, null where it is not
there. The similarities: cosines, null where there is nothing to compare. concept_in_list, n_list: concept items and
items in the first ten places. original_*: the same from decoding in the original SID space, -1 where that was not
done. exposed_*: the same from decoding without serving rules in the original SID space, histories written in it too,
-1 where that was not done. concept_in_history: concept items in the history as the model reads it. js_*, change_*:
history influence (forget: without the concept items; matched: without the retain items nearest to them), null
where it was not measured. near_*: 1 if the target is a neighbour of the concept, 0 if not, -1 if that is not known:
by the prefix of the original SIDs, by category, and (``near_concept``) by text or co-purchase, whatever the SIDs. A
null is NaN in memory."""


def block_frame(group: Group, beam: int, columns: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    """The rows of one group at one beam; ``columns`` are all but ``group`` and ``beam``, each [M]."""
    import pandas as pd

    rows = len(columns["example"])
    return _typed(pd.DataFrame({**columns, "group": [group.value] * rows, "beam": np.full(rows, beam)}))


def write_per_user(frames: Sequence[pd.DataFrame], path: Path) -> pd.DataFrame:
    """Join the frames to the table, write it as parquet (zstd; floats keep all their bits), and return it."""
    import pandas as pd

    table = _typed(pd.concat(frames, ignore_index=True))
    table.to_parquet(path, engine="pyarrow", compression="zstd", index=False)
    return table


def read_per_user(path: Path) -> pd.DataFrame:
    """Read a stored table. Raises CorruptArtefact for anything else than such a table."""
    import pandas as pd
    from pyarrow.lib import ArrowException

    fault_of = "not a readable parquet file"
    try:
        frame = pd.read_parquet(path, engine="pyarrow")
        fault_of = "a column is missing or has the wrong type"
        return _typed(frame)
    except (OSError, TypeError, ValueError, KeyError, ArrowException) as fault:
        hint = "remove the result and run it again"
        raise CorruptArtefact(f"{fault_of}: {fault}", where=str(path), hint=hint) from None


def recompute(per_user: pd.DataFrame) -> tuple[MetricValue, ...]:
    """Every USER-level metric from a per-user table, to the bit as ``evaluate`` reported it."""
    parts = tuple(blocks(per_user))
    return (
        *ranking_values(parts),
        *similarity_values(parts),
        *concept_rate_values(parts),
        *exposure_values(parts),
        *influence_values(parts),
        *collateral_values(parts),
        *retain_near_values(parts),
    )


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[list(COLUMNS)].astype(dict(COLUMNS))
