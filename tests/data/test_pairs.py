from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.data.examples import among, distinct

codes = st.lists(st.integers(0, 30), max_size=60).map(lambda rows: np.array(rows, dtype=np.int64))


@given(codes, codes)
def test_among_is_isin(many: np.ndarray, few: np.ndarray) -> None:
    assert np.array_equal(among(many, np.sort(few)), np.isin(many, few))


@given(codes)
def test_distinct_is_unique(rows: np.ndarray) -> None:
    assert np.array_equal(distinct(rows), np.unique(rows))
