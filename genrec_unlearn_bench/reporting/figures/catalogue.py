"""The kinds of figures, declared in ``leaderboard/figures.yaml``, and drawing those that were asked for.

Most kinds are panels of a measurement's table (``measurements/<name>.csv``), seed by seed, then over seeds. Its
column ``model`` says which model a row is of: the run itself, or one that it is compared with. So the curves of the
original and the oracle are known wherever a method was measured, with or without results of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel, one_of, parse_yaml
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.results import MEASUREMENTS
from genrec_unlearn_bench.reporting.board import Block, Board
from genrec_unlearn_bench.reporting.figures.model import (
    FLOOR_LABEL,
    SECOND_DASH,
    Estimate,
    Figure,
    FigureRequest,
    NotDrawn,
    Panel,
    SelectedRows,
    Series,
    axis_title,
    mean_of,
    panel_figure,
    unmeasured,
)
from genrec_unlearn_bench.reporting.figures.records import draw_ablation, draw_overlap, draw_pareto
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

if TYPE_CHECKING:
    import pandas as pd

SPACES = ("served SIDs", "original SIDs")
"""Semantic IDs that an attack trains and is scored in: the model's own, and those before unlearning."""
_FROM_RECORDS = {"pareto": draw_pareto, "overlap": draw_overlap, "ablation": draw_ablation}
_OWN = "run"
_AGAIN = "run that cell again (bench run)"
_MOST_APART = 4
"""Positions up to which marks are drawn next to each other."""
_TICKS = 7
"""Positions that are named, about."""
_DECADES = 20.0
"""A distribution beyond this is logarithmic: truth ratios go over decades where a model is sure of what is wrong."""
_DASHES = ((), (4.0, 1.5), (1.5, 1.2), (5.0, 1.2, 1.2, 1.2), (3.0, 1.0), (6.0, 2.0))
"""Of distributions, which have too many points for markers."""


class Panels(StrictModel):
    """The panels of one column of a table: which columns are read and how the axes are named."""

    value: str
    """Column of the number."""
    interval: tuple[str, str] | None = None
    """Columns of the measurement's own interval."""
    x: str = ""
    """Column of the position; empty = a mark for each row, by its name."""
    names: dict[str, str] = Field(default_factory=dict)
    """Texts of the column ``x`` with their names on its axis, in order; none where they are numbers."""
    steps: bool = False
    """Whether x is logarithmic from its first positive value on."""
    distribution: bool = False
    """Whether the number is x, and the column ``x`` the share of examples below it."""
    panel: str = ""
    """Column by whose values panels differ; empty = one panel."""
    titles: dict[str, str] = Field(default_factory=dict)
    """Panels by their value in that column, in order; others follow under their own name."""
    space: tuple[str, str] = ("", "")
    """Column that distinguishes two variants, and its value for the first."""
    where: dict[str, str] = Field(default_factory=dict)
    """Columns with the text that they must have."""
    xlabel: str = ""
    ylabel: str
    """With ``{}`` for the panel."""
    metric: str = ""
    """Declares which way is better; with ``{}`` for the panel."""
    group: Group | None = None
    """Of the metric; the group that the panel is named after where None."""
    line: float | None = None
    ylim: tuple[float | None, float | None] = (None, None)


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


class Drawn(NamedTuple):
    """The figures of a request."""

    figures: tuple[Figure, ...]
    skipped: tuple[Skipped, ...]


def find_kind(name: str) -> Kind:
    """The kind of that name. Raises UnknownName."""
    return kinds()[one_of("kind", name, kinds())]


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
    for name in dict.fromkeys(wanted or kinds()):
        missing: list[NotDrawn] = []
        before = len(figures)
        for block in board.blocks:
            try:
                figures += draw_kind(name, block, request)
            except NotDrawn as fault:
                missing.append(fault)
                skipped.append(Skipped(name, block.key.title, fault.what, fault.hint or ""))
        if wanted and len(figures) == before:
            reason = missing[0].what if missing else "nothing was measured on the rows that were asked for"
            more = f" (and so for {len(missing) - 1} more blocks)" if len(missing) > 1 else ""
            hint = missing[0].hint if missing else None
            raise NotDrawn(f"the kind {name!r} cannot be drawn: {reason}{more}", hint=hint)
    if not figures:
        raise NotDrawn(
            "none of these results can be drawn:" + "".join(f"\n  - {one.kind}: {one.reason}" for one in skipped),
            hint="name a kind (--kind) to see which run would give its data",
        )
    return Drawn(tuple(figures), tuple(skipped))


