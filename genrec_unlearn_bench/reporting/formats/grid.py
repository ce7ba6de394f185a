"""Tables drawn with rich; one that is wider than the screen is cut into parts which repeat the names.

Text from outside is shown character by character: no markup, no escape sequence, no change of direction gets through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from genrec_unlearn_bench.reporting.wording import visible

LABEL = 48
"""Columns of the screen that a name may take before it is folded; at most half of the screen."""
GAP = 2
"""Columns of the screen between two columns of a table."""


@dataclass(frozen=True)
class GridRow:
    """One row, with names in the columns that every part repeats; ``section``: a new one begins with it."""

    names: Sequence[str]
    cells: Sequence[Text | str]
    style: str = ""
    section: bool = False


@dataclass(frozen=True)
class WideGrid:
    """A table of numbers that rich prints in as many parts as the width asks for, cut between groups where it can.

    Every part repeats the columns ``names``; ``heads`` are group and title of the others.
    """

    names: Sequence[str]
    heads: Sequence[tuple[str, str]]
    rows: Sequence[GridRow]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width, label = options.max_width, min(LABEL, options.max_width // 2)
        cells = [[_text(cell) for cell in row.cells] for row in self.rows]
        widths = [
            max(len(group), len(title), *(row[i].cell_len for row in cells if row))
            for i, (group, title) in enumerate(self.heads)
        ]
        named = [
            max(len(title), *(_text(row.names[i]).cell_len for row in self.rows if i < len(row.names)))
            for i, title in enumerate(self.names)
        ]
        used = 2 + sum(min(each, label) + GAP for each in named)
        for begin, end in self._parts(widths, width - used):
            grid = empty_grid()
            for i, title in enumerate(self.names):
                grid.add_column(f"\n{title}", justify="right" if i else "left", overflow="fold", max_width=label)
            for head in self.heads[begin:end]:
                grid.add_column(_text("\n".join(map(visible, head))), justify="right", no_wrap=True)
            for place, (row, line) in enumerate(zip(self.rows, cells, strict=True)):
                if place and row.section:
                    grid.add_section()
                names = [_text(name) for name in (*row.names, *[""] * (len(self.names) - len(row.names)))]
                grid.add_row(*names, *line[begin:end], style=row.style)
            yield grid

    def _parts(self, widths: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
        """First and last column of each part; a group is cut only where it is wider than the room by itself."""
        begin = end = used = 0
        for _, members in groupby(range(len(widths)), key=lambda i: self.heads[i][0]):
            group = list(members)
            total = sum(widths[i] + GAP for i in group)
            for i in group:
                starts_group = i == group[0] and used + total - GAP > room >= total - GAP
                if end > begin and (starts_group or used + widths[i] > room):
                    yield begin, end
                    begin, used = end, 0
                end, used = i + 1, used + widths[i] + GAP
        if end > begin:
            yield begin, end


def empty_grid() -> Table:
    """A table without columns, as all tables on the terminal look."""
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def plain_grid(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> Table:
    """A table of text; the first ``left`` columns stand left, the others right."""
    grid = empty_grid()
    for place, head in enumerate(heads):
        grid.add_column(head, justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        grid.add_row(*map(_text, row))
    return grid


def print_sentences(console: Console, sentences: Iterable[str]) -> None:
    """Print sentences, each a paragraph that is set in by two columns."""
    for sentence in sentences:
        console.print(Padding(_text(sentence), (0, 0, 0, 2)))


def _text(text: Text | str) -> Text:
    return text if isinstance(text, Text) else Text("\n".join(map(visible, text.split("\n"))))
