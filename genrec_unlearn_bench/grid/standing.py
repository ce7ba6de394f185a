"""How one cell stands: is the result that would come out now there, and if not, why not?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from genrec_unlearn_bench.errors import BenchError, StorageError
from genrec_unlearn_bench.grid.explain import first_difference
from genrec_unlearn_bench.grid.probe import Probe
from genrec_unlearn_bench.grid.results_at_hand import Results

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from genrec_unlearn_bench.grid.cell import GridCell
    from genrec_unlearn_bench.grid.probe import StageMissing, Walk
    from genrec_unlearn_bench.grid.results_at_hand import AtHand
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["Judge", "Judged", "Standing"]

Standing = Literal["done", "missing", "stale", "impossible"]
"""``done``: the result that would come out now is there. ``stale``: a result of the cell is there, made from something
else (other code, configuration or data). ``impossible``: the cell cannot be run as it is asked for."""

ONLY_THE_RESULT = "only the result is to be written"

_NOT_YET = {
    "download": "the dataset's files are to be downloaded",
    "dataset": "the dataset is not prepared yet",
    "task": "the task is not resolved yet",
    "features": "the items are not encoded yet",
    "sids": "the semantic IDs are not made yet",
    "sasrec": "SASRec is not trained yet",
    "original": "the original is not trained yet",
    "retrain": "an oracle is not retrained yet",
    "sids-full": "the semantic IDs without the concept are not made yet",
    "retrain-full": "it is not retrained yet",
    "popularity": "popularity is not counted yet",
    "unlearned": "it is not unlearned yet",
    "stream": "the stream is not put together yet",
    "evaluation": "it is not evaluated yet",
    "u-lira": "a shadow model is not looked at yet",
}


@dataclass(frozen=True, eq=False)
class Judged:
    """A cell's standing.

    Attributes:
        walk: What was found of its stages; None where it is impossible.
        others: Results of the cell under other keys, the newest first.
    """

    standing: Standing
    reason: str = ""
    hint: str = ""
    result: Path | None = None
    walk: Walk | None = None
    others: Sequence[AtHand] = ()


class Judge:
    """Judges many cells, what they share once."""

    def __init__(self, store: StageStore) -> None:
        self.probe = Probe(store)
        self.results = Results()
        self._recorded: dict[str, str] = {}

    def judge(self, cell: GridCell) -> Judged:
        """How a cell stands. Raises StorageError where the file system cannot be read."""
        try:
            walk = self.probe.walk(cell.request)
        except StorageError:
            raise
        except BenchError as fault:
            return Judged("impossible", _sentence(fault), fault.hint or "")
        root = cell.request.results_dir
        if walk.key is not None:
            there = self.results.there(root, walk.cell, walk.key)
            if there is not None:
                return Judged("done", result=there, walk=walk)
        if not self.results.any_like(root, walk.cell):
            return Judged("missing", _why_missing(walk), walk=walk)
        return self._with_results(cell, walk)

    def _with_results(self, cell: GridCell, walk: Walk) -> Judged:
        """A cell whose stages are not all there, or give another key, and which has results of some kind."""
        root = cell.request.results_dir
        others = self.results.of_cell(root, walk.cell, walk.setting.request.command())
        if not others:
            return Judged("missing", _why_missing(walk), walk=walk)
        if walk.key is None:
            there = self._by_records(cell, others)
            if there is not None:
                return there
        stored = self.probe.store
        told = first_difference(walk, others[0], stored)
        if told is None and walk.key is None:
            reason = f"{_why_missing(walk)}, so that nobody can say whether the result that is there still holds"
            return Judged("missing", reason, result=others[0].folder, walk=walk, others=others)
        reason = "its result was made from other stages" if told is None else told.sentence
        return Judged("stale", reason, result=others[0].folder, walk=walk, others=others)

    def _by_records(self, cell: GridCell, others: Sequence[AtHand]) -> Judged | None:
        """Done, where a result's own account of its stages says so: models may be removed from the cache."""
        if cell.request.suite != "core" or cell.request.requests > 1:
            # Which parts a measurement has is told by the models themselves.
            return None
        for other in others:
            self._recorded.update(other.stages.values())
        again = self.probe.walk(cell.request, self._recorded)
        if again.key is None:
            return None
        there = self.results.there(cell.request.results_dir, again.cell, again.key)
        return None if there is None else Judged("done", result=there, walk=again)


def _why_missing(walk: Walk) -> str:
    if not walk.missing:
        return ONLY_THE_RESULT
    return not_yet(walk.missing[0])


def not_yet(missing: StageMissing) -> str:
    """Why a cell has to wait, in words."""
    if missing.name == "evaluation" and missing.label in ("original", "retrain"):
        return f"the {'original' if missing.label == 'original' else 'oracle'} is not evaluated yet"
    return _NOT_YET.get(missing.name, f"{missing.name} is not measured yet")


def _sentence(fault: BenchError) -> str:
    """What is wrong, in one line."""
    lines = [line.strip(" -") for line in fault.what.splitlines()]
    return f"{lines[0]} {'; '.join(lines[1:])}".strip()
