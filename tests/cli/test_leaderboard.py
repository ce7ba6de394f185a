"""``bench leaderboard`` from outside: formats, filters, files, and every fault in words with its exit code."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.reporting.selection import chosen
from tests.reporting.boards import make_records, write_records
from tests.reporting.planting import planted_record

METHODS = {"tracer": (0.28, 0.98), "npo": (0.45, 0.90)}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records") / "results"
    write_records(make_records(methods=METHODS, seeds=(0, 1, 2)), folder)
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def bench(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["leaderboard", *map(str, words)])


def told(result: Result, code: int) -> str:
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stderr


def test_results_of_the_folder_one_stands_in_are_the_default(records: Path, tmp_path: Path) -> None:
    (tmp_path / "results").symlink_to(records)
    result = bench()
    assert result.exit_code == 0
    assert "industrial-brand on letter" in result.stdout
    assert "Protocol 1, statistics 4" in result.stdout


@pytest.mark.parametrize("name", ["md", "csv", "json", "latex", "html"])
def test_every_format_goes_to_stdout_and_is_what_a_file_gets(records: Path, tmp_path: Path, name: str) -> None:
    suffix = {"latex": "tex"}.get(name, name)
    printed = bench("--results-dir", records, "--format", name)
    assert printed.exit_code == 0, printed.output
    assert bench("--results-dir", records, "--out", tmp_path / f"table.{suffix}").exit_code == 0
    written = (tmp_path / f"table.{suffix}").read_bytes().decode()
    assert printed.stdout == written
    assert ("TRACER" if name == "latex" else "tracer") in written


def test_a_folder_gets_every_format_and_its_companions(records: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "tables"
    result = bench(
        "--results-dir", records, "--format", "md,csv,json,latex,html", "--out", out, "--bib", "--standalone"
    )
    assert result.exit_code == 0, result.output
    names = {path.name for path in out.glob("[!.]*")}
    assert names >= {
        "main.md",
        "main-long.csv",
        "main.json",
        "main.tex",
        "main.bib",
        "main-statistics.tex",
        "index.html",
    }
    assert set(result.stdout.split()) == {str(out / name) for name in names}
    assert r"\documentclass" in (out / "main.tex").read_text(encoding="utf-8")


def test_a_latex_file_gets_its_bibliography_beside_it(records: Path, tmp_path: Path) -> None:
    assert bench("--results-dir", records, "--out", tmp_path / "paper.tex", "--bib").exit_code == 0
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == ["paper.bib", "paper.tex"]


FOREIGN = "my own paper"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("main.tex", ("--format", "md,latex", "--bib")),
        ("main.bib", ("--format", "latex", "--bib")),
        ("main-statistics.tex", ("--format", "latex")),
        ("main.md", ("--format", "csv,md")),
        ("main-long.csv", ("--format", "csv")),
        ("main.json", ("--format", "json")),
        ("index.html", ("--format", "html")),
    ],
)
def test_a_file_of_the_user_s_own_is_never_replaced(
    records: Path, tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / name).write_text(FOREIGN, encoding="utf-8")
    call = ("--results-dir", records, *words, "--out")
    text = told(bench(*call, "paper"), 2)
    assert f"paper/{name} exists and was not made by bench" in text
    assert "--out paper/bench" in text
    assert [(path.name, path.read_text(encoding="utf-8")) for path in (tmp_path / "paper").iterdir()] == [
        (name, FOREIGN)
    ]
    # The hint's call works, and over its own files as well, though their content is another.
    assert bench(*call, "paper/bench").exit_code == 0
    before = (tmp_path / "paper" / "bench" / name).read_bytes()
    more = () if name in ("index.html", "main.bib") else ("--task", "sports-brand")
    assert bench(*call, "paper/bench", *more).exit_code == 0
    assert not more or (tmp_path / "paper" / "bench" / name).read_bytes() != before


def test_neither_is_one_beside_a_single_file(records: Path, tmp_path: Path) -> None:
    Path("paper.bib").write_text(FOREIGN, encoding="utf-8")
    text = told(bench("--results-dir", records, "--out", "paper.tex", "--bib"), 2)
    assert "paper.bib exists and was not made by bench" in text
    assert "--out bench/paper.tex" in text
    assert not Path("paper.tex").exists()


def test_the_same_call_gives_the_same_bytes(records: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert bench("--results-dir", records, "--format", "md,csv,json,latex,html", "--out", name).exit_code == 0
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def long(*words: str | Path) -> list[dict[str, str]]:
    result = bench("--format", "csv", *words)
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))


def test_filters_take_names_and_globs(records: Path) -> None:
    rows = long("--results-dir", records, "--task", "sports-*", "--backbone", "tiger")
    assert {(row["task"], row["backbone"]) for row in rows} == {("sports-brand", "tiger")}
    rows = long("--results-dir", records, "--task", "sports-brand,industrial-brand", "--backbone", "t*,letter")
    assert len({(row["task"], row["backbone"]) for row in rows}) == 4


def test_a_backbone_goes_by_its_name_without_its_note() -> None:
    assert chosen("mor (from scratch)", ["mor"])
    assert chosen("mor (from scratch)", ["mor (from scratch)"])
    assert not chosen("mor (from scratch)", ["mo"])
    assert not chosen("mor", ["mor (from scratch)"])


def test_naming_a_method_hides_others_and_changes_no_test(records: Path) -> None:
    every = {(row["task"], row["backbone"], row["row"], row["measure"]): row for row in long("--results-dir", records)}
    rows = long("--results-dir", records, "--method", "tr*")
    assert {row["row"] for row in rows if row["kind"] == "method"} == {"tracer"}
    assert {row["row"] for row in rows if row["kind"] == "reference"} >= {"original", "retrain"}
    for row in rows:
        assert row == every[row["task"], row["backbone"], row["row"], row["measure"]]
    assert "1 method not selected" in bench("--results-dir", records, "--method", "tracer").stdout


def test_reference_rows_alone_make_no_table(records: Path) -> None:
    words = told(bench("--results-dir", records, "--method", "retrain"), 2)
    assert "retrain: reference rows alone" in words
    assert "name a method as well" in words
    assert "reference rows alone" not in told(
        bench("--results-dir", records, "--layout", "ablation", "--method", "npo"), 2
    )


def test_unknown_names_get_the_nearest(records: Path) -> None:
    assert "did you mean tracer" in told(bench("--results-dir", records, "--method", "traser"), 2)
    assert "'foo-*'" in told(bench("--results-dir", records, "--task", "foo-*"), 2)
    assert "did you mean tiger" in told(bench("--results-dir", records, "--backbone", "tigr", "--scale", "big"), 2)
    assert "tuned" in told(bench("--results-dir", records, "--ruleset", "fixed"), 2)
    assert "main" in told(bench("--results-dir", records, "--layout", "mian"), 2)
    assert "json" in told(bench("--results-dir", records, "--format", "jsn"), 2)
    assert "hr@10" in told(bench("--results-dir", records, "--metric", "forget:hr@12"), 2)
    assert "forget:hr@10" in told(bench("--results-dir", records, "--metric", "hr@10"), 2)
    assert "original" in told(bench("--results-dir", records, "--baseline", "orignal"), 2)
    assert "reported" in told(bench("--results-dir", records, "--compare", "paper"), 2)


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        ("--task steam-price", "no results of task 'steam-price'", "--published adds the suite's own; known here: ind"),
        ("--task steam-*", "no results of task 'steam-*'", "--published adds the suite's own; known here: ind"),
        # Nobody has published results of it.
        ("--task steam-item", "no results of task 'steam-item'", "run it first (bench run); known here: ind"),
        ("--task steam-prise", "unknown task 'steam-prise'", "did you mean steam-price or "),
        ("--backbone p5sid", "no results of backbone 'p5sid'", "--published adds the suite's own; known here: letter"),
        ("--method scrub", "no results of method 'scrub'", "--published adds the suite's own; known here: fil"),
        ("--method scrubb", "unknown method 'scrubb'", "(--published adds the suite's own)"),
        ("--scale official", "no results of scale 'official'", "run it first (bench run); known here: small"),
        ("--suite full", "no results of suite 'full'", "--published adds the suite's own; known here: core"),
        ("--ruleset fixed", "no results of ruleset 'fixed'", "--published adds the suite's own; known here: tuned"),
        ("--scale smoke", "no results of scale 'smoke'", "--published adds the suite's own; known here: small"),
    ],
)
def test_what_has_no_results_here_is_not_called_unknown(records: Path, words: str, what: str, hint: str) -> None:
    text = told(bench("--results-dir", records, *words.split()), 2)
    assert f"error: {what}\n" in text
    assert f"where: {records}\n" in text
    assert hint in text


@pytest.mark.parametrize(("task", "code"), [("steam-price", 0), ("steam-item", 2)])
def test_the_suites_own_results_are_added_as_the_hint_says(records: Path, task: str, code: int) -> None:
    added = bench("--results-dir", records, "--protocol", "2", "--published", "--task", task)
    assert added.exit_code == code


def test_a_near_name_of_the_call_s_own_results_needs_no_option(records: Path) -> None:
    assert "published" not in told(bench("--results-dir", records, "--task", "sportz-brand"), 2)


def test_own_columns_take_the_place_of_a_layouts(records: Path) -> None:
    result = bench(
        "--results-dir", records, "--metric", "forget:gap.hr@10,retain:hr@5", "--metric", "cost.*", "--format", "json"
    )
    columns = [column["measure"] for column in json.loads(result.stdout)["tables"][0]["columns"]]
    assert columns[:2] == ["forget:gap.hr@10/10", "retain:hr@5/10"] or "forget:gap.hr@10/10" in columns
    assert "cost.unlearn-seconds" in columns


def test_another_baseline_is_tested_against(records: Path) -> None:
    rows = long("--results-dir", records, "--baseline", "npo")
    assert {row["baseline"] for row in rows if row["baseline"]} == {"npo"}


def test_the_papers_numbers_stand_beside(records: Path) -> None:
    result = bench("--results-dir", records, "--compare", "reported", "--format", "md")
    assert "## Reported beside ours" in result.stdout
    assert "151 of 160 reported rows" in result.stdout


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--format", "md,csv"), "md and csv cannot be written to stdout"),
        (("--format", "md,csv", "--out", "x.md"), "md and csv cannot be written to x.md"),
        (("--format", "csv", "--out", "x.md"), "csv cannot be written to x.md"),
        (("--format", "terminal", "--out", "x"), "terminal cannot be written to x"),
        (("--layout", "item"), "kind item"),
        (("--layout", "attack", "--beam", "10", "--metric", "forget:relearning.*"), "no result has"),
        (("--format", "html", "--beam", "50"), "a page has all rows and layouts"),
        (("--format", "html", "--method", "npo"), "a page has all rows and layouts"),
    ],
)
def test_calls_that_cannot_be_answered_are_refused_in_words(records: Path, words: tuple[str, ...], part: str) -> None:
    assert part in told(bench("--results-dir", records, *words), 2)


def test_another_protocol_has_its_own_exit_code(tmp_path: Path) -> None:
    write_records([planted_record("tracer", 0, {"forget:hr@10": 0.1}, protocol_version=9)], tmp_path / "r")
    assert "protocol 9" in told(bench("--results-dir", tmp_path / "r"), 3)


def test_broken_records_stop_the_call_unless_told_otherwise(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    write_records(make_records(methods=METHODS, seeds=(0, 1)), folder)
    broken = sorted(folder.rglob("result.json"))[0]
    broken.write_text("{", encoding="utf-8")
    assert str(broken) in told(bench("--results-dir", folder), 1)
    result = bench("--results-dir", folder, "--skip-broken")
    assert result.exit_code == 0
    assert "records that cannot be read: 1" in result.stdout
    assert str(broken) in result.stderr


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert "no folder" in told(bench("--results-dir", tmp_path / "absent"), 2)


def test_a_file_in_the_way_is_told_in_words(records: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    text = told(bench("--results-dir", records, "--format", "md", "--out", tmp_path / "file" / "x.md"), 1)
    assert "cannot write" in text


def test_submissions_stand_beside_the_suites_results(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from genrec_unlearn_bench.reporting.results import Source
    from genrec_unlearn_bench.submissions import result_set as sources

    theirs = Source(name="them", badge_text="re-scored")
    write_records((record.model_copy(update={"key": record.key[::-1]}) for record in make_records()), tmp_path)
    monkeypatch.setattr(sources, "published_sources", lambda root: [(Source(), records), (theirs, tmp_path)])
    rows = long("--published", "--results-dir", records)
    badges = {row["row"]: (row["source"], row["badge"]) for row in rows}
    assert badges["tracer (them)"] == ("them", "re-scored")
    assert badges["tracer (ours)"] == ("", "self-reported")
    # Nobody's reference rows but ours.
    assert badges["original"] == ("", "self-reported")
    assert not [label for label in badges if label.startswith("original (")]


@pytest.mark.parametrize("there", [True, False])
def test_published_files_are_looked_through_once(records: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    from genrec_unlearn_bench.reporting.results import Source, load_results
    from genrec_unlearn_bench.submissions import result_set

    asked: list[Path] = []

    def published(root: Path) -> list[tuple[Source, Path]]:
        asked.append(root)
        return [(Source(), records)] if there else []

    monkeypatch.setattr(result_set, "published_sources", published)
    found = result_set.load_every_protocol([records], skip_broken=False)
    assert len(found.results) == len(load_results([records]).results) * (2 if there else 1)
    assert len(asked) == 1
