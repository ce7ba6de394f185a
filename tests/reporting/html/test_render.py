"""The page as text: one file, the same bytes every time, and nothing from a record ever becomes markup."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from tempfile import gettempdir

import pytest

from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.html.render import SCRIPTS, data_block
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from tests.reporting.html.sites import ODD, data_of, odd_board, odd_page, page, page_of

SINKS = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "fetch(")
SITE = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / "site"


class Outline(HTMLParser):
    """Elements with their attributes, and the text of scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[dict[str, str | None], str]] = []
        self._inside: dict[str, str | None] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = dict(attrs) if tag in ("script", "style") else None

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.raw.append((self._inside, data))


@pytest.mark.parametrize("make", [page, odd_page])
def test_nothing_is_fetched_and_nothing_else_may_run(make: object) -> None:
    outline = Outline(make())  # type: ignore[operator]
    tags = [tag for tag, _ in outline.elements]
    assert tags.count("script") == 2
    assert tags.count("style") == 1
    assert not {"img", "iframe", "object", "embed", "svg", "base", "form", "audio", "video"} & set(tags)
    for tag, attributes in outline.elements:
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert "style" not in attributes
        if tag == "link":
            assert attributes == {"rel": "icon", "href": "data:,"}
        if tag == "a":
            assert (attributes["href"] or "").startswith("#")


def test_the_policy_names_exactly_these_scripts_and_styles() -> None:
    html = page()
    policy = next(a["content"] for t, a in Outline(html).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")
    for tag in ("script", "style"):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", html, flags=re.DOTALL)
        assert len(text) == 1
        digest = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_scripts_make_no_markup_from_text() -> None:
    for name in SCRIPTS:
        text = (SITE / name).read_text(encoding="utf-8")
        assert text.startswith("// "), f"{name} has no head comment"
        assert len(text.splitlines()) < 300
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "fetch(",
        ):
            assert word not in text, f"{name}: {word}"


def test_every_script_is_in_the_page() -> None:
    assert sorted(entry.name for entry in SITE.iterdir() if entry.name.endswith(".js")) == sorted(SCRIPTS)


def test_odd_names_arrive_as_they_are() -> None:
    data = data_of(odd_page())
    methods = {method for block in data["blocks"] for method in block["method"]}
    assert set(ODD) <= methods
    assert {source["link"] for source in data["sources"]} == {"", "javascript:window.hit=1"}
    # In the table that needs no scripts names are escaped, and shown whole.
    assert "&lt;script&gt;window.hit=1&lt;/script&gt;" in odd_page()
    assert "{{ 7 * 7 }}" in odd_page()


def test_the_data_block_holds_no_markup_at_all() -> None:
    html = odd_page()
    begin = html.index('id="data">') + 10
    block = html[begin : html.index("</script>", begin)]
    assert not set("<>&\u2028\u2029") & set(block)


def test_escaping_keeps_what_is_said() -> None:
    from genrec_unlearn_bench.reporting.html.payload import build_payload

    built = build_payload(odd_board(), statistics_protocol(), title="a\u2028b</script>")
    assert "\u2028" not in data_block(built.payload)
    assert built.payload.model_validate_json(data_block(built.payload)) == built.payload


def test_the_same_results_give_the_same_bytes_in_another_process() -> None:
    program = (
        "import hashlib; from tests.reporting.html.sites import page; "
        "print(hashlib.blake2b(page().encode()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_the_order_of_the_results_does_not_matter() -> None:
    results = [run for block in odd_board().blocks for row in block.rows for run in row.results.values()]
    unique = list({(run.key, run.source.name): run for run in results}.values())
    one, other = (page_of(make_board(order, statistics_protocol())) for order in (unique, unique[::-1]))
    assert one == other


def test_without_scripts_there_is_a_table() -> None:
    html = page()
    head, table = html[: html.index("<table")], html[html.index("<table") : html.index("</table>")]
    assert "<noscript>" in head
    assert table.count("<tr>") == 2 + 14
    assert 'scope="row"' in table
    assert 'scope="col"' in table
    assert "<caption>" in table
    assert "diverged" in html


def test_no_results_make_a_page_that_says_so() -> None:
    html = page_of(make_board([], statistics_protocol()))
    assert "There are no results to show." in html


def test_no_place_of_this_machine_is_in_the_page() -> None:
    html = page()
    for place in (Path.home(), Path.cwd(), Path(gettempdir()), Path(sys.prefix)):
        assert f"{place}/" not in html
