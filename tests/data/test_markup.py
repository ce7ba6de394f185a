"""Scraped text comes out readable, and nothing that a scraper can write takes long."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.data.fields import looks_like_code, plain


@pytest.mark.parametrize(
    ("scraped", "readable"),
    [
        ('<span class="a-size-medium a-color-secondary"', ""),
        ("F&amp;amp;W Publications", "F&W Publications"),
        ("T&Uuml;RLEN", "TÜRLEN"),
        ("&lt;i&gt;Maximum&lt;/i&gt; PC", "Maximum PC"),
        ("<b>2&#34;</b> pipe", '2" pipe'),
        ('Industrial & Scientific" />', "Industrial & Scientific"),
        ("AT&T, Black&notable &co", "AT&T, Black&notable &co"),
        ("a < b and c > d", "a < b and c > d"),
        ("one<script>var x = 1;</script>two<style>p{}</style>three<!-- four", "one two three"),
        ("  two \n\t lines ", "two lines"),
        ("bell\x07 and \x1b[31mred", "bell and [31mred"),
        ("half a pair \ud83d", "half a pair ?"),
        ("Cafe\u0301", "Café"),
    ],
)
def test_readable(scraped: str, readable: str) -> None:
    assert plain(scraped) == readable


@given(st.text())
def test_always_storable_on_one_line(text: str) -> None:
    readable = plain(text)
    readable.encode()
    assert readable == " ".join(readable.split())
    assert not any(ord(character) < 32 for character in readable)


@pytest.mark.parametrize(
    "text",
    [".a-section { margin: 0 }", "function() { return 1; }", "var aPageStart = 3", "p.x{color:red}", "#id .b {"],
)
def test_code_is_recognised(text: str) -> None:
    assert looks_like_code(text)


@pytest.mark.parametrize(
    "text", ["Smith & Wesson", "Tool {Set of 3}", "B.E.S.T.", "#1 Fan", "Variety Pack", ".22 ammo"]
)
def test_names_are_no_code(text: str) -> None:
    assert not looks_like_code(text)


@pytest.mark.parametrize(
    "text",
    ["<script " * 20_000, "<!--" * 30_000, "{" + ":" * 100_000, "<a b=" * 20_000, '"' * 50_000 + ">", "&amp;" * 20_000],
)
def test_linear_in_the_text(text: str) -> None:
    start = time.process_time()
    plain(text)
    looks_like_code(text)
    assert time.process_time() - start < 1.0