def draw_kind(name: str, block: Block, request: FigureRequest) -> tuple[Figure, ...]:
    """The figures of a kind for a block, more than one where there are many rows. Raises NotDrawn and UnknownName."""
    kind = find_kind(name)
    if name in _FROM_RECORDS:
        return _FROM_RECORDS[name](block, request)
    table = read_tables(block, name, request.protocol)
    if table is None:
        raise unmeasured(block, f"{kind.needs} (measurements/{name}.csv)", kind.options)
    selected = SelectedRows.of(block, request)
    caption = [sentence.format(block=block.key.title, oracle=selected.oracle) for sentence in kind.caption]
    out = []
    for ending, labels in selected.parts():
        shown = (*labels, FLOOR_LABEL) if FLOOR_LABEL in set(table["label"]) else labels
        found = (_column_panels(spec, table, shown, selected, request.protocol) for spec in kind.panels)
        panels = [panel for each in found for panel in each]
        if panels:
            out.append(panel_figure(name, block, panels, caption, selected, ending=ending, variants=SPACES))
    return tuple(out)


def read_tables(block: Block, name: str, protocol: StatisticsProtocol) -> pd.DataFrame | None:
    """A measurement's tables of all runs of a block as text, with the columns ``label`` and ``seed``; None where no
    run has one. What a row's own result says of it comes before what the results of others say.

    Raises CorruptArtefact for a table that cannot be read.
    """
    import pandas as pd

    frames: list[pd.DataFrame] = []
    for row in block.rows:
        labels = {_OWN: row.label, "original": protocol.baseline, "retrain": protocol.oracle, "untrained": FLOOR_LABEL}
        for seed, result in row.results.items():
            path = result.folder / MEASUREMENTS / f"{name}.csv"
            if not path.is_file():
                continue
            try:
                frame = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False)
            except (OSError, ValueError) as fault:
                what = f"the table of a measurement cannot be read: {fault}"
                raise CorruptArtefact(what, where=str(path), hint=_AGAIN) from None
            # A table of a stream has one model alone and need not name it.
            frame = frame if "model" in frame else frame.assign(model=_OWN)
            # Any table of others comes after every row's own.
            rank = len(frames) + (frame["model"] != _OWN) * len(block.rows) * len(block.seeds)
            frames.append(frame.assign(label=frame["model"].map(labels), seed=seed, rank=rank))
    if not frames:
        return None
    whole = pd.concat(frames, ignore_index=True).dropna(subset="label").fillna("")
    return whole[whole["rank"] == whole.groupby(["label", "seed"])["rank"].transform("min")]


def estimates(
    table: pd.DataFrame,
    key: Sequence[str],
    value: str,
    protocol: StatisticsProtocol,
    *,
    interval: tuple[str, str] | None = None,
    where: Mapping[str, str] | None = None,
) -> dict[tuple[str, ...], Estimate]:
    """Means over seeds, by the texts of the columns in ``key`` (empty for a column that is not there), in the order of
    the table; what was measured at no seed is left out.

    Args:
        value: Column of the number.
        interval: Columns of the measurement's own interval, taken where there is one seed alone.
        where: Columns with the text that they must have, where the table has them.
    """
    table = table.assign(**{column: "" for column in (*key, value) if column not in table})
    for column, text in (where or {}).items():
        table = table[table[column] == text] if column in table else table
    out = {}
    for place, group in table.groupby([table[column] for column in key], sort=False):
        numbers = _numbers(group, value)
        found = mean_of(numbers, protocol)
        if found.seeds == 1 and interval is not None and set(interval) <= set(group):
            at = [math.isfinite(number) for number in numbers].index(True)
            bounds = replace(found, low=_numbers(group, interval[0])[at], high=_numbers(group, interval[1])[at])
            found = replace(bounds, interval="of the measurement") if bounds.banded else found
        if found.seeds:
            out[tuple(map(str, place))] = found
    return out


