"""What pages say of methods and tasks, read from their sources and manifests and never by running them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.html.method_pages import config_fields, known_methods, method_pages
from genrec_unlearn_bench.reporting.html.task_pages import task_pages
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from tests.reporting.boards import make_records, make_results, make_synthetic_board

METHOD = '''"""A method (arXiv 2401.00001).

Second paragraph.
"""
from genrec_unlearn_bench.unlearning.losses.suppression import UnlearningLossConfig
raise SystemExit("this file was run")

class MineConfig(UnlearningLossConfig):
    """Settings."""
    rate: float = Field(default=1e-4, gt=0, json_schema_extra={"search": [1e-5, 1e-4]})
    """How fast."""
    mode: Literal["a", "b"] = "a"

class Mine:
    name = "mine"
    Config = MineConfig
'''


def test_settings_come_from_the_source_with_what_they_inherit(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(METHOD, encoding="utf-8")
    fields = {field.name: field for field in config_fields(tmp_path / "mine.py", "Mine")}
    assert fields["rate"].default == "0.0001"
    assert fields["rate"].search == "1e-05, 0.0001"
    assert fields["rate"].about == "How fast."
    assert fields["mode"].default == "a"
    assert fields["mode"].about == ""
    # Of the class that it extends.
    assert fields["lr"].about
    assert fields["clip"].default == "1.0"


def test_every_method_that_ships_has_a_page_with_its_settings() -> None:
    known = known_methods()
    pages = method_pages(list(known), known=known)
    for name, page in pages.items():
        assert page.summary, name
        if known[name].kind == "method" and not page.variant_of:
            assert page.paragraphs, name
            assert page.file.startswith("methods/")
    assert any(field.search for field in pages["npo"].fields)
    assert all(field.about for field in pages["tracer"].fields)
    assert {name for name, _ in pages["tracer"].variants} >= {"tracer-no-mask"}
    assert pages["npo"].paper == "https://arxiv.org/abs/2404.05868"


def test_a_variant_brings_its_method_along() -> None:
    pages = method_pages(["tracer-no-mask", "unheard-of"], known=known_methods())
    assert list(pages) == ["tracer-no-mask", "unheard-of", "tracer"]
    assert pages["tracer-no-mask"].changes == "mask=off"
    assert pages["unheard-of"].summary == ""


def test_a_task_page_has_its_data_and_citations() -> None:
    page = task_pages(make_synthetic_board().blocks)["industrial-brand"]
    assert page.dataset == "industrial"
    assert {key for key, _ in page.citations} == {"kong2025minionerec", "ni2019justifying"}
    assert page.resolved == ()


def test_a_manifest_beside_the_result_is_shown_if_it_is_the_right_one(tmp_path: Path) -> None:
    results = make_results(make_records(tasks=("sports-brand",), backbones=("tiger",)))
    manifest = {
        "task": "sports-brand",
        "digest": results[0].task_digest,
        "concepts": [f"Brand {n}" for n in range(310)],
        "counts": {"train_forget": 10, "train_retain": 90},
        "train_share": 0.1,
        "draws": 7,
        "within_tolerance": False,
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    blocks = make_board([replace(run, folder=tmp_path) for run in results], statistics_protocol()).blocks
    page = task_pages(blocks)["sports-brand"]
    assert (len(page.concepts), page.more_concepts) == (300, 10)
    assert page.counts == (("train", 10, 90),)
    assert dict(page.resolved)["Within tolerance"] == "no: the nearest draw was taken"
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "digest": "another"}), encoding="utf-8")
    assert task_pages(blocks)["sports-brand"].concepts == ()
    (tmp_path / "manifest.json").write_text("{", encoding="utf-8")
    assert task_pages(blocks)["sports-brand"].concepts == ()


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
    blocks = make_synthetic_board(make_records(tasks=("sports-brand",), backbones=("tiger",))).blocks
    found = task_pages(blocks, health=tmp_path)["sports-brand"].health
    assert found[0].levels == (("1", "200/256", "99.1", "5.0%", "200", "0.500", "–"),)
    assert found[0].prefixes == (("1", "3", "50.0%", "–", "25.0%"),)
