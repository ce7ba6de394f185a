"""The kinds of figures, declared in ``leaderboard/figures.yaml``, and drawing those that were asked for.

Most kinds are panels of a table, seed by seed, then over seeds: of a measurement's (``measurements/<name>.csv``) or of
the records' numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
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
from genrec_unlearn_bench.reporting.figures.pareto import draw_pareto
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.wording import leaderboard_text

if TYPE_CHECKING:
    import pandas as pd

OWN = "run"
"""The run itself in the column ``model`` of a measurement's table, which also has the original and the oracle."""
AGAIN = "run that cell again (bench run)"
SPACES = ("served SIDs", "original SIDs")
"""Semantic IDs that an attack trains and is scored in: the model's own, and those before unlearning."""
_DECADES = 20.0
"""A distribution beyond this is logarithmic: truth ratios go over decades where a model is sure of what is wrong."""


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
    """Of the measurement that the kind is named after, or of token overlap; none for the Pareto figure."""
    needs: str = ""
    """What no run of a block has where it cannot be drawn."""
    options: str = ""
    """Of ``bench run``, for what it needs."""
    method: str = ""
    """That has it; any where empty."""
    caption: tuple[str, ...] = ()
    """Sentences, with ``{block}`` and ``{oracle}``."""


class _Kinds(StrictModel):
    kinds: dict[str, Kind]


@cache
def kinds() -> Mapping[str, Kind]:
    """The kinds of ``leaderboard/figures.yaml``, in the order in which they are drawn."""
    return parse_yaml(_Kinds, leaderboard_text("figures.yaml"), where="leaderboard/figures.yaml").kinds


class Skipped(NamedTuple):
    """A kind that could not be drawn for a block, with the reason and the run that would give the data."""

    kind: str
    block: str
    reason: str
    hint: str


def find_kind(name: str) -> Kind:
    """The kind of that name. Raises UnknownName."""
    return kinds()[one_of("kind", name, kinds())]


def draw_all(board: Board, wanted: Sequence[str], request: FigureRequest) -> tuple[list[Figure], list[Skipped]]:
    """Every kind that was asked for, or all of them, of every block, and what could not be drawn.

    Raises:
        UnknownName: No such kind.
        NotDrawn: A named kind has no data for any block, or nothing could be drawn at all.
    """
    figures: list[Figure] = []
    skipped: list[Skipped] = []
    for name in dict.fromkeys(wanted or kinds()):
        for block in board.blocks:
            try:
                figures += draw_kind(name, block, request)
            except NotDrawn as fault:
                skipped.append(Skipped(name, block.key.title, fault.what, fault.hint or ""))
    drawn = {figure.kind for figure in figures}
    for one in skipped:
        if one.kind in wanted and one.kind not in drawn:
            raise NotDrawn(f"the kind {one.kind!r} cannot be drawn: {one.reason}", hint=one.hint)
    if not figures:
        raise NotDrawn(
            "none of these results can be drawn:" + "".join(f"\n  - {one.kind}: {one.reason}" for one in skipped),
            hint="name a kind (--kind) to see which run would give its data",
        )
    return figures, skipped


def draw_kind(name: str, block: Block, request: FigureRequest) -> list[Figure]:
    """The figures of a kind for a block, more than one where there are many rows. Raises NotDrawn and UnknownName."""
    kind = find_kind(name)
    if name == "pareto":
        return [draw_pareto(block, request)]
    table = overlap_table(block, request.protocol) if name == "overlap" else read_tables(block, name, request.protocol)
    if table is None:
        raise unmeasured(block, kind.needs, kind.options, method=kind.method)
    selected = SelectedRows.of(block, request, set(table["label"]) if name == "overlap" else None)
    caption = [sentence.format(block=block.key.title, oracle=selected.oracle) for sentence in kind.caption]
    out = []
    for ending, labels in selected.parts():
        shown = [label for label in (*labels, FLOOR_LABEL) if label in set(table["label"])]
        panels = [panel for spec in kind.panels for panel in _column_panels(spec, table, shown, selected, request)]
        if panels:
            out.append(panel_figure(name, block, panels, caption, selected, ending=ending, variants=SPACES))
    return out


def read_tables(block: Block, name: str, protocol: StatisticsProtocol) -> pd.DataFrame | None:
    """A measurement's tables of all runs of a block as text, with the columns ``label`` and ``seed``; None where no
    run has one. What a row's own result says of it comes before what the results of others say.

    Raises CorruptArtefact for a table that cannot be read.
    """
    import pandas as pd

    frames: list[pd.DataFrame] = []
    for row in block.rows:
        labels = {OWN: row.label, "original": protocol.baseline, "retrain": protocol.oracle, "untrained": FLOOR_LABEL}
        for seed, result in row.results.items():
            path = result.folder / MEASUREMENTS / f"{name}.csv"
            if not path.is_file():
                continue
            try:
                frame = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False)
            except (OSError, ValueError) as fault:
                what = f"the table of a measurement cannot be read: {fault}"
                raise CorruptArtefact(what, where=str(path), hint=AGAIN) from None
            # A table of a stream has one model alone and need not name it.
            frame = frame if "model" in frame else frame.assign(model=OWN)
            # Any table of others comes after every row's own.
            rank = len(frames) + (frame["model"] != OWN) * len(block.rows) * len(block.seeds)
            frames.append(frame.assign(label=frame["model"].map(labels), seed=seed, rank=rank))
    if not frames:
        return None
    whole = pd.concat(frames, ignore_index=True).dropna(subset="label").fillna("")
    return whole[whole["rank"] == whole.groupby(["label", "seed"])["rank"].transform("min")]


