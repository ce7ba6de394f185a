"""What may stand in one table: the same setup, one version of a method, no tuning seeds, one protocol."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genrec_unlearn_bench.errors import ProtocolMismatch
from genrec_unlearn_bench.reporting.results import Source
from tests.reporting.boards import make_synthetic_board
from tests.reporting.planting import FORGET, board_of, measure, plant, rows

NUMBERS = {"forget:hr@10": [0.1, 0.2, 0.3]}


def labels(board: object, block: int = 0) -> list[str]:
    return [row.label for row in board.blocks[block].rows]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset_digest": "other"},
        {"task_digest": "other"},
        {"encoder": "other#1"},
        {"backbone_config": {"d_model": 64}},
        {"sid_config": {"levels": 4}},
        {"task": "sports-brand"},
        {"backbone": "letter"},
        {"scale": "paper"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_different_ground_is_never_one_block(changes: dict[str, object]) -> None:
    board = board_of(plant("tracer", NUMBERS), plant("tracer", NUMBERS, **changes))
    assert len(board.blocks) == 2
    assert len({block.key for block in board.blocks}) == 2
    assert all(len(row.results) == 3 for block in board.blocks for row in block.rows)


def test_several_setups_are_named_by_their_encoders() -> None:
    board = board_of(plant("tracer", NUMBERS, encoder="a#1"), plant("tracer", NUMBERS, encoder="b#1"))
    assert [block.key.variant for block in board.blocks] == ["a", "b"]
    assert board_of(plant("tracer", NUMBERS)).blocks[0].key.variant == ""


def test_an_older_version_of_a_method_is_left_out_and_said() -> None:
    old = plant("tracer", NUMBERS, method_digest="old", created="2026-01-01T00:00:00+00:00")
    new = plant("tracer", {"forget:hr@10": [0.5]}, method_digest="new", created="2026-02-01T00:00:00+00:00")
    board = board_of(old, new)
    (row,) = board.blocks[0].rows
    assert list(row.results) == [0]
    assert board.blocks[0].values(FORGET).tolist() == [[0.5]]
    assert board.left_out == ("3 older runs of tracer in industrial-brand · tiger · small · tuned",)


def test_of_a_repeated_seed_the_fuller_then_the_newer_counts() -> None:
    thin = plant("tracer", {"forget:hr@10": [0.1]}, key="thin", created="2026-03-01T00:00:00+00:00")
    full = plant(
        "tracer", {"forget:hr@10": [0.2], "retain:ndcg@10": [0.3]}, key="full", created="2026-01-01T00:00:00+00:00"
    )
    newer = plant(
        "tracer", {"forget:hr@10": [0.4], "retain:ndcg@10": [0.3]}, key="newer", created="2026-02-01T00:00:00+00:00"
    )
    assert board_of(thin, full).blocks[0].values(FORGET).tolist() == [[0.2]]
    assert board_of(thin, full, newer).blocks[0].values(FORGET).tolist() == [[0.4]]


def test_tuning_seeds_are_left_out_and_said() -> None:
    board = board_of(plant("tracer", NUMBERS), plant("tracer", NUMBERS, first_seed=9000))
    assert board.blocks[0].seeds == (0, 1, 2)
    assert board.left_out == ("3 runs with tuning seeds (9000 and above)",)


def test_another_protocol_is_refused_with_its_own_exit_code() -> None:
    with pytest.raises(ProtocolMismatch) as fault:
        board_of(plant("tracer", NUMBERS), plant("npo", NUMBERS, protocol_version=2))
    assert fault.value.exit_code == 3
    assert fault.value.where == "npo/0"


def test_rows_of_two_configurations_are_told_apart_by_what_differs() -> None:
    board = board_of(
        plant("tracer", NUMBERS, method_config={"lr": 0.1, "steps": 5}),
        plant("tracer", NUMBERS, method_config={"lr": 0.2, "steps": 5}),
    )
    assert labels(board) == ["tracer (lr=0.1)", "tracer (lr=0.2)"]


def test_two_sources_of_a_method_are_two_rows() -> None:
    board = board_of(plant("tracer", NUMBERS), plant("tracer", NUMBERS, source=Source(name="them"), key="theirs"))
    assert labels(board) == ["tracer (ours)", "tracer (them)"]


def test_a_run_and_its_published_copy_are_one_row() -> None:
    mine = plant("tracer", NUMBERS)
    copy = [replace(result, source=Source(name="them")) for result in mine]
    assert labels(board_of(mine, copy)) == ["tracer"]
    assert not board_of(mine, copy).left_out
    # The same key with other numbers is no copy, and both are shown.
    changed = [replace(result, values=dict.fromkeys(result.values, 0.0)) for result in copy]
    assert labels(board_of(mine, changed)) == ["tracer (ours)", "tracer (them)"]


def test_a_submission_never_provides_a_reference_row() -> None:
    forged = plant("retrain", {"forget:hr@10": [0.9]}, source=Source(name="aaa", badge_text="reproduced"))
    board = board_of(plant("retrain", {"forget:hr@10": [0.4]}), forged)
    assert labels(board) == ["retrain"]
    assert board.blocks[0].values(FORGET).tolist() == [[0.4]]
    assert board.left_out == ("1 runs of reference rows that belong to submissions",)
    # Nor where the suite has none.
    board = board_of(plant("tracer", NUMBERS), forged)
    assert labels(board) == ["tracer"]
    assert board.blocks[0].oracle is None


def test_rows_without_a_configuration_belong_to_every_ruleset() -> None:
    board = board_of(
        plant("original", NUMBERS, ruleset="default"),
        plant("tracer", NUMBERS, ruleset="tuned", method_config={"lr": 1}),
        plant("tracer", NUMBERS, ruleset="fixed", method_config={"lr": 2}),
    )
    assert [block.key.ruleset for block in board.blocks] == ["fixed", "tuned"]
    assert labels(board, 0) == labels(board, 1) == ["original", "tracer"]


def test_references_stand_first_in_the_protocols_order() -> None:
    board = board_of(*(plant(name, NUMBERS) for name in ("npo", "popularity", "retrain", "aaa", "original")))
    assert labels(board) == ["original", "retrain", "popularity", "aaa", "npo"]
    assert board.blocks[0].oracle is not None
    assert board.blocks[0].oracle.label == "retrain"


def test_diverged_missing_and_unmeasured_seeds_are_nan() -> None:
    diverged = plant("npo", {"forget:hr@10": [0.9]}, first_seed=1, diverged=True)
    board = board_of(
        plant("npo", {"forget:hr@10": [0.1]}), diverged, plant("tracer", {"forget:hr@10": [0.2, 0.3, None]})
    )
    block = board.blocks[0]
    np.testing.assert_array_equal(block.values(FORGET), [[0.1, np.nan, np.nan], [0.2, 0.3, np.nan]])
    assert [row.diverged for row in block.rows] == [(1,), ()]


def test_a_gap_is_taken_seed_by_seed() -> None:
    board = board_of(rows(retrain=[0.1, 0.2, 0.4], tracer=[0.15, 0.2], npo=[0.0, 0.0, 0.0]))
    block = board.blocks[0]
    gaps = block.values(measure("forget:gap.hr@10"))
    np.testing.assert_allclose(gaps, [[0, 0, 0], [0.0 - 0.1, -0.2, -0.4], [0.05, 0.0, np.nan]], atol=1e-15)


def test_without_an_oracle_there_are_no_gaps() -> None:
    assert np.isnan(board_of(rows(tracer=[0.1])).blocks[0].values(measure("forget:gap.hr@10"))).all()


def test_the_order_of_results_changes_nothing() -> None:
    from genrec_unlearn_bench.reporting.board import make_board
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol
    from tests.reporting.boards import make_records, make_results

    results = make_results(make_records())
    one, two = make_synthetic_board(), make_board(results[::-1], statistics_protocol(1))
    assert [block.key for block in one.blocks] == [block.key for block in two.blocks]
    for first, second in zip(one.blocks, two.blocks, strict=True):
        assert [row.label for row in first.rows] == [row.label for row in second.rows]
        np.testing.assert_array_equal(first.values(FORGET), second.values(FORGET))
