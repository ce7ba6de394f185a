from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.health import health
from genrec_unlearn_bench.sids.quantise import resolve_collisions, with_ordinals
from genrec_unlearn_bench.sids.table import SidTable, nearest_codes, ordinals

CONFIG = SidConfig(resolve_rounds=20)


def table(latents: np.ndarray, codes: int = 16, levels: int = 2, seed: int = 0) -> SidTable:
    rng = np.random.default_rng(seed)
    books = tuple(
        (rng.standard_normal((codes, latents.shape[1])) * 0.5**level).astype(np.float32) for level in range(levels)
    )
    latents = latents.astype(np.float32)
    return SidTable(nearest_codes(latents, books), (codes,) * levels, levels, books, latents)


def excess(one: SidTable) -> int:
    return health(one).collisions.excess


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 120))
def test_resolution_never_adds_collisions_and_moves_the_last_code_of_colliding_items_alone(seed: int, n: int) -> None:
    before = table(np.random.default_rng(seed).standard_normal((n, 3)), seed=seed)
    after = resolve_collisions(before, CONFIG, progress=Progress())
    assert excess(after) <= excess(before)
    np.testing.assert_array_equal(after.codes[:, 0], before.codes[:, 0])
    assert after.version == before.version
    if not excess(before):
        np.testing.assert_array_equal(after.codes, before.codes)


def test_resolution_lowers_collisions_by_far_where_there_is_room() -> None:
    before = table(np.random.default_rng(0).standard_normal((80, 3)))
    after = resolve_collisions(before, CONFIG, progress=Progress())
    assert excess(before) >= 20
    assert excess(after) <= excess(before) // 4


def test_equal_latents_cannot_be_parted() -> None:
    before = table(np.repeat(np.random.default_rng(0).standard_normal((1, 3)), 4, axis=0))
    assert excess(resolve_collisions(before, CONFIG, progress=Progress())) == 3


def test_moved_items_go_to_a_code_nearby() -> None:
    rng = np.random.default_rng(1)
    words = np.array([[0.0, 0.0], [0.3, 0.0], [9.0, 9.0], [-9.0, 9.0]], np.float32)
    latents = (rng.standard_normal((2, 2)) * 0.02 + [[0.05, 0.0], [-0.05, 0.0]]).astype(np.float32)
    before = SidTable(nearest_codes(latents, (words,)), (4,), 1, (words,), latents)
    assert before.codes[:, 0].tolist() == [0, 0]
    after = resolve_collisions(before, CONFIG, progress=Progress())
    assert sorted(after.codes[:, 0].tolist()) == [0, 1]
    assert after.codes[0, 0] == 1


def test_no_rounds_and_no_codebooks_change_nothing() -> None:
    before = table(np.random.default_rng(0).standard_normal((80, 3)))
    assert resolve_collisions(before, SidConfig(resolve_rounds=0), progress=Progress()) is before
    bare = SidTable(before.codes, before.level_sizes, 2)
    assert resolve_collisions(bare, CONFIG, progress=Progress()) is bare


def test_ordinals_count_within_a_group_in_order() -> None:
    codes = np.array([[1, 2], [0, 0], [1, 2], [1, 3], [1, 2], [0, 0]])
    assert ordinals(codes).tolist() == [0, 0, 1, 0, 2, 1]


def test_the_ordinal_level_is_as_large_as_the_largest_group_and_the_slack() -> None:
    made = with_ordinals(SidTable(np.array([[1], [1], [0], [1]]), (4,), 1), slack=4)
    assert made.level_sizes == (4, 7)
    assert made.quantised_levels == 1
    assert made.codes.tolist() == [[1, 0], [1, 1], [0, 0], [1, 2]]
    assert with_ordinals(SidTable(np.array([[1], [0]]), (4,), 1), slack=0).level_sizes == (4, 1)
