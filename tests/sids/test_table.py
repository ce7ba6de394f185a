from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.tiger import Tiger, TigerConfig
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.health import health
from genrec_unlearn_bench.sids.kmeans import surrogate_codebooks
from genrec_unlearn_bench.sids.overlap import overlap, overlap_lift, prefix_sharing, token_coverage
from genrec_unlearn_bench.sids.table import (
    SidTable,
    TreeCodes,
    check_items,
    check_successor,
    colliding_groups,
    load_table,
    ordinals,
    prefix_ids,
    save_table,
)
from tests.planted import catalogue, examples, sequences, sids


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


SHAPE = T5Shape(d_model=16, d_kv=4, d_ff=24, layers=1, heads=2, history_limit=4)


def shorter() -> SidTable:
    table = sids()
    return replace(table, codes=table.codes[:-1], latents=None, codebooks=None)


def deeper() -> SidTable:
    table = sids()
    codes = np.concatenate([table.codes, table.codes[:, :1]], axis=1)
    return SidTable(codes, (*table.level_sizes, table.level_sizes[0]), 5)


def test_the_same_catalogue_passes() -> None:
    table = sids()
    check_items(table, 64)
    check_successor(table, table.reassigned(np.array([3]), table.codes[[4]]))


@pytest.mark.parametrize("other", [shorter(), deeper(), replace(sids(), level_sizes=(17, 16, 16, 4))])
def test_another_catalogue_is_refused_wherever_it_comes_in(other: SidTable) -> None:
    with pytest.raises(DataFault, match="another catalogue"):
        check_successor(sids(), other)
    with pytest.raises(DataFault, match="another catalogue"):
        T5Recommender.fresh(SHAPE, sids(), seed=0).with_sids(other)


@pytest.mark.parametrize("codes", [[0, 4, 0], [-1, -1, -1], [0, -1, 1], [0, -2, -1], [0, 1]])
def test_codes_lie_inside_their_levels_and_padding_behind_them(codes: list[int]) -> None:
    with pytest.raises(ValueError, match=r"outside its level|do not fit"):
        SidTable(np.array([codes]), (4, 4, 4), 3)


def test_fitting_on_the_ids_of_another_catalogue() -> None:
    data = TrainingData(
        train=examples(sequences(5, 5, 1)),
        valid=examples(sequences(5, 5, 2)),
        items=catalogue(),
        features=np.zeros((64, 2), dtype=np.float32),
        known=np.ones(64, dtype=np.bool_),
    )
    with pytest.raises(DataFault, match="63 of them for 64 items"):
        Tiger.fit(TigerConfig(shape=SHAPE), data=data, sids=shorter(), seed=0, device="cpu", progress=Progress())


codes_strategy = st.tuples(st.integers(1, 30), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-1, 3))
)


@given(codes_strategy)
def test_equal_numbers_exactly_for_equal_prefixes(codes: np.ndarray) -> None:
    ids = prefix_ids(codes)
    for level in range(codes.shape[1]):
        tuples = [tuple(row) for row in codes[:, : level + 1].tolist()]
        ranks = {prefix: rank for rank, prefix in enumerate(sorted(set(tuples)))}
        assert ids[:, level].tolist() == [ranks[prefix] for prefix in tuples]


@given(codes_strategy)
def test_groups_hold_every_duplicate_once(codes: np.ndarray) -> None:
    groups = colliding_groups(codes)
    rows = [tuple(row) for row in codes.tolist()]
    expected = {i for i, row in enumerate(rows) if rows.count(row) > 1}
    assert {int(i) for group in groups for i in group} == expected
    assert sum(map(len, groups)) == len(expected)
    assert all(len({rows[i] for i in group}) == 1 and list(group) == sorted(group) for group in groups)


def test_long_ids_do_not_overflow() -> None:
    codes = np.full((2, 8), 65_535, dtype=np.int64)
    codes[1, 7] = 65_534
    assert prefix_ids(codes)[:, -1].tolist() == [1, 0]


