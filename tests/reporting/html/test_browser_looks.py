"""Fits phones and desks, light and dark; every control can be reached and has a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.reporting.html.sites import crowd_page, odd_page, page

pytestmark = pytest.mark.slow

Open = Callable[..., Any]
ROUTES: tuple[str, ...] = (
    "#/",
    "#/?layout=attack",
    "#/?row=npo&row=tracer",
    "#/overview",
    "#/methods",
    "#/method/tracer",
    "#/tasks",
)
ROUTES += ("#/task/industrial-brand", "#/guide", "#/submissions")

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


def visit(p: Any, route: str) -> None:
    p.evaluate("route => { location.hash = route; }", route)
    p.wait_for_timeout(60)


@pytest.mark.parametrize("width", [360, 1440])
def test_no_view_is_wider_than_the_screen(opened: Open, width: int) -> None:
    for html in (page(), odd_page(), crowd_page()):
        with opened(html, width=width) as p:
            for route in ROUTES:
                visit(p, route)
                assert p.evaluate(OVERFLOW) <= 0, route
            visit(p, "#/")
            p.locator(".verdicts:visible .more").first.click()
            assert p.evaluate(OVERFLOW) <= 0
            assert p.evaluate(INSIDE) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(opened: Open, scheme: str) -> None:
    with opened(page(), color_scheme=scheme) as p:
        for route in ROUTES:
            visit(p, route)
            assert p.evaluate(CONTRAST) == [], route
        visit(p, "#/")
        p.locator(".verdicts:visible tr[data-row=npo]").hover()
        assert p.evaluate(CONTRAST) == []
        p.locator(".verdicts:visible .more").first.click()
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
            visit(p, route)
            assert p.evaluate(NAMELESS) == [], route
            assert p.locator("main h1:visible").count() == 1


def test_tables_are_tables_to_a_screen_reader(opened: Open) -> None:
    with opened(page()) as p:
        assert p.locator("#numbers caption").text_content().startswith("Unlearning results: industrial-brand")
        for table in (".verdicts:visible", "#numbers"):
            assert p.locator(f"{table} th:not([scope])").count() == 0
            assert p.locator(f"{table} th[aria-sort]").count() >= 4
        assert "than the baseline" in p.locator("#numbers").text_content()


def test_a_phone_shows_cards(opened: Open) -> None:
    with opened(page(), width=390, height=844) as p:
        card = p.locator(".verdicts:visible tr[data-row=tracer]")
        assert card.evaluate("node => getComputedStyle(node).display") == "block"
        words = card.locator("td").first.evaluate("node => getComputedStyle(node, '::before').content")
        assert words == '"Forgets"'
        heights = [cell.bounding_box()["y"] for cell in card.locator("td").all()]
        assert heights == sorted(set(heights))
        for name in ("original", "popularity"):
            link = p.locator(f"#numbers tr[data-row={name}] th a")
            assert link.bounding_box()["height"] < 30, f"{name} is broken"
        visit(p, "#/methods")
        assert p.locator(".page:visible a[href*=arxiv]").first.bounding_box()["width"] > 60


def test_the_skip_link_leads_to_the_results(opened: Open) -> None:
    with opened(page()) as p:
        p.keyboard.press("Tab")
        assert p.evaluate("document.activeElement.id") == "skip"
        p.keyboard.press("Enter")
        assert p.evaluate("document.activeElement.id") == "main"


def test_forty_methods_are_in_one_table(opened: Open) -> None:
    with opened(crowd_page()) as p:
        assert p.locator(".verdicts:visible tbody.method tr[data-row]").count() == 40
        p.locator("#numbers thead th").first.locator("button").click()
        assert p.locator("#numbers tbody.method th[scope=row] a").first.inner_text() == "method-00"


def test_paper_gets_no_controls(opened: Open) -> None:
    with opened(page()) as p:
        p.emulate_media(media="print")
        assert p.locator(".controls").is_hidden()
        assert p.locator("#numbers").is_visible()


def test_scripts_off_leave_tables_and_pages(browser: Any, tmp_path: Any) -> None:
    (tmp_path / "index.html").write_text(page(), encoding="utf-8")
    held = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 740})
    p = held.new_page()
    p.goto((tmp_path / "index.html").as_uri())
    assert p.locator(".verdicts:visible").count() == 4
    assert p.locator(".verdicts tr[data-row]").count() == 14 + 14 + 13 + 13
    p.goto((tmp_path / "index.html").as_uri() + "#/method/npo")
    assert p.inner_text("h1:visible") == "npo"
    assert p.locator(".verdicts:visible").count() == 0
    held.close()
