"""Markdown: golden files of every layout; names that would format, link or compute arrive as text."""

from __future__ import annotations

import re

import pytest

from genrec_unlearn_bench.reporting.across import across
from genrec_unlearn_bench.reporting.formats.markdown import render_markdown
from genrec_unlearn_bench.reporting.protocol import layouts
from genrec_unlearn_bench.reporting.reported import reported_comparisons
from genrec_unlearn_bench.reporting.wording import markdown_text, visible
from tests.reporting.boards import make_records, make_synthetic_tables
from tests.reporting.golden_files import golden
from tests.reporting.odd_names import ODD, odd_tables


@pytest.mark.parametrize("layout", list(layouts(1)))
def test_every_layout_gives_its_golden_file(layout: str) -> None:
    tables = make_synthetic_tables(layout)
    text = render_markdown(tables, across=across(tables[0].analysis), reported=reported_comparisons(tables))
    assert text == golden(text, f"markdown-{layout}.md")


def test_every_row_of_a_grid_has_the_cells_of_its_head() -> None:
    for tables in (make_synthetic_tables("main"), odd_tables()):
        for grid in re.findall(r"(?:^\|.*\n)+", render_markdown(tables), flags=re.MULTILINE):
            counts = {len(re.findall(r"(?<!\\)\|", line)) for line in grid.splitlines()}
            assert len(counts) == 1


def test_best_is_bold_second_italic_and_references_are_neither() -> None:
    text = render_markdown(make_synthetic_tables("main", make_records(tasks=("a-brand",), backbones=("tiger",))))
    assert re.search(r"^\| tracer \| \*\*0\.\d{4}\*\* ± |^\| tracer \| _0\.\d{4}_ ± ", text, flags=re.MULTILINE)
    for line in text.splitlines():
        if "(ref.)" in line:
            assert "**" not in line
            assert "_0" not in line


def test_what_is_said_below_is_there() -> None:
    text = render_markdown(make_synthetic_tables("main"))
    for part in (
        "Protocol 1, statistics 4",
        "α = 0.05",
        "Primary measures: forget HR@10 and retain NDCG@10",
        "16 to 18 tests against original; 56 to 72 tests among all pairs of methods",
        "standard deviation over 5 seeds.",
        "Fewer seeds: rmu on sports-brand with tiger (4 of 5).",
        "and without a mean: grad-ascent on industrial-brand with letter (1 of 5)",
        "n/a: not measured",
        "–: not run",
    ):
        assert part in text


def test_one_seed_is_called_underpowered_with_the_least_p() -> None:
    text = render_markdown(make_synthetic_tables("main", make_records(seeds=(0,))))
    assert "with 1 shared seed; the smallest attainable p, before correction, is 1" in text
    assert "n=1" in text


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_text(name: str) -> None:
    shown = markdown_text(name)
    assert "<" not in shown
    assert not re.search(r"(?<!\\)[|`*_\[\]$~#]", re.sub(r"&#?\w+;", "", shown))
    assert "://" not in shown
    assert "\n" not in shown
    assert not re.search(r"(?<!\w)@", shown)
    assert not set(shown) & set("\u202e\u2066\u200f\x1b\x00\x07")


def test_odd_names_do_not_leave_their_cells() -> None:
    text = render_markdown(odd_tables())
    for name in ODD:
        if name.strip():
            assert markdown_text(name) in text
    assert "<script" not in text
    assert "\x1b" not in text


def test_visible_keeps_what_scripts_need_and_shows_what_steers() -> None:
    assert visible("Ünïcode 中文 עברית 🧪") == "Ünïcode 中文 עברית 🧪"
    assert visible("👩\u200d🔬") == "👩\u200d🔬"
    assert visible("a\u202eb") == "a⟨U+202E⟩b"
    assert visible("a\u200db") == "a⟨U+200D⟩b"
    assert visible("\x1b[31mred") == "⟨U+001B⟩[31mred"
    assert visible("two\nlines\tand") == "two lines and"


def test_the_same_tables_give_the_same_bytes() -> None:
    one, two = (render_markdown(make_synthetic_tables("main")) for _ in range(2))
    assert one == two


def test_forty_methods_fit_one_table() -> None:
    methods = {f"method-{i:02d}": (0.1 + i / 50, 1.0 - i / 80) for i in range(40)}
    text = render_markdown(make_synthetic_tables("main", make_records(methods=methods, backbones=("tiger",))))
    assert all(f"| {name} |" in text for name in methods)
