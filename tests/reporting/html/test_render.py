"""The page as text: one file, the same bytes every time, and nothing from a record ever becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
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
from genrec_unlearn_bench.reporting.html_page import SCRIPTS, data_block
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.verdicts import sort_key
from tests.reporting.boards import make_records, make_synthetic_board
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
            outward = ("https://arxiv.org/abs/", "http://x.y/")
            assert (attributes["href"] or "").startswith(("#", *outward))
            assert (attributes["href"] or "").startswith("#") or "noopener" in (attributes["rel"] or "")


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
        for word in SINKS:
            assert word not in text, f"{name}: {word}"


def test_every_script_is_in_the_page() -> None:
    assert sorted(entry.name for entry in SITE.iterdir() if entry.name.endswith(".js")) == sorted(SCRIPTS)


def test_odd_names_arrive_as_they_are() -> None:
    data = data_of(odd_page())
    assert set(ODD) <= {row["method"] for block in data["blocks"] for row in block["rows"]}
    # In the static tables names are escaped, and shown whole.
    assert "&lt;script&gt;window.hit=1&lt;/script&gt;" in odd_page()
    assert "{{ 7 * 7 }}" in odd_page()
    assert 'href="javascript:' not in odd_page()
    assert "<p>javascript:window.hit=1</p>" in odd_page()


def test_the_data_block_holds_no_markup_at_all() -> None:
    html = odd_page()
    begin = html.index('id="data">') + 10
    block = html[begin : html.index("</script>", begin)]
    assert not set("<>&\u2028\u2029") & set(block)


def test_escaping_keeps_what_is_said() -> None:
    content = {"a\u2028b</script>": ["<!--", "&amp;", 1.5]}
    assert not set("<>&\u2028") & set(data_block(content))
    assert json.loads(data_block(content)) == content


@pytest.mark.slow
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
    one, other = (page_of(make_board(order, statistics_protocol(1))) for order in (unique, unique[::-1]))
    assert one == other


def test_without_scripts_every_block_has_a_table_of_verdicts() -> None:
    html = page()
    assert "<noscript>" in html
    tables = re.findall(r'<table class="verdicts">.*?</table>', html, flags=re.DOTALL)
    data = data_of(html)
    assert len(tables) == len(data["blocks"]) == 4
    first = data["blocks"][data["start"]]
    # The one that the page opens on comes first.
    assert f"Verdicts: {first['title']}</caption>" in tables[0]
    assert tables[0].count("<tr data-row=") == len(first["rows"])
    assert 'scope="row"' in tables[0]
    assert any("diverged" in table for table in tables)
    for row in first["rows"]:
        for verdict in (row["verdicts"] or {}).values():
            assert verdict["verdict"] in tables[0]


def test_rows_are_in_the_order_of_their_verdicts() -> None:
    data = data_of(page())
    block = data["blocks"][data["start"]]
    shown = re.findall(r'<tr data-row="([^"]+)"', page())[: len(block["rows"])]
    methods = {row["label"]: sort_key(row["order"]) for row in block["rows"] if row["kind"] == "method"}
    orders = [methods[label] for label in shown if label in methods]
    assert orders == sorted(orders)
    assert shown[-3:] == ["original", "retrain", "popularity"]


def test_it_links_to_papers_and_names_code() -> None:
    assert '<a href="https://arxiv.org/abs/2606.07688" rel="noopener noreferrer">' in page()
    assert "<code>methods/tracer.py</code>" in page()


def test_docstrings_are_shown_without_their_backticks() -> None:
    assert "<code>tracer-paper</code> is eqs. 6 to 11 as printed" in page()
    assert "``" not in page()


def test_the_guide_explains_the_words_of_the_page() -> None:
    guide = page()[page().index('id="/guide"') :]
    words = ("(from scratch)", "mor: MiniOneRec", "smoke:", "tuned:", "Suite full", "re-scored:", "+ means", "Oracle")
    for word in (*words, "1–12 ab", "Whisker", "sasrec", "CITATION.cff"):
        assert word in guide, word
    assert ">5 training seeds.</span>" in page()


def test_notes_are_of_one_block_and_small_numbers_of_blocks_one_sentence() -> None:
    for block in data_of(page())["blocks"]:
        for layout in block["layouts"].values():
            places = re.findall(r"\bon (letter|tiger)\b|\bwith (letter|tiger)\b", " ".join(layout["notes"]))
            assert {name for pair in places for name in pair if name} <= {block["backbone"]}
    assert page().count("Methods are ranked across blocks") == 1
    assert "so far there are 4 at scale small, ruleset tuned." in page()


def test_no_results_make_a_page_that_says_so() -> None:
    html = page_of(make_board([], statistics_protocol(1)))
    assert "There are no results to show." in html


def test_no_place_of_this_machine_is_in_the_page() -> None:
    html = page()
    for place in (Path.home(), Path.cwd(), Path(gettempdir()), Path(sys.prefix)):
        assert f"{place}/" not in html


def test_a_task_on_data_that_does_not_ship_has_its_page(tmp_path: Path) -> None:
    published = resources.files("genrec_unlearn_bench.leaderboard") / "results" / "manifests" / "industrial-brand.json"
    manifest = json.loads(published.read_text(encoding="utf-8"))
    (tmp_path / "my-shop-brand.json").write_text(
        json.dumps({**manifest, "task": "my-shop-brand", "dataset": "my-shop"})
    )
    board = make_synthetic_board(make_records(tasks=("my-shop-brand",), backbones=("tiger",)))
    assert "<h2>Data: my-shop</h2>" in page_of(board, manifests=tmp_path)
