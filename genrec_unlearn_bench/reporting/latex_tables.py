"""Tables as LaTeX: booktabs, in floats that fit a page; alone or as a whole document.

A measure has three LaTeX columns (mean, spread, signs): the means of a column have the same decimals, so that setting
them flush right aligns their points, and signs move nothing. A table that is too wide or too long is cut into several
floats: longtable stops in two-column classes, which most venues use, and cannot be scaled to the width of a page.

Deterministic: the same tables give the same bytes. Whatever comes from records is escaped before a template sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple, TypeVar

from jinja2 import Environment, Template

from genrec_unlearn_bench.reporting import wording
from genrec_unlearn_bench.reporting.analysis import Mark, Verdict
from genrec_unlearn_bench.reporting.latex_text import escape, label, shorten
from genrec_unlearn_bench.reporting.measure import RECORDED_COSTS
from genrec_unlearn_bench.reporting.paper import bibliography, statistics_paragraph
from genrec_unlearn_bench.reporting.sentences import latex_notes
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.tables import UNITS, Column, Entry, Line, Section, Table

Item = TypeVar("Item")

PACKAGES = ("booktabs", "adjustbox")
"""What a document has to load."""
LINES = 50
"""Lines of one float; scaled down, these and their notes fit a page."""
MEASURES = 14
"""Of one float: at a text width of 400 pt so many are set at half the size of the text around."""
ONE_COLUMN = 3
"""Measures up to which a table stands in one column of a two-column page."""
TITLE_WIDTH = 9
"""Characters from which a title with a space in it is broken in two."""
CELLS = 3
"""LaTeX columns of a measure, as ``FORMAT`` declares them."""
FORMAT = r"r@{\,}r@{}l"
_SIGNS = {Verdict.BETTER: "+", Verdict.WORSE: "-"}
_FONTS = {Mark.BEST: r"\gubbest{%s}", Mark.SECOND: r"\gubsecond{%s}", Mark.PLAIN: "%s"}
_ARROWS = {"↓": r"$\downarrow$", "↑": r"$\uparrow$", "→0": r"$\rightarrow 0$", "": ""}


@cache
def _environment() -> Environment:
    marks = {"block_start": "((*", "block_end": "*))", "variable_start": "(((", "variable_end": ")))"}
    marks |= {"comment_start": "((=", "comment_end": "=))"}
    options = {f"{name}_string": mark for name, mark in marks.items()}
    return wording.template_environment("latex", keep_trailing_newline=True, **options)


def template(name: str) -> Template:
    """A template with delimiters that LaTeX does not use: ``((* block *))``, ``((( value )))``, ``((= comment =))``."""
    return _environment().get_template(name)


def render_latex(tables: Sequence[Table], *, standalone: bool = False) -> str:
    """All tables, one float or more for each.

    Args:
        tables: Of one call of ``make_tables``.
        standalone: A whole document: tables, the paragraph on the statistics, and the bibliography, which it writes
            beside itself as ``<job name>.bib`` when it is compiled.
    """
    floats = [text for table in tables for text in _floats(table)]
    if not standalone:
        return template("fragment.tex").render(packages=PACKAGES, floats=floats)
    return template("document.tex").render(
        packages=PACKAGES, floats=floats, paragraph=statistics_paragraph(tables), bibliography=bibliography(tables).text
    )


class Page(NamedTuple):
    """One float of a table.

    Attributes:
        sections: With all of the table's entries; ``columns`` says which are shown.
        continued: Whether the first section began on an earlier page.
    """

    columns: tuple[Column, ...]
    sections: tuple[Section, ...]
    continued: bool


def pages_of(table: Table) -> list[Page]:
    """The floats of a table, the lines of one part of its columns after the other."""
    groups, most = _groups(table.columns), MEASURES
    wide = _parts(groups, most)
    # As many parts as are needed, and these of about one size.
    while len(narrower := _parts(groups, most - 1)) == len(wide) > 1:
        wide, most = narrower, most - 1
    lines = _parts([[(section.title, line) for line in section.lines] for section in table.sections], LINES)
    begins = {id(section.lines[0]) for section in table.sections}
    return [
        Page(
            tuple(columns),
            tuple(
                Section(title, tuple(line for _, line in found)) for title, found in groupby(rows, lambda row: row[0])
            ),
            id(rows[0][1]) not in begins,
        )
        for columns in wide
        for rows in lines
    ]


def _parts(groups: Iterable[Sequence[Item]], most: int) -> list[list[Item]]:
    """Items in parts of at most so many, cut between groups where a group is not too large by itself."""
    parts: list[list[Item]] = [[]]
    for group in groups:
        for place, item in enumerate(group):
            if parts[-1] and len(parts[-1]) + (1 if place else len(group)) > most:
                parts.append([])
            parts[-1].append(item)
    return parts


def _floats(table: Table) -> list[str]:
    title = f"{escape(table.layout.title)} ({escape(table.key.ruleset)}, {escape(table.key.scale)})"
    pages = pages_of(table)
    out = []
    for number, page in enumerate(pages, start=1):
        first, last = number == 1, number == len(pages)
        part = "" if len(pages) == 1 else f", part {number} of {len(pages)}"
        text = template("table.tex").render(
            environment="table*" if len(page.columns) > ONE_COLUMN else "table",
            caption=f"{title}{part}." + (f" {escape(table.layout.caption)}" if first else ""),
            short=title,
            label=f"tab:{label(table.name)}" + ("" if first else f"-part{number}"),
            again=not first,
            columns="l" + FORMAT * len(page.columns),
            width=1 + CELLS * len(page.columns),
            **_heads(page.columns),
            sections=_sections(page),
            notes=" ".join(latex_notes(table)) if last else "Notes: below the last part.",
        )
        out.append(text)
    return out


def _groups(columns: Sequence[Column]) -> list[tuple[Column, ...]]:
    """Columns under one task and head."""
    return [tuple(members) for _, members in groupby(columns, lambda column: (column.top, column.head))]


class _Head(NamedTuple):
    """A head over some LaTeX columns, counted from 1; the rows' names are in the first."""

    text: str
    first: int
    last: int


