"""What docs/statistics/sensitivity.csv says: its measures on a planted table, its means and families in the file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from docs.statistics.sensitivity import RETAIN, measures
from genrec_unlearn_bench.api import load_results

ROOT = Path(__file__).parents[3]
PUBLISHED = pd.read_csv(ROOT / "docs/statistics/sensitivity.csv")


def test_measures_of_a_planted_table() -> None:
    ranks = {("retain", 10): [1, 1, 0, 3], ("retain", 50): [2, 2, 2, 2], ("forget", 10): [1]}
    rows = [
        {"group": group, "beam": beam, "example": place, "rank": rank}
        for (group, beam), found in ranks.items()
        for place, rank in enumerate(found)
    ]
    # Item 7 is the target of two rows and the most frequent; items 5 and 9 of one each.
    found = measures(pd.DataFrame(rows), np.array([7, 5, 7, 9]))
    assert found[RETAIN[0]] == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert found[RETAIN[1]] == pytest.approx((1 + 0.5) / 2)
    assert found[RETAIN[2]] == pytest.approx((0.5 + 1 + 0.5) / 3)


def test_its_means_are_those_of_the_published_records() -> None:
    wide = load_results(
        ROOT / "leaderboard/results", task=["industrial-*", "steam-*", "toys-*"], suite="core", wide=True
    )
    blocks = wide["task"] + " " + wide["backbone"].str.split(" ").str[0]
    known = wide["retain:ndcg@10/10"].groupby([blocks, wide["method"]]).mean()
    shown = PUBLISHED[PUBLISHED["measure"] == RETAIN[0]]
    assert set(PUBLISHED["block"]) == set(blocks)
    for line in shown.itertuples(index=False):
        assert line.mean == pytest.approx(known[line.block, line.row], abs=5.1e-5)


def test_references_are_in_no_family_of_tests() -> None:
    """Holm's first step multiplies the least p by the number of tests: methods alone, without ``random-reassign``."""
    tested = PUBLISHED[PUBLISHED["p"].notna()]
    assert tested.loc[tested["row"] == "random-reassign", "p holm"].isna().all()
    methods = tested[tested["row"] != "random-reassign"]
    assert methods["p holm"].notna().all()
    for _, family in methods.groupby(["block", "measure", "against"]):
        least = family["p"].min()
        expected = min(1.0, least * len(family))
        assert math.isclose(family["p holm"].min(), expected, abs_tol=5.1e-5 * (len(family) + 1))
