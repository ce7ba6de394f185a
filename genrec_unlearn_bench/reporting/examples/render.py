"""Examples as one HTML file, as LaTeX floats and on the terminal.

The HTML loads nothing: styles inside, no script, a policy that forbids both. The terminal shows concept items with a
dagger and the target with a star before their names, and in colour where there is any. The LaTeX is for print without
colour: what is to be forgotten is bold with a dagger, the target italic with a star; both are commands that a document
may define anew. Text is escaped before a template sees it.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH
from genrec_unlearn_bench.reporting.examples import page as words
from genrec_unlearn_bench.reporting.examples.page import Item, Page, ShownList, clipped, split
from genrec_unlearn_bench.reporting.formats.terminal import print_sentences, rendered
from genrec_unlearn_bench.reporting.html_page import html_environment
from genrec_unlearn_bench.reporting.latex_tables import template
from genrec_unlearn_bench.reporting.latex_text import escape, label, shorten
from genrec_unlearn_bench.reporting.wording import leaderboard_text, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

WIDTH = 90
"""Characters of a title."""


def render_html(page: Page) -> str:
    """The whole page. The same page gives the same bytes."""
    environment = html_environment()
    environment.filters["visible"] = visible
    return environment.from_string(leaderboard_text("templates", "examples", "page.html.j2")).render(
        page=page,
        words=words,
        clipped=clipped,
        width=WIDTH,
        style=leaderboard_text("templates", "examples", "style.css"),
    )


PACKAGES = ("array", "booktabs", "adjustbox")
"""What a document has to load."""
SIDE_BY_SIDE = 4
"""Lists in one tabular; further ones go below them, as their names would be broken into syllables."""
CHARACTERS = 190
"""Of the names of one line of lists, roughly two printed lines each."""
LONG = 110
"""Characters of a name that has a line to itself."""
WORD = 12
"""Characters of a word that fits every column; longer ones may be broken, unless TeX knows their syllables."""


def render_latex(page: Page, *, standalone: bool = False) -> str:
    """One float an example; with ``standalone`` a document that compiles by itself. The same page, the same bytes."""
    return template("examples.tex").render(
        page=page,
        words=words,
        notes=" ".join(map(escape, words.notes(page))),
        name=label(f"{page.task}-{page.backbone}-{page.scale}-seed{page.seed}"),
        tex=escape,
        breakable=_words,
        named=_named,
        shorten=shorten,
        length=LIST_LENGTH,
        side_by_side=SIDE_BY_SIDE,
        characters=CHARACTERS,
        long=LONG,
        packages=PACKAGES,
        standalone=standalone,
    )


def _named(item: Item, room: int) -> str:
    """TeX of a name with its marks."""
    text = _words(clipped(item.name if item.id is None else f"{item.name} ({item.id})", room))
    if item.target:
        text = rf"\gubtarget{{{text}}}"
    return rf"\gubconcept{{{text}}}" if item.concept else text


def _words(text: str) -> str:
    """TeX of a text whose long words can be broken: model numbers and addresses have no syllables."""
    return " ".join(_word(word) for word in text.split())


def _word(word: str) -> str:
    whole = escape(word)
    # What has no letter is printed as its code, so that a short word may still be long.
    short = len(word) <= WORD and len(whole) <= 2 * WORD
    # TeX hyphenates what stands between hyphens, without punctuation around the whole.
    parts = word.strip(string.punctuation).split("-")
    if short or all(part.isascii() and part.isalpha() and len(part) <= 2 * WORD for part in parts):
        return whole
    return r"\allowbreak{}".join(escape(word[start : start + WORD // 2]) for start in range(0, len(word), WORD // 2))


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
    for place in range(LIST_LENGTH):
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
