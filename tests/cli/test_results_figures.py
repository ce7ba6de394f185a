"""``bench results figures`` from outside: what is drawn, where it goes, and every fault in words with its exit code."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from tests.reporting.boards import make_records, write_records
from tests.reporting.figures.synthetic import full_records, write_full


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records") / "results"
    write_full(folder, full_records(seeds=(0, 1)))
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def bench(*words: str | Path) -> Result:
    """A call in which every path of a folder names one with results."""
    found = [
        ["--results-dir", str(word)] if isinstance(word, Path) and word.is_dir() else [str(word)] for word in words
    ]
    return CliRunner().invoke(app, ["results", "figures", *(word for part in found for word in part)])


def told(result: Result, code: int = 2) -> str:
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stderr


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_a_figure_and_what_lies_beside_it(records: Path, tmp_path: Path) -> None:
    result = bench(records, "--kind", "quantisation")
    assert result.exit_code == 0, result.output
    name = "quantisation-industrial-brand-tiger-small-tuned-suite-full"
    assert {path.name for path in (tmp_path / "figures").glob("[!.]*")} == {
        f"{name}.{ending}" for ending in ("pdf", "svg", "png", "csv", "txt")
    }
    assert f"figures/{name}" in result.stdout


def test_a_file_of_the_user_s_own_is_kept(records: Path, tmp_path: Path) -> None:
    place = tmp_path / "figures" / "quantisation-industrial-brand-tiger-small-tuned-suite-full.txt"
    place.parent.mkdir()
    place.write_text("mine", encoding="utf-8")
    words = (records, "--kind", "quantisation", "--format", "svg,png")
    assert f"{place.name} exists and was not made by bench" in told(bench(*words))
    assert [path.name for path in place.parent.iterdir()] == [place.name]
    place.unlink()
    for seed in "01":
        assert bench(*words, "--seed", seed).exit_code == 0


def test_results_of_the_folder_one_stands_in_are_the_default(records: Path, tmp_path: Path) -> None:
    (tmp_path / "results").symlink_to(records)
    assert bench("--kind", "quantisation", "--format", "png", "--out", "out").exit_code == 0
    assert len(list((tmp_path / "out").glob("*.png"))) == 1


@pytest.mark.slow
def test_everything_there_is_data_for_and_what_there_is_none_for(records: Path) -> None:
    result = bench(records, "--format", "png", "--json")
    found = json.loads(result.stdout)
    assert {one["kind"] for one in found["figures"]} == {
        *("probing", "relearning", "membership", "forget-quality", "quantisation", "pareto", "stream")
    }
    assert all(Path(path).is_file() for one in found["figures"] for path in one["files"])
    assert {one["kind"] for one in found["skipped"]} == {"overlap"}
    assert all(one["hint"].startswith("bench run") for one in found["skipped"])
    assert all("retrain" in one["caption"] or one["kind"] for one in found["figures"])


def test_rows_and_seeds_may_be_chosen(records: Path) -> None:
    words = (records, "--kind", "probing", "--format", "svg")
    assert bench(*words, "--method", "npo", "--seed", "1", "--out", "one").exit_code == 0
    (sheet,) = Path("one").glob("*.csv")
    assert {row["series"] for row in rows(sheet)} == {"original", "retrain", "npo", "random weights"}
    assert {row["seeds"] for row in rows(sheet)} == {"1"}
    assert bench(*words, "--method", "t*", "--out", "two").exit_code == 0
    (sheet,) = Path("two").glob("*.csv")
    assert "tracer" in {row["series"] for row in rows(sheet)}
    assert {row["seeds"] for row in rows(sheet)} == {"2"}


def test_suites_have_figures_of_their_own(records: Path, tmp_path: Path) -> None:
    write_records(make_records(tasks=("industrial-brand",), backbones=("tiger",), seeds=(0, 1)), tmp_path / "core")
    both = (records, tmp_path / "core", "--kind", "pareto", "--format", "png")
    assert bench(*both).exit_code == 0
    assert {path.stem for path in Path("figures").glob("*.png")} == {
        "pareto-industrial-brand-tiger-small-tuned",
        "pareto-industrial-brand-tiger-small-tuned-suite-full",
    }
    assert bench(*both, "--suite", "core", "--out", "core-alone").exit_code == 0
    assert len(list(Path("core-alone").glob("*.png"))) == 1
    assert "full" in told(bench(*both, "--suite", "ful"))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--kind", "probin"), "probing"),
        (("--kind", "overlap"), "bench run --task industrial-brand"),
        (("--kind", "probing", "--format", "eps"), "pdf, png, svg"),
        (("--width", "wide"), "column, page"),
        (("--method", "traser"), "did you mean tracer"),
        (("--task", "demo-brand"), "no results of task 'demo-brand'"),
        (("--task", "demo-brand"), "--published adds the suite's own; known here: industrial-brand"),
        (("--seed", "7"), "known here: 0, 1"),
        (("--kind", "pareto", "--metric", "forget:hr@10"), "a forget measure and a retain measure"),
        (("--kind", "pareto", "--metric", "forget:hr@12"), "hr@10"),
    ],
)
def test_calls_that_cannot_be_answered_are_refused_in_words(records: Path, words: tuple[str, ...], part: str) -> None:
    result = bench(records, *words)
    assert part in told(result)
    assert not Path("figures").exists()


@pytest.mark.parametrize("file", ["mine.py", "my/mine.py:Mine", "'my own/mine.py'"])
def test_a_method_that_does_not_ship_is_run_by_its_file(tmp_path: Path, file: str) -> None:
    mine = {"mine": (0.3, 0.9)}
    planted = make_records(tasks=("industrial-brand",), backbones=("tiger",), methods=mine, seeds=(0,))
    record = next(one for one in planted if one.cell.method == "mine")
    write_records([record.model_copy(update={"command": f"bench run --method {file} --seed 0"})], tmp_path / "r")
    assert f"--scale small --method {file} --suite full" in told(bench(tmp_path / "r", "--kind", "probing"))


def test_a_table_that_is_broken_is_named(records: Path, tmp_path: Path) -> None:
    write_full(tmp_path / "r", full_records(seeds=(0,)), kinds=("probing",))
    for path in (tmp_path / "r").rglob("probing.csv"):
        path.write_text("model,site,layer,auroc\nrun,prompt,1,high\n", encoding="utf-8")
    assert "'high'" in told(bench(tmp_path / "r", "--kind", "probing"), 1)


def test_a_file_in_the_way_is_told_in_words(records: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    text = told(bench(records, "--kind", "quantisation", "--format", "png", "--out", tmp_path / "file"), 1)
    assert "cannot write" in text
