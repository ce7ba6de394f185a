from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.sids.table import SidTable


def test_distances_follow_the_residuals_along_the_tables_codes() -> None:
    books = (np.array([[0.0], [10.0]], np.float32), np.array([[-1.0], [2.0]], np.float32))
    table = SidTable(np.array([[1, 0, 0]]), (2, 2, 3), 2, books, np.array([[9.0]], np.float32))
    first, second = table.distances(np.array([0]))
    assert first.tolist() == [[81.0, 1.0]]
    assert second.tolist() == [[0.0, 9.0]]
    # A new code on level 1 leaves another residual to level 2.
    moved = table.reassigned(np.array([0]), np.array([[0, 0, 0]]))
    assert moved.distances(np.array([0]))[1].tolist() == [[100.0, 49.0]]
    assert table.quantised_codes.tolist() == [[1, 0]]
