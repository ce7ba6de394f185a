"""A table cut into floats that fit a page: side by side where it is too wide, below each other where it is too long.

Floats and not longtable: longtable stops in two-column classes, which most venues use, and cannot be scaled to the
width of a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from genrec_unlearn_bench.reporting.latex.columns import groups_of, width_of_column
from genrec_unlearn_bench.reporting.tables import Column, Entry, Line, Section, Table

LINES = 50
"""Lines of one float; scaled down, these and their notes fit a page."""
WIDEST = 190.0
"""Characters of one float. At a text width of 400 pt this many are set at half the size of the text around."""
LABEL = 24.0


@dataclass(frozen=True, eq=False)
class Page:
    """One float of a table.

    Attributes:
        width: Characters of its lines, roughly.
        sections: With all of the table's entries; ``columns`` says which are shown.
        continued: Whether the first section began on an earlier page.
        number, total: 1, 1 where the table is in one piece.
    """

    columns: tuple[Column, ...]
    width: float
    sections: tuple[Section, ...]
    continued: bool
    number: int
    total: int

    def entries(self, line: Line) -> tuple[Entry, ...]:
        """Entries of a line that are on this page."""
        return tuple(entry for entry in line.entries if entry.column in self.columns)


def pages_of(table: Table) -> tuple[Page, ...]:
    """The floats of a table, the lines of one part of its columns after the other."""
    widths = {
        column: width_of_column(column, (line.entries[place] for section in table.sections for line in section.lines))
        for place, column in enumerate(table.columns)
    }
    wide, widest = _wide_parts(table.columns, widths, WIDEST), WIDEST
    # As many parts as are needed, and these of about one width.
    while len(narrower := _wide_parts(table.columns, widths, widest - 4.0)) == len(wide) > 1:
        wide, widest = narrower, widest - 4.0
    parts = [(part, rows) for part in wide for rows in _long_parts(table.sections)]
    return tuple(
        Page(columns, LABEL + sum(widths[column] for column in columns), sections, continued, number, len(parts))
        for number, (columns, (sections, continued)) in enumerate(parts, start=1)
    )


def _wide_parts(columns: Sequence[Column], widths: Mapping[Column, float], widest: float) -> list[tuple[Column, ...]]:
    """Columns in as few parts as are narrow enough, cut between groups where a group is not too wide by itself."""
    parts: list[list[Column]] = [[]]
    used = LABEL
    for group in groups_of(columns):
        whole = sum(widths[column] for column in group)
        for place, column in enumerate(group):
            if parts[-1] and used + (whole if place == 0 else widths[column]) > widest:
                parts.append([])
                used = LABEL
            parts[-1].append(column)
            used += widths[column]
    return [tuple(part) for part in parts]


def _long_parts(sections: Sequence[Section]) -> list[tuple[tuple[Section, ...], bool]]:
    """Sections in as few parts as are short enough, each with whether its first section goes on from the last part."""
    parts: list[tuple[list[Section], bool]] = [([], False)]
    room = LINES
    for section in sections:
        lines = section.lines
        if parts[-1][0] and len(lines) > room:
            parts.append(([], False))
            room = LINES
        while lines:
            taken, lines = lines[:room], lines[room:]
            parts[-1][0].append(Section(section.title, taken))
            room -= len(taken)
            if lines:
                parts.append(([], True))
                room = LINES
    return [(tuple(members), continued) for members, continued in parts]
