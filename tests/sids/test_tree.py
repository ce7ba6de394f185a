from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.sids.external import surrogate_codebooks
from genrec_unlearn_bench.sids.health import health
from genrec_unlearn_bench.sids.overlap import overlap, overlap_lift, prefix_sharing, token_coverage
from genrec_unlearn_bench.sids.storage import load_table, save_table
from genrec_unlearn_bench.sids.table import SidTable, TreeCodes


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
