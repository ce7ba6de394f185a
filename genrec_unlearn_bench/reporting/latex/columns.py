"""Columns of a LaTeX table: their heads and their cells.

A measure has three LaTeX columns (mean, spread, signs): the means of a column have the same decimals, so that setting
them flush right aligns their points, and signs move nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from genrec_unlearn_bench.reporting.analysis import Mark, Verdict
from genrec_unlearn_bench.reporting.latex.escape import escape, shorten
from genrec_unlearn_bench.reporting.measure import RECORDED_COSTS
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.tables import Column, Entry
from genrec_unlearn_bench.reporting.titles import task_title
from genrec_unlearn_bench.reporting.wording import bare, fixed

FORMAT = r"r@{\,}r@{}l"
"""The columns of a measure in a tabular's preamble."""
CELLS = 3
GAP = 2.5
"""Characters between two measures."""
_SIGNS = {Verdict.BETTER: "+", Verdict.WORSE: "-"}
_FONTS = {Mark.BEST: r"\gubbest{%s}", Mark.SECOND: r"\gubsecond{%s}", Mark.PLAIN: "%s"}


def cells_of(entry: Entry) -> tuple[str, str, str]:
    """Mean, spread and signs of an entry."""
    cell, decimals = entry.cell, entry.column.decimals
    if cell is None:
        return "--", "", ""
    if cell.mean is None:
        return "--" if entry.column.measure in RECORDED_COSTS else "n.m.", "", ""
    spread = "" if cell.sd is None else rf"\gubsd{{{bare(fixed(cell.sd, decimals))}}}"
    signs = _signs(entry)
    return _FONTS[cell.mark] % fixed(cell.mean, decimals), spread, f"$^{{{signs}}}$" if signs else ""


def width_of_column(column: Column, entries: Iterable[Entry]) -> float:
    """Characters of a measure, roughly, for choosing where to cut a wide table."""
    cells = [entry.cell for entry in entries if entry.cell is not None]
    mean = max((len(fixed(cell.mean, column.decimals)) for cell in cells if cell.mean is not None), default=4)
    spread = max((len(bare(fixed(cell.sd, column.decimals))) for cell in cells if cell.sd is not None), default=-1)
    title = max(len(part) for part in _parts(_plain(column)))
    return max(mean + 2.0 + 0.7 * (spread + 1), title) + GAP


def _signs(entry: Entry) -> str:
    """Signs behind the number, in maths: at primary measures alone, as only these carry a claim."""
    cell = entry.cell
    if cell is None or not entry.column.primary or (entry.row is not None and entry.row.diverged):
        return ""
    out = "" if cell.difference is None else _SIGNS.get(cell.difference.verdict, "")
    if cell.equivalence is not None and cell.equivalence.verdict in (Likeness.EQUIVALENT, Likeness.IDENTICAL):
        out += r"\dagger"
    return out


_ARROWS = {"↓": r"$\downarrow$", "↑": r"$\uparrow$", "→0": r"$\rightarrow 0$", "": ""}
_UNITS = {"seconds": "s", "MiB": "MiB"}
WIDTH = 9
"""Characters from which a title with a space in it is broken in two."""


def head_lines(columns: Sequence[Column]) -> list[str]:
    """The lines between ``\\toprule`` and ``\\midrule``; the label has one LaTeX column."""
    groups = groups_of(columns)
    tasks = [(task, len(list(members))) for task, members in groupby(columns, lambda column: column.top)]
    heads: list[tuple[str, int]] = []
    titles: list[tuple[str, int]] = []
    for group in groups:
        arrows = {column.measure.arrow for column in group}
        shared = _ARROWS[group[0].measure.arrow] if len(arrows) == 1 else ""
        heads.append((_joined(escape(group[0].head), shared), len(group)))
        titles += [(_title(column, "" if shared else _ARROWS[column.measure.arrow]), 1) for column in group]
    lines = [
        _spanning((escape(shorten(task_title(task))), size) for task, size in tasks),
        _rules([size for _, size in tasks]),
        _spanning(heads),
    ]
    if any(text for text, _ in titles):
        ruled = [any(_plain(column) for column in group) for group in groups]
        lines += [_rules([size for _, size in heads], ruled), _spanning(titles)]
    return lines


def groups_of(columns: Sequence[Column]) -> list[tuple[Column, ...]]:
    """Columns under one task and head."""
    return [tuple(members) for _, members in groupby(columns, lambda column: (column.top, column.head))]


def _plain(column: Column) -> str:
    """The title without what the head above it says already."""
    title, head = column.title, column.head
    if title.casefold() == head.casefold():
        return ""
    unit = _UNITS.get(column.measure.spec.unit)
    return f"{title} ({unit})" if unit else title


def _title(column: Column, arrow: str) -> str:
    parts = [escape(part) for part in _parts(_plain(column))]
    parts[-1] = _joined(parts[-1], arrow)
    if len(parts) == 1:
        return parts[0]
    return rf"\begin{{tabular}}[b]{{@{{}}c@{{}}}}{parts[0]}\\{parts[1]}\end{{tabular}}"


def _parts(title: str) -> list[str]:
    """One line, or two where it is long: cut before a bracket, else at the space nearest the middle."""
    title = shorten(title)
    spaces = [place for place, character in enumerate(title) if character == " "]
    if len(title) <= WIDTH or not spaces:
        return [title]
    brackets = [place for place in spaces if title[place + 1] == "("]
    place = brackets[0] if brackets else min(spaces, key=lambda at: abs(2 * at - len(title)))
    return [title[:place], title[place + 1 :]]


def _joined(text: str, arrow: str) -> str:
    return f"{text} {arrow}".strip()


def _spanning(cells: Iterable[tuple[str, int]]) -> str:
    return "".join(rf" & \multicolumn{{{CELLS * size}}}{{c}}{{{text}}}" for text, size in cells) + r" \\"


def _rules(sizes: Sequence[int], ruled: Sequence[bool] = ()) -> str:
    """Rules below cells that span so many measures; none below those that have nothing under them."""
    out = []
    at = 2
    for size, wanted in zip(sizes, ruled or [True] * len(sizes), strict=True):
        if wanted:
            out.append(rf"\cmidrule(lr){{{at}-{at + CELLS * size - 1}}}")
        at += CELLS * size
    return "".join(out)
