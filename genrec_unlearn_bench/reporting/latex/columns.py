"""Columns of a LaTeX table: their head and their cells, each cell a siunitx mean and the spread with its marks.

Two LaTeX columns a measure, because siunitx has one font size for a number with its uncertainty, and a paper's table
wants the spread small. Bold and underline go around the aligned number without moving it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from genrec_unlearn_bench.reporting.analysis import Mark, Verdict
from genrec_unlearn_bench.reporting.latex.escape import escape, shorten
from genrec_unlearn_bench.reporting.measure import RECORDED_COSTS
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.tables import Column, Entry
from genrec_unlearn_bench.reporting.titles import task_title
from genrec_unlearn_bench.reporting.wording import bare, fixed

__all__ = ["MISSING", "NOT_RUN", "ColumnShape", "groups_of", "head_lines", "marks_of", "shape_of", "title_width"]

MISSING = "{n.m.}"
NOT_RUN = "{--}"
_SIGNS = {Verdict.BETTER: "+", Verdict.WORSE: "-"}


@dataclass(frozen=True)
class ColumnShape:
    """How wide the numbers of a column are, over all sections of a table.

    Attributes:
        whole: Digits before the decimal point.
        spread: Digits before the decimal point of the standard deviations.
        characters: Widest cell, roughly, for choosing where to cut a wide table.
    """

    decimals: int
    whole: int
    negative: bool
    spread: int
    characters: float

    @property
    def format(self) -> str:
        """The two columns in a tabular's preamble."""
        sign = "-" if self.negative else ""
        return f"S[table-format={sign}{self.whole}.{self.decimals}]@{{\\,}}l"

    def cells(self, entry: Entry) -> str:
        """The two cells."""
        cell = entry.cell
        if cell is None:
            return f"{NOT_RUN} &"
        if cell.mean is None:
            return f"{NOT_RUN if entry.column.measure in RECORDED_COSTS else MISSING} &"
        mean = fixed(cell.mean, self.decimals)
        if cell.mark is Mark.BEST:
            mean = rf"\gubbest {mean}"
        elif cell.mark is Mark.SECOND:
            mean = rf"{mean}{{\gubsecond{{{mean}}}}}"
        marks = "".join(marks_of(entry))
        tail = self._spread(cell.sd) + (f"$^{{{marks}}}$" if marks else "")
        return f"{mean} & {tail}" if tail else f"{mean} &"

    def _spread(self, sd: float | None) -> str:
        if sd is None:
            return ""
        text = bare(fixed(sd, self.decimals))
        filler = "0" * (self.spread - _whole(text))
        return rf"\gubsd{{\phantom{{{filler}}}{text}}}" if filler else rf"\gubsd{{{text}}}"


def shape_of(column: Column, entries: Iterable[Entry]) -> ColumnShape:
    """The shape that fits every cell of a column."""
    cells = [entry.cell for entry in entries if entry.cell is not None]
    means = [fixed(cell.mean, column.decimals) for cell in cells if cell.mean is not None]
    spreads = [bare(fixed(cell.sd, column.decimals)) for cell in cells if cell.sd is not None]
    whole = max((_whole(text) for text in means), default=1)
    spread = max((_whole(text) for text in spreads), default=0)
    return ColumnShape(
        decimals=column.decimals,
        whole=whole,
        negative=any(text.startswith("-") for text in means),
        spread=spread,
        characters=whole + column.decimals + 3.0 + 0.7 * (spread + column.decimals + 2 if spreads else 0),
    )


def marks_of(entry: Entry) -> Sequence[str]:
    """Signs behind the number, in maths: at primary measures alone, as only these carry a claim."""
    cell = entry.cell
    if cell is None or not entry.column.primary or (entry.row is not None and entry.row.diverged):
        return ()
    out = []
    if cell.difference is not None and cell.difference.verdict in _SIGNS:
        out.append(_SIGNS[cell.difference.verdict])
    if cell.equivalence is not None and cell.equivalence.verdict in (Likeness.EQUIVALENT, Likeness.IDENTICAL):
        out.append(r"\dagger")
    return out


def _whole(text: str) -> int:
    return len(text.removeprefix("-").partition(".")[0])


_ARROWS = {"↓": r"$\downarrow$", "↑": r"$\uparrow$", "→0": r"$\rightarrow 0$", "": ""}
_UNITS = {"seconds": "s", "MiB": "MiB"}
WIDTH = 9
"""Characters from which a title with a space in it is broken in two."""


def head_lines(columns: Sequence[Column]) -> list[str]:
    """The lines between ``\\toprule`` and ``\\midrule``; a measure has two LaTeX columns, the label before them one."""
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


def title_width(column: Column) -> int:
    """Characters of the widest line of a measure's title."""
    return max(len(part) for part in _parts(_plain(column)))


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
    return "".join(rf" & \multicolumn{{{2 * size}}}{{c}}{{{text}}}" for text, size in cells) + r" \\"


def _rules(sizes: Sequence[int], ruled: Sequence[bool] = ()) -> str:
    """Rules below cells that span so many measures; none below those that have nothing under them."""
    out = []
    at = 2
    for size, wanted in zip(sizes, ruled or [True] * len(sizes), strict=True):
        if wanted:
            out.append(rf"\cmidrule(lr){{{at}-{at + 2 * size - 1}}}")
        at += 2 * size
    return "".join(out)