def _heads(columns: Sequence[Column]) -> dict[str, list[_Head]]:
    """Tasks, groups and, where they say more than these, titles; ``titled`` are the groups with titles below them."""
    places = {column: (2 + CELLS * place, 1 + CELLS * (place + 1)) for place, column in enumerate(columns)}

    def over(text: str, members: Sequence[Column]) -> _Head:
        return _Head(text, places[members[0]][0], places[members[-1]][1])

    by_task = [tuple(members) for _, members in groupby(columns, lambda column: column.top)]
    out: dict[str, list[_Head]] = {"groups": [], "titled": [], "titles": []}
    out["tasks"] = [over(escape(shorten(wording.task_title(members[0].top))), members) for members in by_task]
    for group in _groups(columns):
        arrows = {_ARROWS[column.measure.arrow] for column in group}
        shared = arrows.pop() if len(arrows) == 1 else ""
        out["groups"].append(over(f"{escape(group[0].head)} {shared}".strip(), group))
        if any(_title_lines(column) != [""] for column in group):
            out["titled"].append(out["groups"][-1])
        for column in group:
            out["titles"].append(over(_title(column, "" if shared else _ARROWS[column.measure.arrow]), [column]))
    return out if any(head.text for head in out["titles"]) else {**out, "titles": []}


def _title(column: Column, arrow: str) -> str:
    *first, last = map(escape, _title_lines(column))
    last = f"{last} {arrow}".strip()
    return rf"\begin{{tabular}}[b]{{@{{}}c@{{}}}}{first[0]}\\{last}\end{{tabular}}" if first else last


def _title_lines(column: Column) -> list[str]:
    """The title without what the head above it says already: one line, or two where it is long, cut before a bracket,
    else at the space nearest the middle."""
    title = column.title
    if title.casefold() == column.head.casefold():
        return [""]
    title = shorten(f"{title} {UNITS.get(column.measure.spec.unit, '')}".rstrip())
    spaces = [place for place, character in enumerate(title) if character == " "]
    if len(title) <= TITLE_WIDTH or not spaces:
        return [title]
    brackets = [place for place in spaces if title[place + 1] == "("]
    place = brackets[0] if brackets else min(spaces, key=lambda at: abs(2 * at - len(title)))
    return [title[:place], title[place + 1 :]]


def _sections(page: Page) -> list[dict[str, object]]:
    out = []
    for number, section in enumerate(page.sections):
        shown = [line for line in section.lines if line.kind == "method" or any(map(_says_something, line.entries))]
        lines = [
            {"first_method": line.kind == "method" and place > 0 and shown[place - 1].kind == "reference"}
            | {"cells": _line(page, line)}
            for place, line in enumerate(shown)
        ]
        title = escape(shorten(wording.backbone_title(section.title)))
        out.append({"title": title, "continued": number == 0 and page.continued, "lines": lines})
    return out


def _says_something(entry: Entry) -> bool:
    measured = entry.cell is not None and entry.cell.mean is not None
    return entry.row is not None and (bool(entry.row.diverged) or measured)


def _line(page: Page, line: Line) -> list[str]:
    cells = [escape(shorten(wording.row_title(line.label)))]
    shown = [entry for entry in line.entries if entry.column in page.columns]
    for _, members in groupby(shown, lambda entry: entry.column.top):
        entries = list(members)
        row = entries[0].row
        if row is not None and row.diverged:
            words = rf"\emph{{diverged in {len(row.diverged)} of {len(row.results)} runs}}"
            cells.append(rf"\multicolumn{{{CELLS * len(entries)}}}{{c}}{{{words}}}")
        else:
            cells += [part for entry in entries for part in _cells(entry)]
    return cells


def _cells(entry: Entry) -> tuple[str, str, str]:
    """Mean, spread and signs of an entry."""
    cell, decimals = entry.cell, entry.column.decimals
    if cell is None:
        return "--", "", ""
    if cell.mean is None:
        return "--" if entry.column.measure in RECORDED_COSTS else "n.m.", "", ""
    spread = "" if cell.sd is None else rf"\gubsd{{{wording.bare(wording.fixed(cell.sd, decimals))}}}"
    signs = ""
    # At primary measures alone, as only these carry a claim.
    if entry.column.primary:
        signs = "" if cell.difference is None else _SIGNS.get(cell.difference.verdict, "")
        if cell.equivalence is not None and cell.equivalence.verdict in (Likeness.EQUIVALENT, Likeness.IDENTICAL):
            signs += r"\dagger"
    return _FONTS[cell.mark] % wording.fixed(cell.mean, decimals), spread, f"$^{{{signs}}}$" if signs else ""
