"""Fits phones and desks, light and dark; every control can be reached and has a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.reporting.html.sites import crowd_page, odd_page, page

Open = Callable[..., Any]
ROUTES = (
    "",
    "#/?layout=full",
    "#/?layout=all",
    "#/?reported=1",
    "#/overview",
    "#/methods",
    "#/method/tracer",
    "#/tasks",
)
ROUTES += ("#/task/industrial-brand", "#/about")

CONTRAST = """() => {
  const channel = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => {
    const parts = text.match(/[\\d.]+/g).map(Number);
    return parts.length > 3 && parts[3] === 0 ? null : parts.slice(0, 3);
  };
  const ground = (node) => node ? parse(getComputedStyle(node).backgroundColor) || ground(node.parentElement) : null;
  const out = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (!own || !node.offsetParent) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node) || [255, 255, 255])];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) out.push([node.tagName, node.className, node.textContent.slice(0, 30), ratio]);
  }
  return out;
}"""
NAMELESS = """() => [...document.querySelectorAll('button, a[href], input, select, summary, [role=img], [role=region]')]
  .filter((node) => !(node.textContent.trim() || node.getAttribute('aria-label') || node.labels?.length))
  .map((node) => node.outerHTML)"""

INSIDE = "() => { const d = document.getElementById('dialog'); return d.scrollWidth - d.clientWidth; }"
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("width", [360, 1440])
def test_no_view_is_wider_than_the_screen(opened: Open, width: int) -> None:
    for html in (page(), odd_page(), crowd_page()):
        with opened(html, width=width) as p:
            for route in ROUTES:
                p.evaluate("route => { location.hash = route || '#/'; }", route)
                p.wait_for_timeout(60)
                assert p.evaluate(OVERFLOW) <= 0, route
            p.evaluate("() => { location.hash = '#/?x=1'; }")
            p.wait_for_selector("#board button.cell")
            p.locator("#board button.cell").first.click()
            assert p.evaluate(OVERFLOW) <= 0
            assert (
                p.evaluate(
                    "() => { const d = document.getElementById('dialog'); return d.scrollWidth - d.clientWidth; }"
                )
                <= 0
            )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(opened: Open, scheme: str) -> None:
    with opened(page(), "#/?reported=1", color_scheme=scheme) as p:
        assert p.evaluate(CONTRAST) == []
        # Under the pointer a cell has another ground, once its transition is over.
        p.locator("#board tbody button.cell", has_text="≠").first.hover()
        p.wait_for_timeout(200)
        assert p.evaluate(CONTRAST) == []
        p.locator("#board tbody.methods button.cell").first.click()
        assert p.evaluate(CONTRAST) == []
        p.keyboard.press("Escape")
        for route in ("#/method/tracer", "#/about", "#/task/industrial-brand"):
            p.evaluate("route => { location.hash = route; }", route)
            p.wait_for_selector(".subject h1")
            assert p.evaluate(CONTRAST) == []


def test_dark_follows_the_system_and_can_be_chosen(opened: Open) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    with opened(page()) as p:
        light = p.evaluate(ground)
        p.click("#theme")
        dark = p.evaluate(ground)
        assert dark != light
        assert p.get_attribute("#theme", "aria-label") == "Light colours"
        assert p.evaluate("document.activeElement.id") == "theme"
        p.reload()
        assert p.evaluate(ground) == dark
    with opened(page(), color_scheme="dark") as p:
        assert p.evaluate(ground) == dark


def test_everything_that_can_be_used_has_a_name(opened: Open) -> None:
    with opened(page()) as p:
        for route in ROUTES:
            p.evaluate("route => { location.hash = route || '#/'; }", route)
            p.wait_for_timeout(60)
            assert p.evaluate(NAMELESS) == [], route
            assert p.locator("main h1").count() == 1


def test_tables_are_tables_to_a_screen_reader(opened: Open) -> None:
    with opened(page()) as p:
        assert p.locator("#board caption").text_content().startswith("Unlearning results: industrial-brand")
        assert p.locator("#board th:not([scope])").count() == 0
        assert p.locator("#board th[aria-sort]").count() == 6
        assert p.locator("#board svg.whisker:not([aria-label])").count() == 0
        first = p.locator("#board tbody.methods button.cell").first.inner_text()
        assert first


def test_the_skip_link_leads_to_the_results(opened: Open) -> None:
    with opened(page()) as p:
        p.keyboard.press("Tab")
        assert p.evaluate("document.activeElement.id") == "skip"
        p.keyboard.press("Enter")
        assert p.evaluate("document.activeElement.id") == "main"


def test_forty_methods_stand_in_one_table(opened: Open) -> None:
    with opened(crowd_page()) as p:
        assert p.locator("#board tbody.methods tr:not(.part)").count() == 40
        assert p.locator("#board .ranks").count() == 80
        p.click("button[data-sort='name']")
        assert p.locator("#board tbody.methods th[scope=row] .name").first.inner_text() == "method-00"


def test_paper_gets_no_controls(opened: Open) -> None:
    with opened(page()) as p:
        p.emulate_media(media="print")
        assert p.locator(".controls").is_hidden()
        assert p.locator("#board").is_visible()


def test_scripts_off_leave_a_table(browser: Any, tmp_path: Any) -> None:
    (tmp_path / "index.html").write_text(page(), encoding="utf-8")
    held = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 740})
    p = held.new_page()
    p.goto((tmp_path / "index.html").as_uri())
    assert "Without scripts this page shows one table" in p.inner_text("main")
    assert p.locator("table tbody tr").count() == 14
    held.close()
