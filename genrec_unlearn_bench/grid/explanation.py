"""One cell of a grid in detail: every stage that it stands on, and what makes it differ from what is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.grid.explain import Difference, first_difference, nearest
from genrec_unlearn_bench.grid.standing import Judge, Standing

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.cell import GridCell
    from genrec_unlearn_bench.grid.probe import Walk
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["Explanation", "Step", "explain_cell", "find_cell"]

MOST = 8
"""Names that are listed where an abbreviation means several cells."""


@dataclass(frozen=True)
class Step:
    """A stage of the cell.

    Attributes:
        of: What it is the evaluation or measurement of.
        key: Empty where it cannot be known yet.
        there: Whether it is in the cache.
        then: The key that it has in the result that is there, where that is another.
    """

    name: str
    of: str
    key: str
    there: bool
    then: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why a cell stands as it does.

    Attributes:
        difference: The first stage that is not the one of the result that is there, or of the nearest stored one.
        compared: What with: a result's or a stage's folder.
    """

    name: str
    standing: Standing
    reason: str
    hint: str
    result: Path | None
    steps: tuple[Step, ...]
    difference: Difference | None
    compared: str


def find_cell(text: str, cells: Sequence[GridCell]) -> GridCell:
    """The cell of that name, or the one whose name alone has all parts of it: ``tiger tracer seed0``.

    Raises UsageError: none, or several.
    """
    exact = [cell for cell in cells if cell.name == text]
    if exact:
        return exact[0]
    parts = text.split()
    found = [cell for cell in cells if parts and all(part in cell.name for part in parts)]
    # `tracer` is a part of `tracer-fixed` and a name of its own.
    whole = [cell for cell in found if set(parts) <= {*cell.name.split("/"), *cell.name.rpartition("/")[2].split("-")}]
    found = whole if len(whole) == 1 else found
    if not found:
        raise UnknownName("cell", text, [cell.name for cell in cells])
    if len(found) > 1:
        listing = "".join(f"\n  - {cell.name}" for cell in found[:MOST])
        more = f"\n  … and {len(found) - MOST} more" if len(found) > MOST else ""
        raise UsageError(
            f"{text!r} means {len(found)} cells of this grid:{listing}{more}",
            hint="say more of the name; parts with blanks between them all have to be in it",
        )
    return found[0]


def explain_cell(cell: GridCell, store: StageStore) -> Explanation:
    """Walk one cell and say what makes it stand as it does. Writes nothing."""
    judged = Judge(store).judge(cell)
    walk = judged.walk
    difference, compared = None, ""
    if walk is not None and judged.standing != "done":
        if judged.others:
            difference, compared = first_difference(walk, judged.others[0], store), str(judged.others[0].folder)
        if difference is None and judged.standing == "missing":
            difference = nearest(walk, store)
            compared = difference.of if difference is not None else compared
    return Explanation(
        cell.name,
        judged.standing,
        judged.reason,
        judged.hint,
        judged.result,
        tuple(_steps(walk, difference)) if walk is not None else (),
        difference,
        compared if difference is not None else "",
    )


def _steps(walk: Walk, difference: Difference | None) -> list[Step]:
    found: dict[str, Step] = {}
    for visit in (*walk.shared.visits, *walk.visits):
        then = difference.then if difference is not None and difference.now == visit.key else ""
        there = visit.stage is not None and visit.stage.account.get("stored", True) is not False
        found.setdefault(visit.key, Step(visit.name, visit.of, visit.key, there, then))
    return list(found.values())
