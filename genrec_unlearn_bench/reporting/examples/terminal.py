"""Examples on the terminal, drawn with rich: a line or two a place, a column a run.

Concept items carry a dagger and the target a star before their names, and colour where there is colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH
from genrec_unlearn_bench.reporting.examples import page as words
from genrec_unlearn_bench.reporting.examples.page import Item, Page, ShownList, split
from genrec_unlearn_bench.reporting.formats.escaping import visible
from genrec_unlearn_bench.reporting.formats.terminal import print_sentences, rendered

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

__all__ = ["draw", "render_terminal"]

NARROWEST = 20
"""Columns of the screen below which a name says too little; then lists go below each other in several tables."""
FIRST = 10
"""Columns of the row heads."""
SIGNS = 3
"""Columns of the signs before a name."""
EDGES = 2
"""What the frame of a table takes."""
GAP = 2
LINES = 2
"""Of a name; what is longer ends in an ellipsis."""


def draw(console: Console, page: Page) -> None:
    """Print the page."""
    from rich.text import Text

    console.print(Text(visible(page.title), style="bold"))
    print_sentences(console, (*words.notes(page), f"{words.CONCEPT} to be forgotten, {words.TARGET} the target"))
    for example in page.examples:
        console.print()
        console.print(Text(visible(words.heading(example)), style="bold"))
        console.print(Text(f"  {words.past(example) if example.history_length else words.EMPTY_HISTORY}"))
        for item in example.history:
            console.print(_line("    ", item, console.width), no_wrap=True)
        console.print(_line("  Target: ", example.target, console.width), no_wrap=True)
        for part in split(example.lists, max(1, (console.width - FIRST - EDGES) // (NARROWEST + GAP))):
            console.print(_grid(console, page, part))


def render_terminal(page: Page) -> str:
    """The same as plain text of 120 columns."""
    return rendered(lambda console: draw(console, page))


def _grid(console: Console, page: Page, lists: Sequence[ShownList]) -> Grid:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    room = max((console.width - FIRST - EDGES) // len(lists) - SIGNS - GAP, 4)
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=False)
    grid.add_column("", no_wrap=True, width=FIRST)
    for shown in lists:
        grid.add_column("", no_wrap=True, width=SIGNS)
        grid.add_column(Text(visible(shown.label)), width=room + GAP)
    for place in range(max(LIST_LENGTH, *(len(shown.items) for shown in lists))):
        cells = [
            cell
            for shown in lists
            for cell in (
                _cells(console, shown.items[place], room) if place < len(shown.items) else (Text(""), Text("–"))
            )
        ]
        grid.add_row(Text(f"{place + 1:>{FIRST - GAP - 1}}"), *cells)
    grid.add_section()
    for head, cell in (
        ("to forget", words.concept_items),
        ("target at", lambda shown: words.target_place(shown, page)),
        ("changed", words.change),
    ):
        grid.add_row(Text(head), *(part for shown in lists for part in (Text(""), Text(cell(shown)))))
    return grid


def _cells(console: Console, item: Item, room: int) -> tuple[Text, Text]:
    """Signs, and a name in at most ``LINES`` lines of ``room`` columns."""
    from rich.text import Text

    whole = list(Text(_name(item), style=_style(item)).wrap(console, room))
    lines = whole[:LINES]
    if len(whole) > LINES:
        lines[-1].truncate(room - 1)
        lines[-1].rstrip()
        lines[-1].append("…")
    return Text(_signs(item), style=_style(item)), Text("\n").join(lines)


def _line(head: str, item: Item, width: int) -> Text:
    """Signs and name on one line of the screen."""
    from rich.text import Text

    line = Text(head)
    line.append(f"{_signs(item):<{SIGNS}}{_name(item)}", style=_style(item))
    line.truncate(width, overflow="ellipsis")
    return line


def _signs(item: Item) -> str:
    return (words.CONCEPT if item.concept else " ") + (words.TARGET if item.target else " ")


def _name(item: Item) -> str:
    return visible(item.name if item.id is None else f"{item.id} {item.name}")


def _style(item: Item) -> str:
    return "bold red" if item.concept else "bold green" if item.target else ""
