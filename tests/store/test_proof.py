"""What is entered in the ledger of equal code: what was compared and agreed, and nothing else."""

from __future__ import annotations

from genrec_unlearn_bench.store.equal_code import ledger_text, read_ledger
from genrec_unlearn_bench.store.proof import Compared, ledger_with, proven


def one(
    stage: str, now: str, same: bool | None, *, before: str = "old", cell: str = "demo/tiger/npo/smoke"
) -> Compared:
    return Compared(cell, stage, before, now, same)


def test_code_is_proven_where_every_comparable_stage_agrees() -> None:
    found = proven(
        [
            one("original", "new", True),
            one("retrain", "new", True, cell="demo/tiger/rmu/smoke"),
            one("evaluation", "other", True, before="old2"),
            one("evaluation", "other", None, before="old2"),
        ]
    )
    assert [(entry.code, entry.equals, entry.compared, entry.stages) for entry in found] == [
        ("new", "old", 2, ("original", "retrain")),
        ("other", "old2", 1, ("evaluation",)),
    ]
    assert found[0].on == ("demo/tiger/npo/smoke", "demo/tiger/rmu/smoke")


def test_one_stage_that_differs_is_enough_to_prove_nothing() -> None:
    assert proven([one("original", "new", True), one("retrain", "new", False)]) == ()


def test_nothing_is_proven_by_what_cannot_be_compared_or_has_not_changed() -> None:
    assert proven([one("original", "new", None), one("retrain", "old", True)]) == ()


def test_code_that_repeats_two_older_ones_is_entered_for_neither() -> None:
    assert proven([one("original", "new", True), one("retrain", "new", True, before="older")]) == ()


def test_the_ledger_keeps_what_it_says(tmp_path: object) -> None:
    found = proven([one("original", "new", True)])
    assert {entry.code for entry in ledger_with(found)} == {entry.code for entry in read_ledger()} | {"new"}
    assert '"compared": 1' in ledger_text(found)
