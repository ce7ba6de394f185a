"""What the cells of one session share in memory. Needs nothing heavy, so that whoever keeps one starts at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genrec_unlearn_bench.store.store import StoredStage

__all__ = ["Shelf"]


class Shelf:
    """Stages and loaded objects of one session, so that ten methods in one call read the dataset once.

    Only what nobody changes is kept: datasets, splits, features, tables. Recommenders are loaded anew each time, as a
    method that forgets to clone would otherwise spoil the next one's original.
    """

    def __init__(self) -> None:
        self.stages: dict[str, StoredStage] = {}
        self.objects: dict[str, Any] = {}
