"""The kinds of figures, declared in ``leaderboard/figures.yaml``, and drawing those that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from genrec_unlearn_bench.config import StrictModel, one_of, parse_yaml
from genrec_unlearn_bench.reporting.board import Block, Board
from genrec_unlearn_bench.reporting.figures.catalogue import SPACES, Panels, measured_panels, read_tables
from genrec_unlearn_bench.reporting.figures.model import (
    FLOOR_LABEL,
    Cast,
    Figure,
    FigureRequest,
    NotDrawn,
    panel_figure,
    unmeasured,
)
from genrec_unlearn_bench.reporting.figures.records import draw_ablation, draw_overlap, draw_pareto


class Kind(StrictModel):
    """One kind of figure."""

    panels: tuple[Panels, ...] = ()
    """Of the measurement that the kind is named after; none for a kind that is drawn from records."""
    needs: str = ""
    """What no run of a block has where it cannot be drawn."""
    options: str = ""
    """Of ``bench run``, for what it needs."""
    caption: tuple[str, ...] = ()
    """Sentences, with ``{block}`` and ``{oracle}``."""


class _Kinds(StrictModel):
    kinds: dict[str, Kind]


_FROM_RECORDS: Mapping[str, Callable[[Block, FigureRequest], tuple[Figure, ...]]] = {
    "pareto": draw_pareto,
    "overlap": draw_overlap,
    "ablation": draw_ablation,
}


@cache
def kinds() -> Mapping[str, Kind]:
    """The kinds of ``leaderboard/figures.yaml``, in the order in which they are drawn."""
    file = resources.files("genrec_unlearn_bench.leaderboard") / "figures.yaml"
    return parse_yaml(_Kinds, file.read_text(encoding="utf-8"), where="leaderboard/figures.yaml").kinds


@dataclass(frozen=True)
class Skipped:
    """A kind that could not be drawn for a block, with the reason and the run that would give the data."""

    kind: str
    block: str
    reason: str
    hint: str


@dataclass(frozen=True)
class Drawn:
    figures: tuple[Figure, ...]
    skipped: tuple[Skipped, ...]


def find_kind(name: str) -> Kind:
    """The kind of that name. Raises UnknownName."""
    return kinds()[one_of("kind", name, kinds())]


def draw_kind(name: str, block: Block, request: FigureRequest) -> tuple[Figure, ...]:
    """The figures of a kind for a block, more than one where there are many rows.

    Raises NotDrawn, and UnknownName for a kind that is not there.
    """
    kind = find_kind(name)
    if name in _FROM_RECORDS:
        return _FROM_RECORDS[name](block, request)
    table = read_tables(block, name, request.protocol)
    if table is None:
        raise unmeasured(block, f"{kind.needs} (measurements/{name}.csv)", kind.options)
    cast = Cast.of(block, request)
    caption = tuple(sentence.format(block=block.key.title, oracle=cast.oracle) for sentence in kind.caption)
    out = []
    for ending, labels in cast.parts():
        shown = (*labels, FLOOR_LABEL) if FLOOR_LABEL in set(table["label"]) else labels
        found = [measured_panels(spec, table, shown, cast, request.protocol) for spec in kind.panels]
        panels = tuple(panel for each in found for panel in each)
        if panels:
            out.append(panel_figure(name, block, panels, caption, cast, ending=ending, variants=SPACES))
    return tuple(out)


def draw_all(board: Board, wanted: Sequence[str], request: FigureRequest) -> Drawn:
    """Every kind that was asked for, of every block.

    Args:
        wanted: Kinds; all where none are named. A kind that is named and cannot be drawn for any block is a fault.

    Raises:
        UnknownName: No such kind, or no such field for ablations.
        NotDrawn: A named kind has no data, or nothing could be drawn at all.
    """
    figures: list[Figure] = []
    skipped: list[Skipped] = []
    for name in [kind for kind in kinds() if not wanted or kind in wanted] + [n for n in wanted if n not in kinds()]:
        missing: list[NotDrawn] = []
        before = len(figures)
        for block in board.blocks:
            try:
                figures += draw_kind(name, block, request)
            except NotDrawn as fault:
                missing.append(fault)
                skipped.append(Skipped(name, block.key.title, fault.what, fault.hint or ""))
        if wanted and len(figures) == before:
            raise _nothing(name, missing)
    if not figures:
        raise NotDrawn(
            "none of these results can be drawn:" + "".join(f"\n  - {one.kind}: {one.reason}" for one in skipped),
            hint="name a kind (--kind) to see which run would give its data",
        )
    return Drawn(tuple(figures), tuple(skipped))


def _nothing(name: str, missing: Sequence[NotDrawn]) -> NotDrawn:
    if not missing:
        return NotDrawn(f"nothing of the kind {name!r} was measured on the rows that were asked for")
    reasons = [fault.what for fault in missing[:8]] + [f"… and {len(missing) - 8} more"] * (len(missing) > 8)
    return NotDrawn(f"the kind {name!r} cannot be drawn: " + "; ".join(reasons), hint=missing[0].hint)
