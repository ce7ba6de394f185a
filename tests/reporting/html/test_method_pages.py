"""What pages say of methods and tasks, read from their sources and manifests and never by running them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from genrec_unlearn_bench.registry import methods
from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.html_page import method_pages, task_pages
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from tests.reporting.boards import make_records, make_results, make_synthetic_board
from tests.reporting.html.sites import page_of


def test_every_method_that_ships_has_a_page() -> None:
    pages = method_pages(list(methods()))
    for name, page in pages.items():
        assert page.entry is not None
        assert page.entry.summary, name
        if page.entry.kind == "method" and not page.entry.variant_of:
            assert page.paragraphs, name
    assert {variant.name for variant in pages["tracer"].variants} >= {"tracer-no-mask"}
    assert pages["npo"].paper == "https://arxiv.org/abs/2404.05868"


def test_a_variant_brings_its_method_along() -> None:
    pages = method_pages(["tracer-no-mask", "unheard-of"])
    assert list(pages) == ["tracer-no-mask", "unheard-of", "tracer"]
    assert pages["unheard-of"].entry is None


def test_a_task_page_has_its_data_and_citations() -> None:
    page = task_pages(make_synthetic_board().blocks)["industrial-brand"]
    assert page.data is not None
    assert page.data.name == page.dataset == "industrial"
    assert {citation.key for citation in page.data.citations} == {"kong2025minionerec", "ni2019justifying"}
    assert page.manifest is None


@pytest.mark.slow
def test_a_manifest_beside_the_result_is_shown_if_it_is_the_right_one(tmp_path: Path) -> None:
    results = make_results(make_records(tasks=("sports-brand",), backbones=("tiger",)))
    manifest = {
        "task": "sports-brand",
        "version": 1,
        "dataset": "sports",
        "dataset_digest": "d",
        "kind": "brand",
        "concepts": [f"Brand {n}" for n in range(310)],
        "forget_items": [],
        "forget_interactions": [],
        "train_share": 0.1,
        "draws": 7,
        "within_tolerance": False,
        "retain_history_share": 0.25,
        "counts": {"train_forget": 10, "train_retain": 90},
        "digest": results[0].task_digest,
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    board = make_board([replace(run, folder=tmp_path) for run in results], statistics_protocol(1))
    html = page_of(board)
    assert "<li><bdi>Brand 299</bdi></li></ul><p>… and 10 more.</p>" in html
    assert '<tr><th scope="row">train</th><td class="right">10</td><td class="right">90</td></tr>' in html
    assert "<dt>Within tolerance</dt><dd>no: the nearest draw was taken</dd>" in html
    assert "<dt>Share of train targets</dt><dd>10.0%</dd>" in html
    assert "Concept items</dt>" not in html
    for other in (json.dumps({**manifest, "digest": "another"}), "{"):
        (tmp_path / "manifest.json").write_text(other, encoding="utf-8")
        assert task_pages(board.blocks)["sports-brand"].manifest is None


def test_a_health_report_is_shown(tmp_path: Path) -> None:
    level = {"level": 1, "quantised": True, "size": 256, "used": 200, "perplexity": 99.123, "largest_share": 0.05}
    report = {
        "items": 300,
        "levels": [{**level, "prefixes": 200, "error": 0.5, "nearest_share": None}],
        "collisions": {"items": 4, "largest": 2},
        "quantised_collisions": {"items": 9},
        "prefixes": [{"length": 1, "shared": 3, "brand_pure": 0.5, "category_pure": None, "concept_shared": 0.25}],
    }
    (tmp_path / "sports-brand-tiger-small.json").write_text(json.dumps(report), encoding="utf-8")
    html = page_of(make_synthetic_board(make_records(tasks=("sports-brand",), backbones=("tiger",))), health=tmp_path)
    assert "<h2>Semantic IDs on tiger, small: 300 items</h2>" in html
    for first, *others in (("1", "200/256", "99.1", "5.0%", "200", "0.500", "–"), ("1", "3", "50.0%", "–", "25.0%")):
        assert f'<th scope="row">{first}</th>' + "".join(f'<td class="right">{cell}</td>' for cell in others) in html