def test_no_items() -> None:
    assert colliding_groups(np.zeros((0, 3), np.int64)) == []


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), min_size=0, max_size=40))
def test_places_count_within_every_group(rows: list[tuple[int, int]]) -> None:
    codes = np.array(rows, dtype=np.int64).reshape(-1, 2)
    seen: dict[tuple[int, int], list[int]] = {}
    expected = []
    for item, row in enumerate(rows):
        expected.append(len(seen.setdefault(row, [])))
        seen[row].append(item)
    assert ordinals(codes).tolist() == expected
    groups = [group.tolist() for group in colliding_groups(codes)]
    assert groups == [seen[row] for row in sorted(seen) if len(seen[row]) > 1]


def leaves() -> SidTable:
    """Clusters 0 (split into 2 and 3) and 1 (not split); places 4 to 6, end 7."""
    codes = np.array([[0, 2, 4, 7], [0, 2, 5, 7], [0, 3, 4, 7], [1, 4, 7, -1], [1, 5, 7, -1]])
    return SidTable(codes, (8,) * 4, 2, tree=TreeCodes(content=4, ordinals=3))


def test_content_codes_are_told_from_places_and_ends() -> None:
    table = leaves()
    assert table.quantised_codes.tolist() == [[0, 2], [0, 2], [0, 3], [1, -1], [1, -1]]
    assert table.quantised_sizes == (4, 4)
    with pytest.raises(ValueError, match="do not fit a tree"):
        SidTable(table.codes, (9,) * 4, 2, tree=table.tree)


def test_a_tree_is_stored_and_known_by_its_layout(tmp_path: Path) -> None:
    table = leaves()
    save_table(table, tmp_path)
    again = load_table(tmp_path)
    assert again.tree == table.tree
    assert again.digest == table.digest
    other = SidTable(table.codes, table.level_sizes, 2, tree=TreeCodes(content=3, ordinals=4))
    assert other.digest != table.digest


def test_surrogate_centroids_belong_to_content_codes_alone() -> None:
    features = np.array([[1, 0], [3, 0], [5, 3], [0, 7], [0, 9]], np.float32)
    made = surrogate_codebooks(leaves(), features)
    assert made.codebooks is not None
    first, second = made.codebooks
    assert first.shape == second.shape == (4, 2)
    np.testing.assert_allclose(first[:2], [[3, 1], [0, 8]])
    # Residuals of cluster 0: (-2, -1), (0, -1), (2, 2).
    np.testing.assert_allclose(second[2:], [[-1, -1], [2, 2]])
    distances = made.distances(np.arange(5))
    assert [level.shape for level in distances] == [(5, 4), (5, 4)]
    assert distances[0][3].tolist() == pytest.approx([9 + 36, 1, *distances[0][3, 2:].tolist()])
    # Item 3 has ended after one cluster; unused codes are further than any used one.
    assert distances[1][:, :2].min() > distances[1][:3, 2:].max()


def test_overlap_counts_clusters_not_places_or_ends() -> None:
    marked = np.array([True, False, False, True, False])
    found = overlap(leaves(), marked)
    # Level 1: items 0 and 3 against 1, 2, 4: (2 + 1) of 6 pairs. Level 2: item 0 and item 1 alone.
    np.testing.assert_allclose(found.per_level[:2], [3 / 6, 1 / 6])
    assert found.quantised == pytest.approx((3 / 6 + 1 / 6) / 2)
    codes = leaves().quantised_codes
    assert prefix_sharing(codes, marked, 1) == 1.0
    assert token_coverage(codes, marked) == (1.0, 1.0)
    lift = overlap_lift(codes, marked, draws=50, seed=0)
    assert lift.null_low <= 1.0 <= lift.null_high


def test_the_health_report_reads_a_ragged_tree() -> None:
    report = health(leaves(), items_by_concept=np.array([True, False, False, False, False]), brands=list("aabbb"))
    assert report.tree
    assert [level.used for level in report.levels] == [2, 2, 3, 1]
    assert [level.size for level in report.levels] == [4, 4, 8, 8]
    assert report.collisions.excess == 0
    assert report.quantised_collisions.groups == 2
    assert report.prefixes[1].brand_pure == 1.0
    assert report.prefixes[0].concept_shared == 1.0
    assert [row[0] for row in report.rows()] == ["1", "2", "3 (ends)", "4 (ends)"]


def test_neighbours_of_the_concept_share_its_leading_clusters() -> None:
    from genrec_unlearn_bench.evaluation.collateral import prefix_neighbours

    found = prefix_neighbours(leaves(), np.array([False, False, False, True, False]))
    assert found.tolist() == [False, False, False, True, True]
