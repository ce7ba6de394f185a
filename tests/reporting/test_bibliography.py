"""Everything in a table can be looked up, and each entry is there once."""

from __future__ import annotations

from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.registry import methods
from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.paper import ALWAYS, bibliography, bibtex_entries, references
from genrec_unlearn_bench.reporting.protocol import find_layout, statistics_protocol
from genrec_unlearn_bench.reporting.results import Source
from genrec_unlearn_bench.reporting.tables import make_tables
from genrec_unlearn_bench.reporting.wording import leaderboard_text
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
    entries = [entry.key for entry in bibtex_entries(books.text)]
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


def test_what_a_submission_brings_never_becomes_tex() -> None:
    ours = make_results(make_records(tasks=("industrial-brand",), backbones=("tiger",)))
    theirs = make_results(
        make_records(tasks=("industrial-brand",), backbones=("tiger",), methods={"mine": (0.2, 0.9)}, references={}),
        source=Source(name="my-submission", bibtex=r"@misc{doe2026, title = {\input{x}}, author = {A}, year = 2026}"),
    )
    board = make_board([*ours, *theirs], statistics_protocol(1))
    books = bibliography(make_tables(board, find_layout("main", 1), statistics_protocol(1)))
    assert "\\input" not in books.text
    assert "method:mine" not in books.keys


def test_every_entry_of_the_file_is_read_and_complete() -> None:
    text = leaderboard_text("references.bib")
    entries = bibtex_entries(text)
    assert len(entries) == text.count("\n@")
    for entry in entries:
        assert {"title", "author", "year", "keywords"} <= entry.fields.keys(), entry.key
        assert "\n}" not in entry.text()[:-2]
