"""One group at one beam of the per-user table: what every USER-level metric is computed from, now and later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.metric import Group

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BEAMS", "LIST_LENGTH", "WIDE_BEAM", "Columns", "UserBlock"]

BEAMS = (10, 50)
"""Beam widths of the protocol: the paper's, and one whose HR@10 is less limited by pruning."""
WIDE_BEAM = max(BEAMS)
LIST_LENGTH = 10
"""How many places of a list are measured."""


class Columns(Protocol):
    """Columns by name: a frame, or what reads them from a file."""

    def __getitem__(self, name: str, /) -> pd.Series[Any]: ...


@dataclass(frozen=True, eq=False)
class UserBlock:
    """The rows of the per-user table that belong to one group and one beam (M of them, maybe none)."""

    group: Group
    beam: int
    frame: Columns

    def numbers(self, column: str) -> NDArray[np.float64]:
        """[M] the column as float64, NaN where nothing was measured."""
        return np.asarray(self.frame[column].to_numpy(dtype=np.float64))

    def integers(self, column: str) -> NDArray[np.int64]:
        """[M] the column as int64."""
        values: Any = self.frame[column].to_numpy(dtype=np.int64)
        return np.asarray(values)
