"""The board in a real browser: verdicts, sorting, choosing, comparing, and the address that says what is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from genrec_unlearn_bench.reporting.protocol import find_layout, statistics_protocol
from genrec_unlearn_bench.reporting.tables import make_tables
from genrec_unlearn_bench.reporting.verdicts import Forgets
from genrec_unlearn_bench.reporting.wording import fixed
from tests.reporting.boards import make_records, make_synthetic_board
from tests.reporting.html.sites import page, page_of

pytestmark = pytest.mark.slow

Open = Callable[..., Any]
SPORTS = "#/?block=sports-brand · tiger · small · tuned"


def rows(page_: Any, table: str = ".verdicts:visible", kind: str = "method") -> list[str]:
    found: list[str] = page_.locator(f"{table} tbody.{kind} tr[data-row]:visible th[scope=row] a").all_inner_texts()
    return found


def numbers(page_: Any, place: int) -> list[float]:
    texts = page_.locator(f"#numbers tbody.method tr[data-row] td:nth-of-type({place}) .mean").all_text_contents()
    return [float(text.split()[0]) for text in texts]


def test_verdicts_are_above_the_fold_in_words_and_colour(opened: Open) -> None:
    with opened(page()) as p:
        cell = p.locator(".verdicts:visible tr[data-row=tracer] td").first
        assert cell.locator(".v").inner_text() in set(Forgets)
        box = cell.bounding_box()
        assert box["y"] + box["height"] < 900
        plot = p.locator(".block:visible figure").bounding_box()
        assert plot["y"] < 300
        assert plot["x"] > box["x"]
        assert p.locator(".verdicts:visible").count() == 1
        colours = {
            p.evaluate("node => getComputedStyle(node).backgroundColor", one)
            for one in p.query_selector_all(".v.good, .v.bad")
        }
        assert len(colours) == 2


def test_columns_sort_both_ways_and_say_so(opened: Open) -> None:
    with opened(page()) as p:
        head = p.locator("#numbers thead tr:nth-child(2) th").first
        assert head.get_attribute("aria-sort") == "none"
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        found = numbers(p, 1)
        assert found == sorted(found)
        assert len(found) > 5
        # The keyboard does the same, and the focus stays where it was.
        p.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        assert numbers(p, 1) == sorted(found, reverse=True)
        p.locator("#numbers thead th").first.locator("button").click()
        assert rows(p, "#numbers") == sorted(rows(p, "#numbers"))
        p.locator(".verdicts:visible thead th").first.locator("button").click()
        assert rows(p) == sorted(rows(p))


def test_references_and_controls_have_parts_of_their_own(opened: Open) -> None:
    with opened(page(), "#/?block=industrial-brand · letter · small · tuned") as p:
        for table in (".verdicts:visible", "#numbers"):
            assert set(rows(p, table, "reference")) == {"original", "retrain", "popularity"}
            assert set(rows(p, table, "control")) == {"filter", "random-reassign", "tracer-no-reassignment"}
            assert "original" not in rows(p, table)
        assert "diverged 1 of 5" in p.inner_text("#numbers tr[data-row=grad-ascent]")
        assert "diverged" in p.inner_text(".verdicts:visible tr[data-row=grad-ascent]")
        assert p.locator("#numbers tbody.reference .ranks, #numbers tr[data-row=grad-ascent] .ranks").count() == 0


def test_numbers_and_marks_are_those_of_the_other_formats(opened: Open) -> None:
    board = make_synthetic_board()
    tables = make_tables(board, find_layout("main", 1), statistics_protocol(1))
    blocks = [block for table in tables for block in table.blocks]
    analysis = next(b for b in blocks if (b.block.key.task, b.block.key.backbone) == ("sports-brand", "tiger"))
    columns = [column for column in tables[0].columns if column.top == "sports-brand"]
    with opened(page(), SPORTS) as p:
        for entry in analysis.block.rows:
            cells = p.locator(f"#numbers tr[data-row='{entry.label}'] td")
            for place, column in enumerate(columns):
                cell = analysis.cell(entry, column.measure)
                shown = cells.nth(place)
                if cell.mean is None:
                    assert shown.inner_text() in ("n/a", "diverged")
                    continue
                text = shown.inner_text()
                assert text.startswith(fixed(cell.mean, column.decimals)), (entry.label, column.measure.text)
                assert cell.sd is None or f"± {fixed(cell.sd, column.decimals)}" in text
                assert shown.locator("strong").count() == (cell.mark == "best")
                assert shown.locator("u").count() == (cell.mark == "second")


def test_choices_go_into_the_address_and_come_back(opened: Open) -> None:
    with opened(page()) as p:
        p.select_option("#pick-block", "sports-brand · tiger · small · tuned")
        p.focus("#pick-layout")
        p.select_option("#pick-layout", "ablation")
        assert p.evaluate("document.activeElement.id") == "pick-layout"
        assert "sports-brand" in p.url
        assert rows(p, "#numbers") == ["tracer", "tracer-no-coherence"]
        assert "tracer-no-reassignment" in rows(p, "#numbers", "control")
        address = p.url
        p.goto("about:blank")
        p.goto(address)
        assert p.input_value("#pick-block") == "sports-brand · tiger · small · tuned"
        assert p.input_value("#pick-layout") == "ablation"


def test_rows_are_found_by_name(opened: Open) -> None:
    with opened(page()) as p:
        p.fill("#search", "TRACER-no")
        for kind, name in (("method", "tracer-no-coherence"), ("control", "tracer-no-reassignment")):
            assert rows(p, kind=kind) == rows(p, "#numbers", kind) == [name]
        assert p.evaluate("document.activeElement.id") == "search"
        assert p.inner_text("#status") == "2 rows shown"
        assert p.locator("#unmatched").is_hidden()
        p.fill("#search", "zzz")
        assert p.locator("#unmatched").is_visible()


def test_chosen_rows_are_side_by_side(opened: Open) -> None:
    with opened(page(), SPORTS) as p:
        p.check("[id='compare-npo']")
        assert "Choose a second row" in p.inner_text("#below")
        p.check("[id='compare-tracer']")
        assert p.evaluate("document.activeElement.id") == "compare-tracer"
        text = p.inner_text("#compare")
        assert p.locator("#compare thead th").all_inner_texts() == ["What", "npo", "tracer"]
        assert "forget HR@10" in text
        assert "better" in text
        # The document has differences from the baseline alone; for the others it says who computes them.
        compared = "bench results compare npo tracer --task sports-brand --backbone tiger"
        assert f"{compared} --scale small --ruleset tuned" in text
        assert "--published" not in text
        assert p.url.count("row=") == 2
        p.check("[id='compare-original']")
        assert p.locator("#compare pre").inner_text().count("bench results compare") == 1
        p.click("#compare button:has-text('Clear')")
        assert p.locator("#compare").count() == 0


def test_one_view_over_all_tasks(opened: Open) -> None:
    with opened(page(), "#/overview") as p:
        assert p.locator(".matrix thead th").count() == 1 + 4
        assert p.locator(".matrix tbody").first.locator("tr:not(.part)").count() == 8
        assert p.evaluate("document.documentElement.scrollHeight") <= 900
        p.locator(".matrix thead a").nth(3).click()
        assert "sports-brand · tiger" in p.inner_text(".block:visible h2, #pick-block option:checked")


def test_too_few_seeds_are_said(opened: Open) -> None:
    records = make_records(tasks=("sports-brand",), backbones=("tiger",), seeds=(0,))
    with opened(page_of(make_synthetic_board(records))) as p:
        assert "Too few seeds" in p.inner_text(".summary:visible")
        for place in (1, 2):
            assert p.locator(f"td:nth-of-type({place}) .v:not(.open):visible").count() == 0


def test_an_unknown_choice_falls_back(opened: Open) -> None:
    with opened(page(), "#/?layout=constructor&block=nonsense&row=nobody") as p:
        assert p.locator("#numbers").count() == 1
        assert "There are no results called nonsense here; these are " in p.inner_text("#missing")


def test_commands_of_a_published_page_fit_a_clone(opened: Open) -> None:
    records = [
        record.model_copy(update={"command": f"{record.command} --tuned-dir tuned"})
        for record in make_records(tasks=("sports-brand",), backbones=("tiger",))
    ]
    with opened(page_of(make_synthetic_board(records), files=["tables/main.md"]), "#/?row=npo&row=tracer") as p:
        assert p.inner_text("#compare pre").endswith(" --ruleset tuned --published")
        p.click(".verdicts:visible tr[data-row=npo] .more")
        assert p.inner_text("#dialog pre").endswith(" --tuned-dir leaderboard/tuned")
        assert "Time (s) ↓" in p.inner_text("#dialog")


def test_a_resize_before_the_results_are_shown_is_no_fault(opened: Open) -> None:
    with opened(page(), "#/guide") as p:
        faults: list[object] = []
        p.on("pageerror", lambda fault: faults.append(fault))
        p.set_viewport_size({"width": 700, "height": 900})
        p.wait_for_timeout(60)
        assert faults == []
        p.evaluate("() => { location.hash = '#/'; }")
        p.wait_for_selector("figure:visible svg.plot")
        assert p.locator("figure:visible svg.plot").count() == 1
