"""The board in a real browser: sorting, choosing, filtering, and the address that says what is shown."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.reporting.layouts import find_layout
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.tables import make_tables
from genrec_unlearn_bench.reporting.wording import fixed, six
from tests.reporting.boards import VARIANTS, kinds_of, make_synthetic_board
from tests.reporting.html.sites import data_of, odd_page, page

Open = Callable[..., Any]


def rows(page_: Any, kind: str = "methods") -> list[str]:
    found: list[str] = page_.locator(f"#board tbody.{kind} th[scope=row] .name").all_inner_texts()
    return found


def column(page_: Any, measure: str) -> list[float]:
    texts = page_.locator(f"#board tbody.methods [data-cell$='/{measure}'] .mean").all_text_contents()
    return [float(text.split()[0]) for text in texts]


def test_columns_sort_both_ways_and_say_so(opened: Open) -> None:
    with opened(page()) as p:
        head = p.locator("th:has(button[data-sort='retain:hr@10/10'])")
        assert head.get_attribute("aria-sort") == "none"
        p.click("button[data-sort='retain:hr@10/10']")
        assert head.get_attribute("aria-sort") == "descending"
        found = column(p, "retain:hr@10/10")
        assert found == sorted(found, reverse=True)
        assert len(found) > 5
        # The keyboard does the same, and the focus stays where it was.
        p.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "ascending"
        assert column(p, "retain:hr@10/10") == sorted(found)
        assert "sort=retain" in p.url
        p.click("button[data-sort='forget:hr@10/10']")
        found = column(p, "forget:hr@10/10")
        assert found == sorted(found)
        p.click("button[data-sort='name']")
        assert rows(p) == sorted(rows(p))


def test_references_and_diverged_rows_stand_apart(opened: Open) -> None:
    with opened(page(), "#/?task=industrial-brand&backbone=letter") as p:
        assert rows(p, "references") == ["original", "retrain", "popularity", "filter", "random-reassign"]
        assert rows(p, "diverged") == ["grad-ascent"]
        assert "grad-ascent" not in rows(p)
        assert "diverged 1 of 5" in p.inner_text("#board tbody.diverged")
        assert p.locator("#board tbody.diverged .ranks, #board tbody.references .ranks").count() == 0
        p.uncheck("#show-refs")
        assert rows(p, "references") == []


def test_numbers_and_marks_are_those_of_the_other_formats(opened: Open) -> None:
    board = make_synthetic_board()
    tables = make_tables(board, find_layout("main"), statistics_protocol(), kinds=kinds_of(board), variant_of=VARIANTS)
    blocks = [block for table in tables for block in table.blocks]
    analysis = next(b for b in blocks if (b.block.key.task, b.block.key.backbone) == ("sports-brand", "tiger"))
    with opened(page(), "#/?task=sports-brand&backbone=tiger") as p:
        for row, entry in enumerate(analysis.block.rows):
            for measure in analysis.measures:
                cell = analysis.cell(entry, measure)
                button = p.locator(f"[data-cell='{row}/{measure.text}']")
                if cell.mean is None:
                    assert button.count() == 0
                    continue
                text = button.inner_text()
                assert text.startswith(fixed(cell.mean, 4)), (entry.label, measure.text)
                assert cell.sd is None or f"± {fixed(cell.sd, 4)}" in text
                assert button.locator("strong").count() == (cell.mark == "best")
                assert button.locator("u").count() == (cell.mark == "second")
                label = button.locator(".whisker").get_attribute("aria-label")
                assert (
                    cell.low is None or f"{fixed(cell.low, 4)} to {fixed(cell.high or 0, 4)}".replace("-", "−") in label
                )


def test_ranks_are_intervals(opened: Open) -> None:
    with opened(page()) as p:
        texts = p.locator("#board .ranks").all_inner_texts()
        assert texts
        assert all("–" in text or text.strip().split()[-1].isalpha() for text in texts)


def test_choices_go_into_the_address_and_come_back(opened: Open) -> None:
    with opened(page()) as p:
        p.select_option("#pick-task", "sports-brand")
        p.select_option("#pick-backbone", "tiger")
        p.select_option("#pick-layout", "ablation")
        assert p.inner_text("h1") == "sports-brand"
        assert "task=sports-brand" in p.url
        assert rows(p) == ["tracer", "tracer-no-coherence", "tracer-no-reassignment"]
        address = p.url
        p.goto("about:blank")
        p.goto(address)
        assert p.inner_text("h1") == "sports-brand"
        assert p.input_value("#pick-layout") == "ablation"
        # Of what was chosen last nothing is lost where the rest has to follow.
        p.select_option("#pick-task", "industrial-brand")
        assert p.input_value("#pick-backbone") == "tiger"


def test_groups_columns_and_rows_can_be_hidden(opened: Open) -> None:
    with opened(page()) as p:
        assert p.locator("#board th.group").all_inner_texts() == ["Forget", "Retain", "Sim."]
        p.uncheck("#group-0")
        assert p.locator("#board th.group").all_inner_texts() == ["Retain", "Sim."]
        p.click("#columns summary")
        p.locator("#columns input").nth(2).uncheck()
        assert p.locator("#board thead tr").nth(1).locator("th").count() == 2
        p.fill("#search", "TRACER-no")
        assert rows(p) == ["tracer-no-coherence", "tracer-no-reassignment"] or len(rows(p)) == 2
        assert p.evaluate("document.activeElement.id") == "search"
        p.fill("#search", "zzz")
        assert "No row is called so" in p.inner_text("main")


def test_reported_numbers_stand_beside_ours_with_a_warning(opened: Open) -> None:
    with opened(page()) as p:
        assert p.locator(".foreign").count() == 0
        p.check("#show-reported")
        assert "Reported by the paper" in p.inner_text("#board thead")
        assert p.locator("#board .broken").count() == 1
        assert "Reported, not run here" in p.locator("#board tbody.foreign").text_content()
        p.click("td.foreign button:has(.broken)")
        assert "NDCG@10 is above HR@10" in p.inner_text("#dialog")
        assert "Another paper's numbers <b>." in p.inner_text("#dialog")


def test_the_shown_table_is_downloaded_as_csv(opened: Open, tmp_path: Path) -> None:
    board = make_synthetic_board()
    with opened(page(), "#/?q=npo") as p:
        with p.expect_download() as waiting:
            p.click("#csv")
        assert waiting.value.suggested_filename == "industrial-brand-letter-small-tuned-main.csv"
        waiting.value.save_as(tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text(encoding="utf-8").split("\n")
    assert [line.split(",")[5] for line in lines[1:-1]] == ["npo", "simnpo"]
    mean = float(lines[1].split(",")[lines[0].split(",").index("forget:hr@10/10 mean")])
    values = [r.values for b in board.blocks[:1] for r in b.row("npo").results.values()]
    wanted = sum(next(v for m, v in one.items() if m.text == "forget:hr@10/10") or 0 for one in values) / 5
    assert abs(mean - (six(wanted) or 0)) < 2e-6


def test_names_in_the_csv_compute_nothing(opened: Open, tmp_path: Path) -> None:
    with opened(odd_page()) as p:
        with p.expect_download() as waiting:
            p.click("#csv")
        waiting.value.save_as(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert len({len(line) for line in lines}) == 1
    assert not [cell for line in lines[1:] for cell in line[:8] if cell[:1] in tuple("=+-@\t\r")]
    assert "'=1+1" in {line[5] for line in lines}


def test_one_measure_over_all_tasks(opened: Open) -> None:
    with opened(page(), "#/overview") as p:
        assert p.locator("#overview thead th.group .name").all_inner_texts() == ["industrial-brand", "sports-brand"]
        assert p.locator("#overview tbody.methods tr:not(.part)").count() == 9
        p.select_option("#over-measure", "retain:ndcg@10/10")
        assert "measure=retain" in p.url
        assert p.evaluate("document.activeElement.id") == "over-measure"
        p.locator("#overview tbody.methods button.cell").first.click()
        assert "retain NDCG@10" in p.inner_text("#dialog h2")


def test_a_view_that_this_block_lacks_falls_back(opened: Open) -> None:
    assert data_of(page())["views"]
    with opened(page(), "#/?layout=nonsense&task=nonsense&beam=7&sort=nonsense") as p:
        assert p.locator("#board").count() == 1
