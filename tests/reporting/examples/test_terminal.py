"""The terminal: every mark has a sign, nothing is wider than the screen, and no name steers it."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from genrec_unlearn_bench.reporting.examples.page import Page, draw
from tests.reporting.golden_files import rendered


def drawn(page: Page, width: int, *, colour: bool = False) -> str:
    out = io.StringIO()
    system = "truecolor" if colour else None
    draw(Console(file=out, width=width, color_system=system, force_terminal=colour, markup=False, _environ={}), page)  # type: ignore[arg-type]
    return out.getvalue()


def test_every_list_and_mark_is_there(page: Page) -> None:
    text = rendered(draw, page)
    assert text.count(" original ") >= len(page.examples)
    assert text == rendered(draw, page)
    for example in page.examples:
        assert f"Example {example.number}, {example.group.value} side" in text
    assert text.count("†") == marks(page)
    assert "†*" in text
    first = page.examples[0].lists
    sums = "".join(rf"{shown.concept_items}/{len(shown.items)}" for shown in first)
    line = next(line for line in text.splitlines() if "to forget" in line and "/10" in line)
    assert "".join(line.split()[2:]) == sums


def marks(page: Page) -> int:
    """How many concept items there are to be marked, and one in the legend."""
    return 1 + sum(
        item.concept
        for example in page.examples
        for item in [*example.history, example.target, *(item for each in example.lists for item in each.items)]
    )


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_screen(page: Page, odd: Page, width: int) -> None:
    assert max(cell_len(line) for line in drawn(odd, width).splitlines()) <= width
    lines = drawn(page, width).splitlines()
    assert "\n".join(lines).count("†") == marks(page), "no sign gives way to a name"
    assert max(cell_len(line) for line in lines) <= width
    heads = [line for line in lines if "original" in line and "seed" not in line and "overlap" not in line]
    assert len(heads) >= len(page.examples)
    parts = -(-4 // max(1, (width - 10) // 24))
    assert sum("to forget  " in line and "/10" in line for line in lines) == parts * len(page.examples)


def test_names_neither_steer_nor_format(odd: Page) -> None:
    text = drawn(odd, 400)
    for harm in ("\x1b", "\u202e", "\x07"):
        assert harm not in text
    assert "[bold red]markup[/]" in text


def test_colour_goes_with_the_signs(page: Page) -> None:
    text = drawn(page, 120, colour=True)
    assert "\x1b[1;31m †" in text.replace("\x1b[1;31m†", "\x1b[1;31m †")
    assert "31m†" in text
