"""A trie over a million items: seconds and memory to build it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from genrec_unlearn_bench.decoding.trie import Trie
from tests.benchmarks.timing import timed

pytestmark = pytest.mark.speed


def test_a_million_items() -> None:
    levels = 4
    codes = np.random.default_rng(0).integers(256, size=(1_000_000, levels))
    took, _ = timed(lambda: Trie.build(codes, (256,) * levels))
    tracemalloc.start()
    try:
        trie = Trie.build(codes, (256,) * levels)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    print(f"\nbuild 1,000,000 items x {levels}: {took:.2f} s, {peak / 1e6:.0f} MB at the peak, {trie.leaves} leaves")
    assert took < 10.0
    assert peak < 300e6