def overlap_table(block: Block, protocol: StatisticsProtocol) -> pd.DataFrame | None:
    """Token overlap in the records of the original and of methods that changed semantic IDs, with the columns
    ``label``, ``seed``, ``metric``, ``level`` (of ``overlap.level``) and ``value``. None where no method did."""
    import pandas as pd

    rows = [
        (row.label, seed, measure.metric, value)
        for measure in block.measures
        if measure.group is Group.ALL and measure.metric.startswith("overlap")
        for row, values in zip(block.rows, block.values(measure), strict=True)
        for seed, value in zip(block.seeds, values, strict=True)
        if math.isfinite(value)
    ]
    table = pd.DataFrame(rows, columns=["label", "seed", "metric", "value"])
    change = table["metric"].str.startswith("overlap-change.") & (table["metric"] != "overlap-change.lift")
    moved = set(table[change & (table["value"] != 0.0)]["label"])
    level = table["metric"].str.extract(r"^overlap\.level(\d+)$", expand=False).fillna("")
    table = table.assign(level=level, metric=table["metric"].mask(level != "", "overlap.level"))
    return table[table["label"].isin({protocol.baseline, *moved})] if moved else None


def estimates(
    table: pd.DataFrame, key: Sequence[str], spec: Panels, protocol: StatisticsProtocol
) -> dict[tuple[str, ...], Estimate]:
    """Means of a column over seeds, by the texts of the columns in ``key`` (empty for a column that is not there), in
    the order of the table; what was measured at no seed is left out."""
    table = table.assign(**{column: "" for column in (*key, spec.value) if column not in table})
    for column, text in spec.where.items():
        table = table[table[column] == text] if column in table else table
    out = {}
    for place, group in table.groupby([table[column] for column in key], sort=False):
        numbers = _numbers(group, spec.value)
        found = mean_of(numbers, protocol)
        if found.seeds == 1 and spec.interval is not None and set(spec.interval) <= set(group):
            at = [math.isfinite(number) for number in numbers].index(True)
            low, high = (_numbers(group, column)[at] for column in spec.interval)
            bounds = replace(found, low=low, high=high, interval="of the measurement")
            found = bounds if bounds.banded else found
        if found.seeds:
            out[tuple(map(str, place))] = found
    return out


def _numbers(table: pd.DataFrame, column: str) -> list[float]:
    try:
        found: list[float] = table[column].replace("", "nan").astype(float).tolist()
    except ValueError as fault:
        what = f"the column {column!r} of a measurement holds no number: {fault}"
        raise CorruptArtefact(what, hint=AGAIN) from None
    return found


def _column_panels(
    spec: Panels, table: pd.DataFrame, labels: Sequence[str], selected: SelectedRows, request: FigureRequest
) -> list[Panel]:
    """The panels of one column of a table, with the rows of some labels."""
    by_panel: dict[str, list[Series]] = {}
    seen = set(table[spec.x]) if spec.x in table else set()
    names = {name: place for place, name in enumerate(name for name in spec.names if name in seen)}
    for row, label in enumerate(labels):
        mine, key = table[table["label"] == label], (spec.panel, spec.space[0], spec.x)
        found = estimates(mine, key, spec, request.protocol)
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
    return [
        _panel(spec, panel, tuple(by_panel[panel]), [spec.names[n] for n in names] if spec.x else labels)
        for panel in order
    ]


def _series(
    spec: Panels, label: str, points: Sequence[tuple[float, Estimate]], selected: SelectedRows, *, second: bool
) -> Series:
    look = selected.looks[label]
    if spec.distribution:
        # Too many points for markers.
        shares = tuple((each.mean, Estimate(share, seeds=each.seeds)) for share, each in points)
        return Series(label, replace(look, marker=""), shares)
    if second:
        look = replace(look, hollow=True, dash=SECOND_DASH, order=look.order - 0.1)
    return Series(label, look, tuple(points), SPACES[second] if spec.space[0] else "")


def _panel(spec: Panels, panel: str, series: tuple[Series, ...], names: Sequence[str]) -> Panel:
    places = sorted({x for each in series for x, _ in each.points})
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
        names=tuple(names),
        line=spec.line,
        symlog=symlog,
        ylim=spec.ylim,
    )
