"""The head of a table: tasks, groups with their direction, measures; with rules below what spans several columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from genrec_unlearn_bench.reporting.latex.escape import escape, shorten
from genrec_unlearn_bench.reporting.tables import Column

__all__ = ["groups_of", "head_lines", "title_width"]

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
        _spanning((escape(shorten(task)), size) for task, size in tasks),
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
