"""The per-user table: one row a test example and beam, and every USER-level metric recomputed from it (no torch)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.collateral import collateral_values, retain_near_values
from genrec_unlearn_bench.evaluation.exposure import concept_rate_values, exposure_values
from genrec_unlearn_bench.evaluation.history_influence import influence_values
from genrec_unlearn_bench.evaluation.lists import similarity_values
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import BEAMS, TEST_GROUPS, UserBlock, blocks, ranking_values

if TYPE_CHECKING:
    import pandas as pd
    from pyarrow import parquet as pq

ROW_GROUP = 1 << 20
"""Rows of a row group of the file: pyarrow's own limit, so that a table is the same file however it is written."""

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

PRESENT_NAMES: Mapping[str, str] = {"js_random": "js_matched", "change_random": "change_matched"}
"""Columns of protocol 1 that now hold something else under another name."""
_FORMER_NAMES = {new: old for old, new in PRESENT_NAMES.items()}
_LATER = tuple(name for name in COLUMNS if name.startswith("exposed_") or name == "near_concept")
_FORMER = {_FORMER_NAMES.get(name, name): kind for name, kind in COLUMNS.items() if name not in _LATER}
"""Columns of protocol 1: nothing was decoded without serving rules, random drops did not match positions, and no
neighbours of the concept by text or co-purchase were marked."""


def columns_of(names: Iterable[str]) -> Mapping[str, str]:
    """The protocol's columns and types that these are; those of the present one where they are nobody's."""
    return _FORMER if set(names) == set(_FORMER) else COLUMNS


def block_frame(group: Group, beam: int, columns: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
    """The rows of one group at one beam; ``columns`` are all but ``group`` and ``beam``, each [M]."""
    import pandas as pd

    rows = len(columns["example"])
    return _typed(pd.DataFrame({**columns, "group": [group.value] * rows, "beam": np.full(rows, beam)}))


def join(frames: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return _typed(pd.concat(frames, ignore_index=True))


class PerUserWriter:
    """Writes the table as parquet (zstd), frame by frame: the file that pandas makes of all frames joined, with never
    more than a row group and a frame in memory. Floats keep all their bits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pd.DataFrame] = []
        self._rows = 0

    def write(self, frame: pd.DataFrame) -> None:
        self._pending.append(frame)
        self._rows += len(frame)
        while self._rows >= ROW_GROUP:
            whole = join(self._pending)
            self._flush(whole.iloc[:ROW_GROUP].reset_index(drop=True))
            rest = whole.iloc[ROW_GROUP:].reset_index(drop=True)
            self._pending, self._rows = [rest], len(rest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *fault: object) -> None:
        if kind is None and (self._rows or self._writer is None):
            self._flush(join(self._pending))
        if self._writer is not None:
            self._writer.close()

    def _flush(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.Table.from_pandas(frame, preserve_index=False)
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._path, table.schema, compression="zstd")
        self._writer.write_table(table, row_group_size=ROW_GROUP)


def stored_blocks(path: Path) -> tuple[UserBlock, ...]:
    """``blocks`` of a stored table. A column is read when it is used, so that no more than two are in memory."""
    from pyarrow import parquet

    @lru_cache(maxsize=2)
    def column(name: str) -> pd.Series[Any]:
        found: pd.Series[Any] = parquet.read_table(path, columns=[name]).column(0).to_pandas()
        return found

    keys = parquet.read_table(path, columns=["group", "beam"], read_dictionary=["group"])
    names = keys.column("group").to_numpy()
    columns = frozenset(parquet.read_schema(path).names)
    beams = keys.column("beam").to_numpy()
    return tuple(
        UserBlock(group, beam, _StoredRows(column, columns, np.flatnonzero((names == group.value) & (beams == beam))))
        for group in TEST_GROUPS
        for beam in BEAMS
    )


@dataclass(frozen=True, eq=False)
class _StoredRows:
    """Some rows of a stored table, by column."""

    column: Callable[[str], pd.Series[Any]]
    there: frozenset[str]
    rows: NDArray[np.int64]

    def __contains__(self, name: object) -> bool:
        return name in self.there

    def __getitem__(self, name: str) -> pd.Series[Any]:
        return self.column(name).take(self.rows)


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
    return rescored(tuple(blocks(per_user)))


def rescored(parts: Sequence[UserBlock]) -> tuple[MetricValue, ...]:
    """The same from the blocks of a table, wherever their columns lie."""
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
    columns = columns_of(frame.columns)
    return frame[list(columns)].astype(dict(columns))
