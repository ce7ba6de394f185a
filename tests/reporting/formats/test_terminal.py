"""The terminal: nothing from outside steers it, and a table wider than the screen is cut, not wrapped."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from genrec_unlearn_bench.reporting.across import across
from genrec_unlearn_bench.reporting.formats.terminal import draw
from genrec_unlearn_bench.reporting.reported import reported_comparisons
from tests.reporting.boards import make_records, make_synthetic_tables
from tests.reporting.golden_files import golden, rendered
from tests.reporting.odd_names import odd_tables


def drawn(width: int, *, typed: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=typed, color_system="standard" if typed else None)
    draw(console, make_synthetic_tables("main"))
    return out.getvalue()


def test_golden_file() -> None:
    tables = make_synthetic_tables("main")
    text = rendered(draw, tables, across=across(tables[0].analysis), reported=reported_comparisons(tables))
    assert text == golden(text, "terminal-main.txt")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    text = drawn(width, typed=False)
    assert max(len(line) for line in text.splitlines()) <= width
    # Every part begins with the names.
    assert text.count("\n tracer-no-reassignment") == text.count("\n original")


def test_the_metrics_of_the_main_table_fit_120_columns_and_its_costs_are_one_more_part() -> None:
    methods = {"tracer": (0.3, 0.98), "npo": (0.45, 0.9), "grad-ascent": (0.1, 0.3)}
    text = rendered(draw, make_synthetic_tables("main", make_records(methods=methods)))
    assert text.count("\n original") == 8
    heads = [line.split() for line in text.splitlines() if line.split()[-1:] in (["Sim."], ["Cost"])]
    assert heads == [["Forget", "Forget", "Retain", "Retain", "Sim."], ["Cost", "Cost", "Cost"]] * 4


def test_marks_are_type_on_a_terminal_and_signs_elsewhere() -> None:
    assert "\x1b[1m" in drawn(120, typed=True)
    assert "Bold: the best set" in drawn(120, typed=True)
    plain = drawn(120, typed=False)
    assert "\x1b" not in plain
    assert "*: the best set" in plain
    assert "*." in plain


def test_odd_names_neither_steer_nor_format() -> None:
    text = rendered(draw, odd_tables())
    assert not set(text) & set("\x1b\x07\x00\u202e\u2066\r")
    assert "[bold red]markup[/]" in text
    assert "⟨U+001B⟩[31mred" in text
    assert max(len(line) for line in text.splitlines()) <= 120


def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = make_synthetic_tables("main", make_records(backbones=("tiger",)))
    before = rendered(draw, tables)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    assert rendered(draw, tables) == before


def test_forty_methods_fit_one_table() -> None:
    methods = {f"method-{i:02d}": (0.1 + i / 50, 1.0 - i / 80) for i in range(40)}
    text = rendered(draw, make_synthetic_tables("main", make_records(methods=methods, backbones=("tiger",))))
    assert all(f"\n {name} " in text for name in methods)
