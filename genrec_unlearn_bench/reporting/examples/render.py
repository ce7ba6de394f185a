"""Examples on the terminal and as one HTML file, which loads nothing: styles inside, no script.

On the terminal, concept items have a dagger and the target a star before their names, and a colour where there is any.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH
from genrec_unlearn_bench.reporting.examples.page import CONCEPT, TARGET, Item, Page, ShownList, clipped
from genrec_unlearn_bench.reporting.formats.grid import print_sentences
from genrec_unlearn_bench.reporting.html_page import html_environment
from genrec_unlearn_bench.reporting.wording import leaderboard_text, visible

WIDTH = 90
"""Characters of a title on the page of HTML."""
NARROWEST, HEADS = 24, 10
"""Columns of the screen that a list needs, below which lists stand in several tables; and those of the row heads."""


def render_html(page: Page) -> str:
    """The whole page. The same page gives the same bytes."""
    environment = html_environment()
    environment.filters["visible"] = visible
    made = environment.from_string(leaderboard_text("templates", "examples", "page.html.j2"))
    style = leaderboard_text("templates", "examples", "style.css")
    return made.render(page=page, concept=CONCEPT, target=TARGET, clipped=clipped, width=WIDTH, style=style)


def render_json(page: Page) -> str:
    """What ``--json`` prints."""
    return json.dumps(page.model_dump(mode="json"), indent=2) + "\n"


def draw(console: Console, page: Page) -> None:
    """Print the page."""
    console.print(Text(visible(page.title), style="bold"))
    print_sentences(console, (*page.notes, f"{CONCEPT} to be forgotten, {TARGET} the target"))
    most = max(1, (console.width - HEADS) // NARROWEST)
    for example in page.examples:
        console.print(Text(f"\n{visible(example.heading)}", style="bold"))
        console.print(Text(f"  {example.history_heading}"))
        for head, item in (*(("    ", item) for item in example.history), ("  Target: ", example.target)):
            console.print(Text(head) + _name(item, console.width - len(head)), no_wrap=True)
        for start in range(0, len(example.lists), most):
            console.print(_grid(page, example.lists[start : start + most], console.width))


def _grid(page: Page, lists: Sequence[ShownList], width: int) -> Table:
    room = (width - HEADS) // len(lists) - 2
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column("", no_wrap=True)
    for shown in lists:
        grid.add_column(Text(visible(shown.label)), width=room)
    for place in range(LIST_LENGTH):
        items = [shown.items[place] if place < len(shown.items) else None for shown in lists]
        # Two lines of a name, about.
        grid.add_row(Text(f"{place + 1:>3}"), *(_name(item, 2 * room - 4) if item else Text("–") for item in items))
    grid.add_section()
    summaries = [page.summary(shown) for shown in lists]
    for head in summaries[0]:
        grid.add_row(Text(head), *(Text(one[head]) for one in summaries))
    return grid


def _name(item: Item, room: int) -> Text:
    """Signs and a name in about as many columns as there are."""
    signs = CONCEPT * item.concept + TARGET * item.target
    text = clipped(visible(item.name if item.id is None else f"{item.id} {item.name}"), room - 3)
    return Text(f"{signs} {text}".strip(), style="bold red" if item.concept else "bold green" if item.target else "")
