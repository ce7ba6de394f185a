"""What stands behind a number, with the keyboard alone; the plot; and the pages of methods and tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.reporting.html.sites import ODD, odd_page, page

Open = Callable[..., Any]


def focused(p: Any) -> str:
    found: str = p.evaluate("document.activeElement.dataset.cell || document.activeElement.className")
    return found


def test_a_cell_opens_and_closes_with_the_keyboard(opened: Open) -> None:
    with opened(page()) as p:
        cell = p.locator("#board tbody.methods button.cell").first
        cell.focus()
        name = focused(p)
        p.keyboard.press("Enter")
        assert p.locator("#dialog").evaluate("node => node.open")
        assert focused(p) == "close"
        stops = set()
        for _ in range(60):
            p.keyboard.press("Tab")
            assert p.evaluate("document.getElementById('dialog').contains(document.activeElement)")
            stops.add(p.evaluate("document.activeElement.outerHTML"))
        assert len(stops) > 4
        p.keyboard.press("Escape")
        assert not p.locator("#dialog").evaluate("node => node.open")
        assert focused(p) == name


def test_arrows_step_through_the_cells(opened: Open) -> None:
    with opened(page()) as p:
        p.locator("#board tbody.methods button.cell").first.focus()
        before = focused(p)
        p.keyboard.press("ArrowRight")
        right = focused(p)
        assert right != before
        assert right.split("/")[0] == before.split("/")[0]
        p.keyboard.press("ArrowDown")
        assert focused(p).split("/", 1)[1] == right.split("/", 1)[1]


def test_the_dialog_says_where_a_number_comes_from(opened: Open) -> None:
    with opened(page(), "#/?task=sports-brand&backbone=letter") as p:
        p.click("[data-cell$='retain:ndcg@10/10'] >> nth=6")
        text = p.inner_text("#dialog")
        for words in ("Standard deviation", "95 % interval", "Against original", "Against retrain", "Holm-corrected p"):
            assert words in text
        for words in ("margin ±", "Hedges' g", "fp32", "cpu (synthetic)", "2026-11-01 12:00 UTC", "0000000000"):
            assert words in text
        assert p.locator("#dialog table tbody tr").count() >= 5
        commands = p.inner_text("#dialog pre").split("\n")
        assert len(commands) == 5
        assert commands[0].startswith("bench run --task sports-brand --method ")
        assert commands[0].endswith("--backbone letter --seed 0")
        assert p.locator("#dialog a[href='#/task/sports-brand']").count() == 1
        p.click("#dialog a[href^='#/method/']")
        assert not p.locator("#dialog").evaluate("node => node.open")
        assert "#/method/" in p.url


def test_commands_can_be_copied(opened: Open) -> None:
    with opened(page(), permissions=["clipboard-read", "clipboard-write"]) as p:
        p.locator("#board tbody.methods button.cell").first.click()
        p.click("#dialog .copy >> nth=0")
        p.wait_for_function("document.querySelector('#dialog .copy').textContent === 'Copied'")
        assert p.evaluate("navigator.clipboard.readText()").startswith("bench run --task ")


def test_too_few_seeds_are_said_in_words(opened: Open) -> None:
    from tests.reporting.boards import make_records, make_synthetic_board
    from tests.reporting.html.sites import page_of

    records = make_records(tasks=("sports-brand",), backbones=("tiger",), seeds=(0,))
    with opened(page_of(make_synthetic_board(records))) as p:
        assert "1 seed of the 5" in p.inner_text("main")
        p.locator("#board tbody.methods button.cell").first.click()
        text = p.inner_text("#dialog")
        assert "Underpowered: no result with 1 seed could have reached 0.05; the smallest p there is" in text


def test_points_of_the_plot_speak_on_focus_and_hover(opened: Open) -> None:
    with opened(page()) as p:
        tip = p.locator(".tip")
        assert tip.is_hidden()
        points = p.locator("a.point")
        assert points.count() == 13 + 1
        points.nth(7).focus()
        assert tip.is_visible()
        assert "from retrain" in tip.inner_text()
        assert points.nth(7).get_attribute("aria-label").startswith(tip.locator("strong").inner_text())
        p.keyboard.press("Escape")
        assert tip.is_hidden()
        points.nth(3).hover(force=True)
        assert tip.is_visible()
        assert p.locator(".point.front").count() >= 1
        assert p.locator("path.frontier").first.get_attribute("d").startswith("M")
        p.check("#y-hr")
        assert "y=hr" in p.url
        p.check("#dots")
        assert p.locator("circle.seed").count() > 50


def test_a_finger_sees_a_point_before_it_leaves(opened: Open) -> None:
    with opened(page(), width=360, height=740, has_touch=True) as p:
        point = p.locator("a.point").nth(9)
        point.locator(".halo").tap(force=True)
        assert p.locator(".tip").is_visible()
        assert "#/method/" not in p.url
        point.locator(".halo").tap(force=True)
        p.wait_for_selector(".subject h1")
        assert "#/method/" in p.url


def test_method_and_task_pages(opened: Open) -> None:
    with opened(page(), "#/method/tracer") as p:
        assert p.inner_text("h1") == "tracer"
        text = p.inner_text("main")
        assert "arXiv 2606.07688" in text
        assert "lambda_forget" in text
        assert p.locator("a[href='https://arxiv.org/abs/2606.07688']").count() >= 1
        assert p.locator("main button.cell").count() == 4 * 5
        p.locator("main button.cell").first.click()
        assert p.locator("#dialog").evaluate("node => node.open")
        p.keyboard.press("Escape")
        p.goto(p.url.split("#")[0] + "#/task/sports-brand")
        p.wait_for_selector("h1:has-text('sports-brand')")
        assert "Split" in p.inner_text("main")
        p.click("#nav a:has-text('Methods')")
        p.wait_for_selector("h1:has-text('Methods')")
        p.click("main a:has-text('npo') >> nth=0")
        p.wait_for_selector("h1:has-text('npo')")
        p.go_back()
        p.wait_for_selector("h1:has-text('Methods')")


def test_unknown_routes_say_so(opened: Open) -> None:
    with opened(page(), "#/method/%E0%A4%A") as p:
        assert p.locator("h1").count() == 1
    with opened(page(), "#/method/<img src=x onerror=window.hit=1>") as p:
        assert "There is no method called" in p.inner_text("main")
    with opened(page(), "#/toString/x") as p:
        assert p.locator("h1").count() == 1


def test_odd_names_are_shown_and_never_run(opened: Open) -> None:
    with opened(odd_page()) as p:
        for route in ("#/methods", "#/tasks", "#/about", "#/?layout=all", "#/"):
            p.evaluate("route => { location.hash = route; }", route)
            p.wait_for_timeout(60)
            assert p.locator("main h1").count() == 1
            assert p.locator("main img, main script, main b:not(.legend b)").count() == 0
        shown = p.locator("#board th[scope=row] .name").all_inner_texts()
        assert set(ODD[:-2]) <= set(shown)
        assert "constructor (<svg onload=window.hit=1>)" in shown
        for place in range(0, len(ODD), 3):
            p.locator("#board tbody.methods tr:not(.part)").nth(place).locator("button.cell").first.click()
            assert "Run it again" in p.inner_text("#dialog")
            p.keyboard.press("Escape")
        for name in ODD:
            p.evaluate("name => { location.hash = '#/method/' + encodeURIComponent(name); }", name)
            p.wait_for_function("name => document.querySelector('.subject h1')?.textContent === name", arg=name)
            assert p.locator("a[href^='javascript']").count() == 0
