"""The kinds of figures by name, and drawing those that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.reporting.board import Block, Board
from genrec_unlearn_bench.reporting.figures.ablation import draw_ablation
from genrec_unlearn_bench.reporting.figures.forget_quality import draw_forget_quality
from genrec_unlearn_bench.reporting.figures.measurements import draw_measured
from genrec_unlearn_bench.reporting.figures.model import Figure, NotDrawn
from genrec_unlearn_bench.reporting.figures.overlap import draw_overlap
from genrec_unlearn_bench.reporting.figures.pareto import draw_pareto
from genrec_unlearn_bench.reporting.figures.request import Asked

__all__ = ["Drawn", "Skipped", "draw_all", "find_kind", "kinds"]

Draw = Callable[[Block, Asked], tuple[Figure, ...]]

_KINDS: Mapping[str, Callable[[str, Block, Asked], tuple[Figure, ...]]] = {
    **dict.fromkeys(("probing", "relearning", "membership"), draw_measured),
    "forget-quality": draw_forget_quality,
    "quantisation": draw_measured,
    "pareto": draw_pareto,
    "overlap": draw_overlap,
    "ablation": draw_ablation,
    "stream": draw_measured,
}


@dataclass(frozen=True)
class Skipped:
    """A kind that could not be drawn for a block, with the reason and the run that would give the data."""

    kind: str
    block: str
    reason: str
    hint: str


@dataclass(frozen=True)
class Drawn:
    """The figures of a call."""

    figures: tuple[Figure, ...]
    skipped: tuple[Skipped, ...]


def kinds() -> tuple[str, ...]:
    """Names of all kinds, in the order in which they are drawn."""
    return tuple(_KINDS)


def find_kind(name: str) -> Draw:
    """The kind of that name. Raises UnknownName."""
    if name not in _KINDS:
        raise UnknownName("kind", name, _KINDS)
    return partial(_KINDS[name], name)


def draw_all(board: Board, wanted: Sequence[str], asked: Asked) -> Drawn:
    """Every kind that was asked for, of every block.

    Args:
        wanted: Kinds; all where none are named. A kind that is named and cannot be drawn for any block is a fault.

    Raises:
        UnknownName: No such kind, or no such field for ablations.
        NotDrawn: A named kind has no data, or nothing could be drawn at all.
    """
    figures: list[Figure] = []
    skipped: list[Skipped] = []
    for name in [kind for kind in _KINDS if not wanted or kind in wanted] + [n for n in wanted if n not in _KINDS]:
        draw = find_kind(name)
        missing: list[NotDrawn] = []
        before = len(figures)
        for block in board.blocks:
            try:
                figures += draw(block, asked)
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
    if len(missing) == 1:
        return NotDrawn(f"{name}: {missing[0].what}", hint=missing[0].hint)
    listing = "".join(f"\n  - {fault.what}" for fault in missing[:8])
    more = f"\n  … and {len(missing) - 8} more" if len(missing) > 8 else ""
    return NotDrawn(f"the kind {name!r} cannot be drawn:{listing}{more}", hint=missing[0].hint)