def _numbers(table: pd.DataFrame, column: str) -> list[float]:
    try:
        return [float(text) if text else math.nan for text in table[column]]
    except ValueError as fault:
        what = f"the column {column!r} of a measurement holds no number: {fault}"
        raise CorruptArtefact(what, hint=_AGAIN) from None


def _column_panels(
    spec: Panels, table: pd.DataFrame, labels: Sequence[str], selected: SelectedRows, protocol: StatisticsProtocol
) -> list[Panel]:
    """The panels of one column of a table, with the rows of some labels."""
    by_panel: dict[str, list[Series]] = {}
    seen = set(table[spec.x]) if spec.x in table else set()
    names = {name: place for place, name in enumerate(name for name in spec.names if name in seen)}
    for row, label in enumerate(labels):
        mine, key = table[table["label"] == label], (spec.panel, spec.space[0], spec.x)
        found = estimates(mine, key, spec.value, protocol, interval=spec.interval, where=spec.where)
        curves: dict[tuple[str, str], list[tuple[float, Estimate]]] = {}
        for (panel, space, x), each in found.items():
            place = float(row) if not spec.x else float(names[x] if names else x or 0.0)
            curves.setdefault((panel, space), []).append((place, each))
        for (panel, space), points in curves.items():
            points.sort(key=lambda point: point[0])
            second = space != spec.space[1]
            first = curves.get((panel, spec.space[1]))
            # A row that never changed its semantic IDs would have the same curve twice.
            if not second or first is None or [y.mean for _, y in points] != [y.mean for _, y in first]:
                by_panel.setdefault(panel, []).append(_series(spec, label, points, selected, second=second))
    order = [*(panel for panel in spec.titles if panel in by_panel), *(p for p in by_panel if p not in spec.titles)]
    ticks = [spec.names[name] for name in names] if spec.x else labels
    return [_panel(spec, panel, tuple(by_panel[panel]), ticks) for panel in order]


def _series(
    spec: Panels, label: str, points: Sequence[tuple[float, Estimate]], selected: SelectedRows, *, second: bool
) -> Series:
    look = selected.looks[label]
    if spec.distribution:
        dash = (
            ()
            if label in (selected.original, selected.oracle)
            else _DASHES[list(selected.looks).index(label) % len(_DASHES)]
        )
        shares = tuple((each.mean, Estimate(share, seeds=each.seeds)) for share, each in points)
        return Series(label, replace(look, marker="", dash=dash, hollow=False), shares)
    if second:
        look = replace(look, hollow=True, dash=SECOND_DASH, order=look.order - 0.1)
    return Series(label, look, tuple(points), SPACES[second] if spec.space[0] else "")


def _panel(spec: Panels, panel: str, series: tuple[Series, ...], names: Sequence[str]) -> Panel:
    places = sorted({x for each in series for x, _ in each.points})
    ticks = [(float(place), name) for place, name in enumerate(names)]
    if not names and not spec.distribution:
        step = 1 if spec.steps else max(1, round(len(places) / _TICKS))
        ticks = [(x, f"{x:g}") for x in places[::step]]
    symlog = next((x for x in places if x > 0.0), 1.0) if spec.steps else 0.0
    if spec.distribution and places[-1] > _DECADES:
        symlog = 0.1
    quantity = axis_title(spec.ylabel.format(panel), spec.metric.format(panel), spec.group or Group(panel))
    return Panel(
        title=spec.titles.get(panel, panel),
        xlabel=spec.xlabel if spec.x else quantity,
        ylabel=quantity if spec.x else "",
        series=series,
        style="lines" if spec.x else "rows",
        ticks=tuple(ticks),
        line=spec.line,
        symlog=symlog,
        ylim=spec.ylim,
        # Bands of many rows over each other are one grey; for a few positions there is room for whiskers.
        apart=spec.interval is not None and not spec.steps and len(places) <= _MOST_APART,
    )
