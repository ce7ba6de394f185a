"""Examples as one HTML file, as LaTeX floats and on the terminal.

The HTML loads nothing: styles inside, no script, a policy that forbids both. The terminal shows concept items with a
dagger and the target with a star before their names, and in colour where there is any. The LaTeX is for print without
colour: what is to be forgotten is bold with a dagger, the target italic with a star; both are commands that a document
may define anew. Text is escaped before a template sees it.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import chain

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH
from genrec_unlearn_bench.reporting.examples.page import CONCEPT, TARGET, Item, Page, ShownList, clipped, split
from genrec_unlearn_bench.reporting.formats.terminal import print_sentences, rendered
from genrec_unlearn_bench.reporting.html_page import html_environment
from genrec_unlearn_bench.reporting.latex_tables import template
from genrec_unlearn_bench.reporting.latex_text import escape, label, shorten
from genrec_unlearn_bench.reporting.wording import leaderboard_text, visible

WIDTH = 90
"""Characters of a title on the page of HTML."""
PACKAGES = ("array", "booktabs", "adjustbox")
"""What a LaTeX document has to load."""
SIDE_BY_SIDE = 4
"""Lists in one tabular; further ones go below them, as their names would be broken into syllables."""
CHARACTERS = 190
"""Of the names of one line of lists, roughly two printed lines each."""
LONG = 110
"""Characters of a name that has a line to itself."""
WORD = 12
"""Characters of a word that fits every column; longer ones may be broken, unless TeX knows their syllables."""


def render_html(page: Page) -> str:
    """The whole page. The same page gives the same bytes."""
    environment = html_environment()
    environment.filters["visible"] = visible
    made = environment.from_string(leaderboard_text("templates", "examples", "page.html.j2"))
    style = leaderboard_text("templates", "examples", "style.css")
    return made.render(page=page, concept=CONCEPT, target=TARGET, clipped=clipped, width=WIDTH, style=style)


def render_latex(page: Page, *, standalone: bool = False) -> str:
    """One float an example; with ``standalone`` a document that compiles by itself. The same page, the same bytes."""
    return template("examples.tex").render(
        page=page,
        notes=" ".join(map(escape, page.notes)),
        name=label(f"{page.task}-{page.backbone}-{page.scale}-seed{page.seed}"),
        tex=escape,
        breakable=_words,
        named=_named,
        shorten=shorten,
        split=split,
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
    return " ".join(map(_word, text.split()))


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
FIRST, SIGNS, EDGES, GAP = 10, 3, 2, 2
"""Columns of the row heads, of the signs before a name, of the frame of a table, and between two columns."""
LINES = 2
"""Of a name; what is longer ends in an ellipsis."""


def draw(console: Console, page: Page) -> None:
    """Print the page."""
    console.print(Text(visible(page.title), style="bold"))
    print_sentences(console, (*page.notes, f"{CONCEPT} to be forgotten, {TARGET} the target"))
    for example in page.examples:
        console.print(Text(f"\n{visible(example.heading)}", style="bold"))
        console.print(Text(f"  {example.history_heading}"))
        for head, item in (*(("    ", item) for item in example.history), ("  Target: ", example.target)):
            line = Text(head).append(f"{_signs(item):<{SIGNS}}{_name(item)}", style=_style(item))
            line.truncate(console.width, overflow="ellipsis")
            console.print(line, no_wrap=True)
        for part in split(example.lists, max(1, (console.width - FIRST - EDGES) // (NARROWEST + GAP))):
            console.print(_grid(console, page, part))


def render_terminal(page: Page) -> str:
    """The same as plain text of 120 columns."""
    return rendered(lambda console: draw(console, page))


def _grid(console: Console, page: Page, lists: Sequence[ShownList]) -> Table:
    room = max((console.width - FIRST - EDGES) // len(lists) - SIGNS - GAP, 4)
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=False)
    grid.add_column("", no_wrap=True, width=FIRST)
    for shown in lists:
        grid.add_column("", no_wrap=True, width=SIGNS)
        grid.add_column(Text(visible(shown.label)), width=room + GAP)
    for place in range(LIST_LENGTH):
        items = (shown.items[place] if place < len(shown.items) else None for shown in lists)
        cells = chain.from_iterable(_cells(console, item, room) for item in items)
        grid.add_row(Text(f"{place + 1:>{FIRST - GAP - 1}}"), *cells)
    grid.add_section()
    summaries = [page.summary(shown) for shown in lists]
    for head in summaries[0]:
        grid.add_row(Text(head), *chain.from_iterable((Text(""), Text(one[head])) for one in summaries))
    return grid


def _cells(console: Console, item: Item | None, room: int) -> tuple[Text, Text]:
    """Signs, and a name in at most ``LINES`` lines of ``room`` columns; a dash below the end of a list."""
    if item is None:
        return Text(""), Text("–")
    whole = list(Text(_name(item), style=_style(item)).wrap(console, room))
    lines = whole[:LINES]
    if len(whole) > LINES:
        lines[-1].truncate(room - 1)
        lines[-1].rstrip()
        lines[-1].append("…")
    return Text(_signs(item), style=_style(item)), Text("\n").join(lines)


def _signs(item: Item) -> str:
    return (CONCEPT if item.concept else " ") + (TARGET if item.target else " ")


def _name(item: Item) -> str:
    return visible(item.name if item.id is None else f"{item.id} {item.name}")


def _style(item: Item) -> str:
    return "bold red" if item.concept else "bold green" if item.target else ""
