"""The table that stands in the page before any script runs: what archives, text browsers and search engines see."""

from __future__ import annotations

from dataclasses import dataclass

from genrec_unlearn_bench.reporting.formats.cells import line_label, show
from genrec_unlearn_bench.reporting.formats.notes import notes
from genrec_unlearn_bench.reporting.tables import Table

__all__ = ["StaticTable", "static_table"]


@dataclass(frozen=True)
class StaticTable:
    """A table as plain text.

    Attributes:
        heads: Head and number of its columns.
        lines: Label, whether it is a reference row, and (number, what stands behind it, mark) by column.
    """

    caption: str
    heads: tuple[tuple[str, int], ...]
    columns: tuple[tuple[str, str], ...]
    lines: tuple[tuple[str, bool, tuple[tuple[str, str, str], ...]], ...]
    notes: tuple[str, ...]


def static_table(table: Table) -> StaticTable:
    """The first section of a table."""
    heads: list[tuple[str, int]] = []
    for column in table.columns:
        if heads and heads[-1][0] == column.head:
            heads[-1] = (column.head, heads[-1][1] + 1)
        else:
            heads.append((column.head, 1))
    section = table.sections[0]
    lines = []
    for line in section.lines:
        parts = [show(entry) for entry in line.entries]
        cells = tuple((part.number, part.tail, part.mark.value) for part in parts)
        lines.append((line_label(line), line.kind == "reference", cells))
    where = f"{', '.join(table.tasks)} · {section.title} · {table.scale} · {table.ruleset}"
    return StaticTable(
        caption=f"{table.title}: {where}",
        heads=tuple(heads),
        columns=tuple((column.title, column.measure.arrow) for column in table.columns),
        lines=tuple(lines),
        notes=notes(table, second="underlined"),
    )
