"""Examples as one HTML file and as LaTeX floats.

The HTML asks nobody for anything: styles inside, no script, a policy that lets nothing in. The LaTeX is for print
without colour: what is to be forgotten is bold with a dagger, the target italic with a star; both are commands that a
document may define anew. Text is escaped before a template sees it.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence

from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH
from genrec_unlearn_bench.reporting.examples import page as words
from genrec_unlearn_bench.reporting.examples.page import Example, Item, Page, ShownList, clipped, split
from genrec_unlearn_bench.reporting.formats.escaping import visible
from genrec_unlearn_bench.reporting.html.render import html_environment, inline_hash, template_file, trusted
from genrec_unlearn_bench.reporting.latex.escape import escape, label, shorten
from genrec_unlearn_bench.reporting.latex.render import template

__all__ = ["PACKAGES", "render_html", "render_latex"]

WIDTH = 90
"""Characters of a title."""


def render_html(page: Page) -> str:
    """The whole page. The same page gives the same bytes."""
    style = template_file("examples", "style.css")
    environment = html_environment()
    environment.filters["visible"] = visible
    return environment.from_string(template_file("examples", "page.html.j2")).render(
        page=page,
        words=words,
        clipped=clipped,
        width=WIDTH,
        style=trusted(style),
        style_hash=inline_hash(style),
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
    name = label(f"{page.task}-{page.backbone}-{page.scale}-seed{page.seed}")
    floats = [_float(page, example, name) for example in page.examples]
    return template("examples.tex").render(packages=PACKAGES, floats=floats, standalone=standalone)


def _float(page: Page, example: Example, name: str) -> dict[str, object]:
    place = f"{page.task}, {page.backbone}, {page.scale}"
    key = f"tab:example-{name}"
    notes = [r"\textsuperscript{\textdagger}\,to be forgotten; \textsuperscript{*}\,the target."]
    if example is page.examples[0]:
        notes += [escape(note) for note in words.notes(page)]
    else:
        notes.append(rf"Further notes: Table~\ref{{{key}-1}}.")
    return {
        "short": escape(f"{words.heading(example)} ({place})"),
        "caption": f"{escape(words.heading(example))} ({escape(place)}). Target: {_named(example.target, LONG)}.",
        "label": f"{key}-{example.number}",
        "past": escape(words.past(example) if example.history_length else words.EMPTY_HISTORY.capitalize()),
        "history": tuple((place, _named(item, LONG)) for place, item in enumerate(example.history, start=1)),
        "parts": tuple(_part(page, lists) for lists in split(example.lists, SIDE_BY_SIDE)),
        "notes": " ".join(notes),
    }


def _part(page: Page, lists: Sequence[ShownList]) -> dict[str, object]:
    room = CHARACTERS // len(lists)

    def line(head: str, cell: Callable[[ShownList], str]) -> str:
        return " & ".join([head, *(cell(shown) for shown in lists)])

    def at(place: int) -> Callable[[ShownList], str]:
        return lambda shown: _named(shown.items[place], room) if place < len(shown.items) else "--"

    longest = max(LIST_LENGTH, *(len(shown.items) for shown in lists))
    return {
        "columns": len(lists),
        "head": " & ".join(rf"\textbf{{{_words(shorten(shown.label))}}}" for shown in lists),
        "lines": tuple(line(str(place + 1), at(place)) for place in range(longest)),
        "sums": (
            line("To forget", lambda shown: words.concept_items(shown)),
            line("Target at", lambda shown: escape(words.target_place(shown, page))),
            line("Changed", lambda shown: escape(words.change(shown))),
        ),
    }


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
    if short or all(part.isascii() and part.isalpha() and len(part) <= 2 * WORD for part in _parts_of(word)):
        return whole
    return r"\allowbreak{}".join(escape(word[start : start + WORD // 2]) for start in range(0, len(word), WORD // 2))


def _parts_of(word: str) -> list[str]:
    """What TeX hyphenates of a word by itself: what stands between hyphens, without punctuation around the whole."""
    return word.strip(string.punctuation).split("-")
