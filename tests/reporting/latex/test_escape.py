"""Escaped text prints itself and nothing else; what has no letter is readable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.reporting.latex_text import escape, label, shorten
from tests.reporting.latex.odd import ODD

ALLOWED = re.compile(
    r"""\\(?:[{}$&\#%_]                                                  # escaped characters
    |text(?:backslash|ascii(?:circum|tilde|grave)|less|greater|bar|quotedbl)\{\}
    |ensuremath\{(?:\\[A-Za-z]+|-)\})""",
    re.VERBOSE,
)


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("a_b", r"a\_b"),
        ("50%", r"50\%"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("#$&{}~^", r"\#\$\&\{\}\textasciitilde{}\textasciicircum{}"),
        ("<script>", r"\textless{}script\textgreater{}"),
        ("\U0001f600", "{[}U+1F600{]}"),
        ("ab\u05d0\u05d1c", "ab{[}U+05D0 05D1{]}c"),
        ("\u202ex", "{[}U+202E{]}x"),
        ("a\x00", "a{[}U+0000{]}"),
        ("e\u0301", "é"),
        ("x\u0301", "x{[}U+0301{]}"),
        ("a--b,,''", "a-{}-b,{},'{}'"),
        ("[a]*", "{[}a{]}{*}"),
        ("Ω ↓", r"\ensuremath{\Omega} \ensuremath{\downarrow}"),
        (" a \n\n b\t", "a b"),
        ("", ""),
    ],
)
def test_known_texts(text: str, tex: str) -> None:
    assert escape(text) == tex


def test_a_long_run_without_letters_is_counted() -> None:
    assert escape("汉" * 20) == "{[}U+" + " ".join(["6C49"] * 12) + " … 8 more{]}"


@given(st.one_of(st.sampled_from(ODD), st.text(), st.text(alphabet="\\{}$&#%_^~[]*`'\",-<>|@/ab \n\x00é")))
def test_nothing_but_known_commands_is_left(text: str) -> None:
    tex = escape(text)
    rest = ALLOWED.sub("X", tex)
    for character in '\\$&#%_^~<>|"`\n\r\t\x00':
        assert character not in rest
    depth = 0
    for character in rest:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert 0 <= depth <= 1
    assert depth == 0
    assert not re.search(r"(?<!\{)[\[\]*]", rest)
    assert "--" not in rest


@given(st.text())
def test_labels_have_safe_characters(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9-]+", label(text))


def test_labels_keep_what_tells_tables_apart() -> None:
    assert label("main-tuned-small-1") == "main-tuned-small-1"
    assert label("a b/c%d") == "a-b-c-d"
    assert label("\u05d0") == "unnamed"


def test_long_names_keep_both_ends() -> None:
    name = "very-" * 40 + "end"
    short = shorten(name)
    assert len(short) == 40
    assert short.startswith("very-very-")
    assert short.endswith("very-end")
    assert shorten("x" * 40) == "x" * 40
