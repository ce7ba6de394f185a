"""A headless browser for the tests of pages, or a reason why there is none. One a session: a second would not start."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 8000
"""Milliseconds that anything may take."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
    place = next((found for name in NAMES if (found := shutil.which(name))), None)
    if place is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the path")
    with sync_api.sync_playwright() as playwright:
        # Tests may run as root in a container, where the sandbox cannot start; the pages are our own.
        started = playwright.chromium.launch(executable_path=place, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """``with opened(html, "#/route", width=…) as page``: opened from a file; any error of the page fails the test."""
    files: dict[int, Path] = {}

    @contextmanager
    def opener(html: str, route: str = "", *, width: int = 1440, height: int = 900, **context: Any) -> Iterator[Page]:
        if id(html) not in files:
            files[id(html)] = tmp_path_factory.mktemp("site") / "index.html"
            files[id(html)].write_text(html, encoding="utf-8")
        held = browser.new_context(viewport={"width": width, "height": height}, **context)
        held.set_default_timeout(PATIENCE)
        page = held.new_page()
        faults: list[str] = []
        page.on("console", lambda message: faults.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.on("request", lambda request: faults.append(request.url) if not _local(request.url) else None)
        page.goto(files[id(html)].as_uri() + route)
        try:
            yield page
            assert page.evaluate("window.hit") is None
            assert faults == []
        finally:
            held.close()

    return opener


def _local(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:"))
