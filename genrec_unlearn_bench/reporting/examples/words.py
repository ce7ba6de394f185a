"""Sentences and cells that all renderers share."""

from __future__ import annotations

from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH
from genrec_unlearn_bench.reporting.examples.page import Example, Page, ShownList

__all__ = ["CONCEPT", "EMPTY_HISTORY", "TARGET", "change", "concept_items", "heading", "notes", "past", "target_place"]

CONCEPT, TARGET = "†", "*"
"""Signs before a concept item and before the item that was to be predicted, beside any colour or weight."""

EMPTY_HISTORY = "no history"


def heading(example: Example) -> str:
    """Example 2, forget side; with the ids where they are known."""
    known = "" if example.user is None else f", user {example.user} (row {example.row})"
    return f"Example {example.number}, {example.group.value} side{known}"


def past(example: Example) -> str:
    """What the list of a history is headed with."""
    shown, whole = len(example.history), example.history_length
    if shown == whole:
        return f"History, {whole} {'item' if whole == 1 else 'items'}, oldest first"
    return f"History, the last {shown} of {whole} items, oldest first"


def concept_items(shown: ShownList) -> str:
    """5/10."""
    return f"{shown.concept_items}/{len(shown.items)}"


def target_place(shown: ShownList, page: Page) -> str:
    """The target's place, also below the tenth."""
    return str(shown.target_rank) if shown.target_rank is not None else f"not in {page.depth}"


def change(shown: ShownList) -> str:
    """Share of the places that the original's list does not have."""
    return "–" if shown.change is None else f"{shown.change:.0%}"


def notes(page: Page) -> tuple[str, ...]:
    """What has to be said about the page, one sentence each."""
    return (
        f"To be forgotten: {page.concept}.",
        f"Top-{LIST_LENGTH} lists of seed {page.seed} at beam {page.beam} (suite {page.suite}); the target is looked "
        f"for in {page.depth} places.",
        page.rule,
        "Examples show what a change looks like; how often it happens is what the metrics are for.",
    )
