"""The meter: time and memory of the block alone."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from genrec_unlearn_bench.pipeline.meter import MIB, metered


def test_memory_that_is_gone_by_the_end_is_still_seen() -> None:
    with metered("cpu") as quiet:
        pass
    with metered("cpu") as loud:
        block = np.ones(int(256 * MIB // 8))
        for _ in range(20):
            block += 1.0
        del block
    assert loud.peak_memory_mib - quiet.peak_memory_mib > 200
    assert loud.seconds > quiet.seconds > 0


def test_a_failing_block_is_read_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="broken"), metered("cpu") as reading:
        raise ValueError("broken")
    assert reading.seconds > 0
    assert reading.peak_memory_mib > 1
    assert threading.active_count() == before
