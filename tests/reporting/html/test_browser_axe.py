"""No violation that axe-core finds, on any page, light and dark; skipped where axe is not installed.

``pip install axe-playwright-python`` brings it; its file is read, as the page lets no other script in.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest

from tests.reporting.html.sites import odd_page, page

pytestmark = pytest.mark.slow

Open = Callable[..., Any]
ROUTES: tuple[str, ...] = (
    "#/",
    "#/?layout=attack&row=npo&row=tracer",
    "#/overview",
    "#/methods",
    "#/method/tracer",
    "#/tasks",
)
ROUTES += ("#/task/industrial-brand", "#/guide", "#/submissions")


@pytest.fixture(scope="module")
def axe() -> str:
    pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python")
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened: Open, axe: str, scheme: str, width: int) -> None:
    html = odd_page() if (width, scheme) == (390, "dark") else page()
    with opened(html, width=width, color_scheme=scheme) as p:
        p.evaluate(axe)
        for route in ROUTES:
            p.evaluate("route => { location.hash = route; }", route)
            p.wait_for_timeout(80)
            assert violations(p) == [], route
        p.evaluate("() => { location.hash = '#/'; }")
        p.locator(".verdicts:visible .more").first.click()
        assert violations(p) == [], "dialog"


def violations(page_: Any) -> list[str]:
    found = page_.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [f"{one['id']}: {node['html'][:200]}" for one in found["violations"] for node in one["nodes"][:3]]
