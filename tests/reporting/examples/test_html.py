"""The page of HTML: alone, escaped, readable by eye and by ear, on phones and on paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from genrec_unlearn_bench.reporting.examples.page import Page, render_html
from tests.reporting.html.test_browser_looks import CONTRAST, OVERFLOW

Open = Callable[..., Any]


class Reader(HTMLParser):
    """Elements in order, and the text outside of styles."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.words: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self._style = tag == "style"
        for name, value in attrs:
            assert name not in ("src", "onclick", "onerror", "style")
            assert name != "href" or value == "data:,"

    def handle_data(self, data: str) -> None:
        if not self._style:
            self.words.append(data)


@pytest.fixture(scope="module")
def html(page: Page) -> str:
    return render_html(page)


@pytest.fixture(scope="module")
def odd_html(odd: Page) -> str:
    return render_html(odd)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


def test_nothing_is_fetched_run_or_closed(html: str, odd: Page) -> None:
    assert not re.search(r"https?://|url\(|@import", html)
    assert "default-src 'none'" in html
    text = render_html(odd)
    assert read(text).elements.count("article") == len(odd.examples)
    assert {"script", "b", "a", "img", "link "}.isdisjoint(read(text).elements)
    assert "<script>alert(1)</script>" in read(text).words
    for harm in ("\u202e", "\u2066", "\x1b", "\x07"):
        assert harm not in text


def test_every_place_is_there_and_said_aloud(page: Page, html: str) -> None:
    reader = read(html)
    lists = [shown for example in page.examples for shown in example.lists]
    places = sum(len(shown.items) for shown in lists) + sum(len(example.history) for example in page.examples)
    assert reader.elements.count("li") == places
    marked = [item for shown in lists for item in shown.items] + [
        item for example in page.examples for item in (*example.history, example.target)
    ]
    assert reader.words.count("to be forgotten: ") == sum(item.concept for item in marked)
    assert reader.words.count("the target: ") == sum(item.target for item in marked)
    assert render_html(page) == html


def test_an_example_without_history_or_lists(page: Page) -> None:
    first = page.examples[0]
    empty = tuple(shown.model_copy(update={"items": (), "concept_items": 0}) for shown in first.lists)
    bare = first.model_copy(update={"history": (), "history_length": 0, "lists": empty})
    text = " ".join(read(render_html(page.model_copy(update={"examples": (bare,)}))).words)
    assert "no history" in text
    assert text.count("nothing could be decoded") == 4


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1440])
def test_it_fits_every_screen_with_enough_contrast(
    opened: Open, html: str, odd_html: str, scheme: str, width: int
) -> None:
    with opened(odd_html if scheme == "light" else html, width=width, color_scheme=scheme) as p:
        assert p.evaluate(OVERFLOW) <= 0
        assert p.evaluate(CONTRAST) == []


def test_places_stand_side_by_side_on_a_desk(opened: Open, html: str) -> None:
    with opened(html, width=1440) as p:
        tops = p.evaluate(
            "() => [...document.querySelectorAll('.lists')].map(all => [...all.querySelectorAll('.list')]"
            ".map(one => [...one.querySelectorAll('li')].map(li => Math.round(li.getBoundingClientRect().top))))"
        )
    for lists in tops:
        assert len({tuple(places) for places in lists}) == 1
        assert lists[0] == sorted(set(lists[0]))
