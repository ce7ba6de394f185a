"""What stands behind a row, with the keyboard alone; the plot; and the pages of methods and tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.reporting.html.sites import ODD, odd_page, page

pytestmark = pytest.mark.slow

Open = Callable[..., Any]


def test_details_open_and_close_with_the_keyboard(opened: Open) -> None:
    with opened(page()) as p:
        more = p.locator(".verdicts:visible .more").first
        more.focus()
        label = p.evaluate("document.activeElement.getAttribute('aria-label')")
        p.keyboard.press("Enter")
        assert p.locator("#dialog").evaluate("node => node.open")
        assert p.evaluate("document.activeElement.className") == "close"
        p.keyboard.press("Tab")
        assert p.evaluate("document.getElementById('dialog').contains(document.activeElement)")
        p.keyboard.press("Escape")
        assert not p.locator("#dialog").evaluate("node => node.open")
        assert p.evaluate("document.activeElement.getAttribute('aria-label')") == label


def test_details_say_where_numbers_come_from(opened: Open) -> None:
    with opened(page(), "#/?block=sports-brand · letter · small · tuned") as p:
        p.click(".verdicts:visible tr[data-row=npo] .more")
        text = p.inner_text("#dialog")
        for words in ("forget HR@10", "retrained", "original", "margin", "s of tuning", "fp32", "cpu (synthetic)"):
            assert words in text, words
        for words in ("2026-11-01", "0000000000", "hashed#0", "lr", "Minus original", "Minus retrain"):
            assert words in p.locator("#dialog").text_content(), words
        assert p.inner_text("#dialog pre") == ("bench run --task sports-brand --method npo --backbone letter --seed 0")
        assert "--seed 1, 2, 3, 4" in text
        p.click("#dialog a[href='#/task/sports-brand']")
        assert not p.locator("#dialog").evaluate("node => node.open")
        assert p.inner_text(".page:visible h1") == "sports-brand"


def test_commands_can_be_copied(opened: Open) -> None:
    with opened(page(), permissions=["clipboard-read", "clipboard-write"]) as p:
        p.locator(".verdicts:visible .more").first.click()
        p.click("#dialog h3 button")
        p.wait_for_function("document.querySelector('#dialog h3 button').textContent === 'Copied'")
        assert p.evaluate("navigator.clipboard.readText()").startswith("bench run --task ")


def test_points_of_the_plot_have_names_and_lead_to_methods(opened: Open) -> None:
    with opened(page()) as p:
        points = p.locator("figure:visible a.point")
        assert points.count() == 13 + 1
        tracer = p.locator("figure:visible a.point[aria-label^='tracer:']")
        assert "from retraining" in tracer.get_attribute("aria-label")
        assert p.locator("figure:visible .point.front").count() >= 1
        assert p.locator("figure:visible path.frontier").first.get_attribute("d").startswith("M")
        tracer.focus()
        p.keyboard.press("Enter")
        p.wait_for_selector(".page:visible h1:has-text('tracer')")


def test_method_and_task_pages(opened: Open) -> None:
    with opened(page(), "#/method/tracer") as p:
        assert p.inner_text(".page:visible h1") == "tracer"
        assert p.title().startswith("tracer")
        text = p.inner_text("main")
        assert "arXiv 2606.07688" in text
        assert "phi_lr=0.01" in text
        assert p.locator(".page:visible a[href='https://arxiv.org/abs/2606.07688']").count() == 1
        assert p.locator("#board").is_hidden()
        p.goto(p.url.split("#")[0] + "#/task/sports-brand")
        p.wait_for_selector(".page:visible h1:has-text('sports-brand')")
        assert "Split" in p.inner_text("main")
        p.click("#nav a:has-text('Methods')")
        p.wait_for_selector(".page:visible h1:has-text('Methods')")
        assert p.get_attribute("#nav a[href='#/methods']", "aria-current") == "page"
        assert "control" in p.inner_text(".page:visible tr:has(a[href='#/method/random-reassign'])")
        p.click(".page:visible a:has-text('npo') >> nth=0")
        p.wait_for_selector(".page:visible h1:has-text('npo')")
        p.go_back()
        p.wait_for_selector(".page:visible h1:has-text('Methods')")


def test_unknown_addresses_say_so(opened: Open) -> None:
    for route in ("#/method/%E0%A4%A", "#/method/<img src=x onerror=window.hit=1>", "#/toString/x"):
        with opened(page(), route) as p:
            assert "There is no page called" in p.inner_text("main")
            assert p.locator("h1:visible").count() == 1


def test_odd_names_are_shown_and_never_run(opened: Open) -> None:
    with opened(odd_page()) as p:
        for route in ("#/methods", "#/tasks", "#/guide", "#/submissions", "#/?layout=attack", "#/"):
            p.evaluate("route => { location.hash = route; }", route)
            p.wait_for_timeout(60)
            assert p.locator("main h1:visible").count() == 1
            assert p.locator("main img, main script, main b").count() == 0
        shown = p.locator("#numbers th[scope=row] a").all_text_contents()
        assert set(ODD[:-2]) <= set(shown)
        assert "constructor (<svg onload=window.hit=1>)" in shown
        assert p.locator("a[href^='javascript']").count() == 0
        for place in range(0, len(ODD), 3):
            p.locator(".verdicts:visible tbody.method .more").nth(place).click()
            assert "Run it again" in p.inner_text("#dialog")
            p.keyboard.press("Escape")
        for name in ODD:
            p.evaluate("name => { location.hash = '#/method/' + encodeURIComponent(name); }", name)
            p.wait_for_function("name => document.querySelector('.page:target h1')?.textContent === name", arg=name)
        p.evaluate("() => { location.hash = '#/'; }")
        for place in (0, 1):
            p.locator(".verdicts:visible tbody.method input").nth(place).check()
        assert "bench results compare '" in p.inner_text("#compare pre")
