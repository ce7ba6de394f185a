"""Examples on the terminal, drawn with rich: one line a place, a column a run.

Concept items carry a dagger and the target a star before their names, and colour where there is colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.evaluation.user_block import LIST_LENGTH
from genrec_unlearn_bench.reporting.examples import words
from genrec_unlearn_bench.reporting.examples.page import Item, Page, ShownList
from genrec_unlearn_bench.reporting.formats.escaping import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

__all__ = ["draw", "render_terminal"]

WIDTH = 120
"""Of text that goes into a file."""
NARROWEST = 24
"""Columns of the screen below which a name says too little; then lists go below each other in several tables."""
FIRST = 13
"""Columns of the row heads."""
GAP = 2


def draw(console: Console, page: Page) -> None:
    """Print the page."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(visible(page.title), style="bold"))
    _say(console, (*words.notes(page), f"{words.CONCEPT} to be forgotten, {words.TARGET} the target"))
    for example in page.examples:
        console.print()
        console.print(Text(visible(words.heading(example)), style="bold"))
        console.print(Text(f"  {words.past(example) if example.history_length else words.EMPTY_HISTORY}"))
        for item in example.history:
            console.print(Padding(_named(item, console.width - 4), (0, 0, 0, 4)), no_wrap=True)
        target = Text("  Target: ")
        target.append_text(_named(example.target, console.width - 10))
        console.print(target, no_wrap=True)
        for part in _parts(example.lists, console.width):
            console.print(_grid(page, part, console.width))


def render_terminal(page: Page) -> str:
    """The same as plain text of 120 columns."""
    import io

    from rich.console import Console

    out = io.StringIO()
    # Neither the environment nor the terminal at hand may change the bytes.
    console = Console(
        file=out, width=WIDTH, color_system=None, force_terminal=False, highlight=False, markup=False, _environ={}
    )
    draw(console, page)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _parts(lists: Sequence[ShownList], width: int) -> list[Sequence[ShownList]]:
    """The lists in as few tables as leave each a readable column; all of about one width."""
    most = max(1, (width - FIRST) // (NARROWEST + GAP))
    tables = -(-len(lists) // most)
    size = -(-len(lists) // tables)
    return [lists[start : start + size] for start in range(0, len(lists), size)]


def _grid(page: Page, lists: Sequence[ShownList], width: int) -> Grid:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    room = max((width - FIRST) // len(lists) - GAP, 4)
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    grid.add_column("", no_wrap=True, min_width=FIRST - GAP)
    for shown in lists:
        grid.add_column(Text(visible(shown.label)), no_wrap=True, min_width=room, max_width=room)
    for place in range(max(LIST_LENGTH, *(len(shown.items) for shown in lists))):
        cells = [_named(shown.items[place], room) if place < len(shown.items) else Text("–") for shown in lists]
        grid.add_row(Text(str(place + 1), justify="right"), *cells)
    grid.add_section()
    for head, cell in (
        ("to forget", words.concept_items),
        ("target at", lambda shown: words.target_place(shown, page)),
        ("changed", words.change),
    ):
        grid.add_row(Text(head), *(Text(cell(shown)) for shown in lists))
    return grid


def _named(item: Item, room: int) -> Text:
    """Signs and name in at most ``room`` columns of the screen."""
    from rich.text import Text

    style = "bold red" if item.concept else "bold green" if item.target else ""
    signs = (words.CONCEPT if item.concept else " ") + (words.TARGET if item.target else " ")
    known = "" if item.id is None else f"{item.id} "
    text = Text(f"{signs} {visible(known + item.name)}", style=style)
    text.truncate(room, overflow="ellipsis")
    return text


def _say(console: Console, sentences: Sequence[str]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    for sentence in sentences:
        console.print(Padding(Text(visible(sentence)), (0, 0, 0, 2)))
