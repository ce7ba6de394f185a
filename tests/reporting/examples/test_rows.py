"""Which runs are compared, and what is said where they cannot be."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.errors import DataMissing, UnknownName, UsageError
from genrec_unlearn_bench.reporting.board import Board
from genrec_unlearn_bench.reporting.examples.runs import choose_runs
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.results import Result
from tests.reporting.planting import board_of, plant, rows

PROTOCOL = statistics_protocol(1)
PAIR = {"original": [0.5, 0.5], "retrain": [0.1, 0.1]}


def chosen(board: Board, *methods: str, seed: int | None = None) -> dict[str, Result]:
    return choose_runs(board, PROTOCOL, methods=methods, seed=seed)[1]


def labels(found: dict[str, Result]) -> list[str]:
    return list(found)


def test_references_first_and_methods_as_asked() -> None:
    board = board_of(rows(**PAIR, filter=[0, 0], tracer=[0.1, 0.1], npo=[0.3, 0.3], rmu=[0.3, 0.3]))
    assert labels(chosen(board, "tracer", "filter")) == ["original", "retrain", "tracer", "filter"]
    assert labels(chosen(board, "retrain")) == ["original", "retrain"]
    assert labels(chosen(board, "n*", "tracer", "npo")) == ["original", "retrain", "npo", "tracer"]
    assert labels(chosen(board_of(rows(**PAIR)))) == ["original", "retrain"]
    assert labels(chosen(board)) == ["original", "retrain", "npo", "rmu", "tracer"]
    assert {result.seed for result in chosen(board, "npo").values()} == {0}
    assert {result.seed for result in chosen(board, "npo", seed=1).values()} == {1}


def test_the_lowest_shared_seed_is_taken() -> None:
    board = board_of(rows(**PAIR), plant("npo", {"forget:hr@10": [0.1, 0.1]}, first_seed=1))
    found = chosen(board, "npo")
    assert {result.seed for result in found.values()} == {1}


def test_of_two_setups_the_one_that_has_the_methods_is_taken() -> None:
    other = {"backbone_config": {"training": {"epochs": 1}}}
    theirs = [*plant("original", {"forget:hr@10": [0.4]}, **other), *plant("retrain", {"forget:hr@10": [0.1]}, **other)]
    board = board_of(rows(**PAIR, npo=[0.2, 0.2]), theirs)
    assert len(board.blocks) == 2
    assert labels(chosen(board, "npo")) == ["original", "retrain", "npo"]
    with pytest.raises(UsageError, match="2 blocks of results"):
        chosen(board, "retrain")


def many() -> list[Result]:
    return rows(**PAIR, **{f"m{i}": [0.1, 0.2] for i in range(4)})


@pytest.mark.parametrize(
    ("results", "methods", "seed", "said"),
    [
        (many(), ("m9",), None, "unknown method 'm9'"),
        (many(), ("m1",), 7, "not all rows have a run at seed 7 that did not diverge: original has 0, 1"),
        (rows(npo=[0.5], retrain=[0.1]), ("npo",), None, "no run of 'original' to compare with"),
        (rows(npo=[0.5], original=[0.1]), ("npo",), None, "no run of 'retrain' to compare with"),
        (
            [*rows(**PAIR), *plant("npo", {"forget:hr@10": [0.1]}, first_seed=5)],
            ("npo",),
            None,
            "at no seed all rows have a run",
        ),
        ([*rows(**PAIR), *plant("npo", {"forget:hr@10": [0.1]}, diverged=True)], ("npo",), None, "npo has none"),
        ([*many(), *plant("m1", {"forget:hr@10": [0.1]}, task="sports-brand")], ("m1",), None, "2 blocks of results"),
    ],
)
def test_what_cannot_be_is_said(results: list[Result], methods: tuple[str, ...], seed: int | None, said: str) -> None:
    with pytest.raises((UsageError, UnknownName, DataMissing), match=said):
        chosen(board_of(results), *methods, seed=seed)


def test_a_missing_row_comes_with_the_command_that_runs_it() -> None:
    with pytest.raises(DataMissing) as fault:
        chosen(board_of(plant("npo", {"forget:hr@10": [0.5]}), rows(original=[0.1])), "npo")
    assert str(fault.value.hint) == "run it: bench run --task industrial-brand --backbone tiger --method retrain"
