"""The exported lines themselves."""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.evaluation.trec import trec_qrels, trec_run

from .planted import lists


def test_lines() -> None:
    ranking = lists([[2, 0], [], [1, 2, 0]], 3)
    assert list(trec_run(ranking, tag="t", first=5)) == [
        "5 Q0 2 1 3 t",
        "5 Q0 0 2 2 t",
        "7 Q0 1 1 3 t",
        "7 Q0 2 2 2 t",
        "7 Q0 0 3 1 t",
    ]
    assert list(trec_qrels(np.array([2, 1]), ids=["a", "b c", "d"])) == ["0 0 d 1", "1 0 b_c 1"]
