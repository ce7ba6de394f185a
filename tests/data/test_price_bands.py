from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.data.concepts import NO_BAND, price_bands, valid_prices

PRICES = st.lists(
    st.one_of(
        st.integers(0, 12).map(float),
        st.floats(0, 1e6),
        st.sampled_from([float("nan"), -1.0, -0.01, float("inf")]),
    ),
    min_size=1,
    max_size=80,
)


@given(PRICES, st.integers(2, 7))
def test_bands_partition_the_valid_prices_in_order(values: list[float], bands: int) -> None:
    prices = np.asarray(values)
    valid = valid_prices(prices)
    if len(np.unique(prices[valid])) < bands:
        with pytest.raises(ValueError, match="different prices"):
            price_bands(prices, bands)
        return
    found = price_bands(prices, bands)
    assert set(found[valid]) == set(range(1, bands + 1)), "no band is empty"
    assert (found[~valid] == NO_BAND).all()
    for low, high in zip(range(1, bands), range(2, bands + 1), strict=True):
        assert prices[found == low].max() < prices[found == high].min(), "equal prices share a band, bands are in order"


@given(st.sets(st.integers(0, 10_000), min_size=7, max_size=60), st.integers(2, 7), st.randoms())
def test_without_ties_bands_differ_by_one_item_at_most(values: set[int], bands: int, random: object) -> None:
    prices = np.asarray(sorted(values), dtype=np.float64)
    sizes = np.bincount(price_bands(prices, bands))[1:]
    assert sizes.max() - sizes.min() <= 1


@given(PRICES, st.integers(2, 5), st.randoms(use_true_random=False))
def test_a_band_depends_on_the_price_alone(values: list[float], bands: int, random: object) -> None:
    prices = np.asarray(values)
    if len(np.unique(prices[valid_prices(prices)])) < bands:
        return
    order = np.random.default_rng(len(values)).permutation(len(values))
    assert np.array_equal(price_bands(prices, bands)[order], price_bands(prices[order], bands))


def test_boundaries_lie_at_the_nearest_place_between_different_prices() -> None:
    # Half of the items are free: band 1 holds them all, the other boundaries stay where the quantiles are.
    prices = np.asarray([0.0] * 10 + [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert np.bincount(price_bands(prices, 5)).tolist() == [0, 10, 1, 1, 4, 4]
    # 8 of 20 items at 10: the boundary of the top band (16 below) goes behind or before the tie, whichever is nearer.
    tied = np.asarray(list(range(9)) + [9.5] * 8 + [20, 21, 22], dtype=np.float64)
    assert (price_bands(tied, 5) == 5).sum() == 3


def test_zero_is_a_price_and_negative_is_none() -> None:
    assert valid_prices(np.asarray([0.0, -0.0, -1.0, np.nan, np.inf, 3.5])).tolist() == [
        True, True, False, False, False, True,
    ]  # fmt: skip
