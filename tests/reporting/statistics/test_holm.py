"""Holm's correction equals statsmodels', and leaves out what was never tested."""

from __future__ import annotations

import random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from genrec_unlearn_bench.reporting.statistics.paired import holm

P_VALUES = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.01, 0.05, 1.0])), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(P_VALUES)
def test_equals_statsmodels(p: list[float]) -> None:
    # statsmodels collects garbage on every call, which takes a tenth of a second each.
    with patch("gc.collect"):
        peer = multipletests(p, method="holm")[1]
    assert holm(p) == pytest.approx(peer, rel=1e-12, abs=0)


@settings(deadline=None)
@given(P_VALUES, st.integers(0, 1000))
def test_order_does_not_matter_and_tests_that_were_not_made_do_not_count(p: list[float], seed: int) -> None:
    alone = holm(p)
    mixed = [*p, *[float("nan")] * 5]
    order = list(range(len(mixed)))
    random.Random(seed).shuffle(order)
    found = holm([mixed[place] for place in order])
    for place, value in zip(order, found, strict=True):
        if place < len(p):
            assert value == alone[place]
        else:
            assert np.isnan(value)


@settings(deadline=None)
@given(P_VALUES)
def test_never_below_the_single_test_never_above_one_and_in_the_same_order(p: list[float]) -> None:
    found = holm(p)
    assert np.all(found >= np.array(p))
    assert np.all(found <= 1.0)
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(found[order]) >= 0)


def test_by_hand() -> None:
    # Holm 1979: .01 × 3, .02 × 2, then .03 × 1, which may not fall below .04.
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([]).shape == (0,)
    assert np.isnan(holm([np.nan, np.nan])).all()
