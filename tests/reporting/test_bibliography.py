"""Everything in a table can be looked up, and each entry is there once."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.registry import methods
from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.latex_text import parse_bibtex
from genrec_unlearn_bench.reporting.paper import ALWAYS, bibliography, references
from genrec_unlearn_bench.reporting.protocol import find_layout, statistics_protocol
from genrec_unlearn_bench.reporting.results import Source
from genrec_unlearn_bench.reporting.tables import Table, make_tables
from tests.reporting.boards import make_records, make_results, make_synthetic_tables


def test_every_shipped_method_has_an_entry() -> None:
    known = references()
    missing = [entry.name for entry in methods().values() if f"method:{entry.variant_of or entry.name}" not in known]
    assert missing == []


def test_every_backbone_has_an_entry() -> None:
    from genrec_unlearn_bench.listing import names_of

    names = names_of("backbones")
    assert names
    assert [name for name in names if f"backbone:{name}" not in references()] == []


def test_every_dataset_has_an_entry_and_every_task_its_dataset() -> None:
    known = references()
    assert [name for name in packaged_datasets() if f"dataset:{name}" not in known] == []
    assert {task.dataset for task in tasks().values()} <= set(packaged_datasets())


def test_every_statistic_has_an_entry() -> None:
    assert [name for name in (*ALWAYS, "statistics:friedman", "statistics:sign-flip") if name not in references()] == []


def test_a_table_brings_its_own_entries_and_no_others() -> None:
    books = bibliography(make_synthetic_tables("main"))
    entries = [entry.key for entry in parse_bibtex(books.text, where="text")]
    assert entries == sorted(set(entries))
    assert books.keys["method:tracer-no-coherence"] == ("chen2026tracer",)
    assert books.keys["backbone:tiger"] == ("rajput2023recommender",)
    assert books.keys["dataset:industrial"] == ("kong2025minionerec", "ni2019justifying")
    assert "kurmanji2023unbounded" not in entries
    assert "friedman1937use" not in entries
    assert {key for keys in books.keys.values() for key in keys} == set(entries)
    assert "keywords" not in books.text


def test_friedman_and_the_sign_flip_join_when_they_are_used() -> None:
    records = make_records(tasks=[f"t{n}-brand" for n in range(10)], backbones=("tiger",), seeds=range(6))
    books = bibliography(make_synthetic_tables("main", records))
    assert "friedman1937use" in books.cited("statistics:friedman")
    assert books.cited("statistics:sign-flip") == ("fisher1935design",)


def submitted(bibtex: str) -> tuple[Table, ...]:
    ours = make_results(make_records(tasks=("industrial-brand",), backbones=("tiger",)))
    theirs = make_results(
        make_records(tasks=("industrial-brand",), backbones=("tiger",), methods={"mine": (0.2, 0.9)}, references={}),
        source=Source(name="my-submission", bibtex=bibtex),
    )
    protocol = statistics_protocol(1)
    board = make_board([*ours, *theirs], protocol)
    return make_tables(board, find_layout("main", 1), protocol)


@pytest.mark.parametrize(
    ("key", "expected"), [("doe2026", "doe2026"), ("chen2026tracer", "mysubmission:chen2026tracer")]
)
def test_submissions_bring_theirs(key: str, expected: str) -> None:
    books = bibliography(submitted(f"@misc{{{key}, title = {{Mine}}, author = {{Doe, J.}}, year = 2026}}"))
    assert books.keys["method:mine"] == (expected,)
    assert f"@misc{{{expected}," in books.text


def test_bibtex_that_cannot_be_used_is_left_out() -> None:
    books = bibliography(submitted(r"@misc{a, title = {\input{x}}, author = {A}, year = 2026}"))
    assert "\\input" not in books.text
    assert "method:mine" not in books.keys
