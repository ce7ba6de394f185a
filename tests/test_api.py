"""The Python API: ten names, frames, tasks, figures, and what wrong calls are told."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import genrec_unlearn_bench as bench
from genrec_unlearn_bench import api
from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.errors import BenchError, ConfigError, DataMissing, UnknownName, UsageError
from genrec_unlearn_bench.methods.npo import NPO, NPOConfig
from genrec_unlearn_bench.pipeline import cells
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.results import FinishedRun

RESULTS = Path(__file__).parents[1] / "leaderboard/results"
COLUMNS = [
    *("task", "backbone", "method", "seed", "scale", "suite", "ruleset", "requests"),
    *("metric", "group", "beam", "value", "n", "better"),
    *("diverged", "submission", "badge", "key", "created", "suite_version", "protocol_version", "folder"),
]


@pytest.fixture(autouse=True)
def _own_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("genrec_unlearn_bench.notebook.REGISTERED", {}, raising=True)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """What ships, read where no results of one's own lie: the checkout has some after `make demo`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("empty"))
        return bench.load_results(published=True)


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "pandas", "typer", "pydantic")
    program = f"import sys, genrec_unlearn_bench as b; print(len(b.__all__), [m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "10 []"


def test_reading_results_does_without_torch() -> None:
    program = (
        "import sys, genrec_unlearn_bench as b; b.leaderboard(b.load_results(published=True)); b.available('methods');"
        "print('torch' in sys.modules, b.leaderboard.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # The folder leaderboard/ is a module of the package, too, and must not hide the function.
    assert done.stdout.strip() == "False leaderboard"


def test_every_name_is_documented_with_an_example() -> None:
    assert sorted(bench.__all__) == [name for name in dir(bench) if name in bench.__all__]
    for name in bench.__all__:
        text = getattr(bench, name).__doc__
        assert text
        if not name[0].isupper():
            assert all(part in text for part in ("Returns:", "Raises:", "Example:")), name


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in bench.__all__ if not name[0].isupper()])
def test_examples_do_what_they_say(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GENREC_UNLEARN_BENCH_CACHE", str(tmp_path / "cache"))
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder().find(getattr(api, name), name, globs={"bench": bench}):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_tidy_frames_have_the_columns_of_the_specification(published: pd.DataFrame) -> None:
    assert list(published.columns) == COLUMNS
    assert not published.duplicated(["key", "metric", "group", "beam"]).any()
    assert published["value"].dtype == float
    assert published.query("metric == 'hr@10' and beam == 10 and group == 'retain'")["better"].eq("higher").all()


def test_wide_frames_have_a_row_for_each_run(published: pd.DataFrame) -> None:
    wide = bench.load_results(published=True, wide=True)
    assert wide["folder"].is_unique
    assert set(wide["key"]) == set(published["key"])
    one = published.query("metric == 'hr@10' and group == 'forget' and beam == 10").set_index("folder")["value"]
    assert wide.set_index("folder")["forget:hr@10/10"].dropna().to_dict() == one.dropna().to_dict()


def test_filters_are_names_globs_or_several(published: pd.DataFrame) -> None:
    found = bench.load_results(published=True, task="demo-*", method=["tracer", "retrain"], seed=np.int64(0))
    assert set(found["task"]) == {"demo-brand"}
    assert set(found["method"]) == {"tracer", "retrain"}
    assert set(found["seed"]) == {0}


@pytest.mark.parametrize(
    ("call", "fault", "told"),
    [
        (lambda: bench.available("task_"), UnknownName, "did you mean tasks"),
        (lambda: bench.run("demo-brnd", "npo"), UnknownName, "did you mean demo-brand"),
        (lambda: bench.run("demo-brand", "tracr"), UnknownName, "did you mean tracer"),
        (lambda: bench.run("demo-brand", "tracer", backbone="tigre"), UnknownName, "did you mean tiger"),
        (lambda: bench.run("demo-brand", "tracer", oracle_seed=2), ConfigError, "did you mean 'oracle_seeds'"),
        (lambda: bench.run("demo-brand", "tracer", on_error="stop"), UnknownName, "raise"),
        (lambda: bench.run("demo-brand", int), UsageError, "is no subclass of UnlearningMethod"),
        (lambda: bench.run("demo-brand", NPO(NPOConfig())), UsageError, "pass the class itself"),
        (lambda: bench.run("demo-brand", "npo", seed=[0, -1]), ConfigError, "seed: Input should be greater than"),
        (lambda: bench.run("demo-brand", "npo", seed=1.5), ConfigError, "seed: Input should be a valid integer"),
        (lambda: bench.run("demo-brand", "npo", seed=True), ConfigError, "seed: a number is expected"),
        (lambda: bench.run("demo-brand", "npo", seed=()), UsageError, "no seed was named"),
        (lambda: bench.run("demo-brand", {"npo": {"lr": 0.1}}), UsageError, "one value or a list"),
        (lambda: bench.run("demo-brand", "npo", backbone=None), UnknownName, "unknown backbone"),
        (lambda: bench.run("demo-brand", "npo", method_set={"lr": True}), ConfigError, "lr: a number is expected"),
        (lambda: bench.load_results([]), UsageError, "no folder was named"),
        (lambda: bench.leaderboard([]), UsageError, "no folder was named"),
        (lambda: bench.load_results(published=True, method=[]), UsageError, "no method was named"),
        (lambda: bench.leaderboard(beam=7), UsageError, "the protocol decodes at beam 10 and 50, not 7"),
        (lambda: bench.compare("npo", "filter", metric="forget:hr@10/7"), UsageError, "not 7"),
        (lambda: bench.load_task("demo-brandd"), UnknownName, "did you mean demo-brand"),
        (lambda: bench.load_results("nowhere"), DataMissing, "there is no folder 'nowhere'"),
        (lambda: bench.load_results(published=True, method="tracr"), UnknownName, "did you mean tracer"),
        (lambda: bench.load_results(published=True, taks="x"), UnknownName, "did you mean task"),
        (
            lambda: bench.load_results(published=True, task="demo-brand", seed=77),
            UnknownName,
            "no results of seed '77'",
        ),
        (lambda: bench.leaderboard(layout="mian"), UnknownName, "did you mean main"),
        (lambda: bench.leaderboard(pd.DataFrame({"a": [1]})), UsageError, "no column 'folder'"),
        (lambda: bench.compare("tracer", "nppo"), UnknownName, "did you mean npo"),
        (lambda: bench.plot("paretto"), UnknownName, "did you mean pareto"),
        (lambda: bench.plot("probing", task="demo-brand"), UsageError, "bench run --task demo-brand"),
        (lambda: bench.plot("pareto", method=[]), UsageError, "no method was named"),
        (lambda: bench.plot("pareto", task="steam-price", method="wga"), DataMissing, "no result passes all filters"),
        (lambda: bench.plot("pareto"), UsageError, "figures of the kind 'pareto'"),
    ],
)
def test_wrong_calls_say_what_is_meant(call: Callable[[], Any], fault: type[BenchError], told: str) -> None:
    with pytest.raises(fault) as caught:
        call()
    assert told in str(caught.value)


@pytest.mark.parametrize("seed", [range(2), np.arange(2), ["0", "1"], iter([0, 1])])
def test_seeds_of_any_kind_are_whole_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: Any) -> None:
    """Whatever it is given as: the seed stands in keys and records."""
    asked: list[Any] = []

    def run_cells(requests: Sequence[RunRequest], *_: Any) -> tuple[list[Any], list[Any]]:
        asked.extend(one.seed for one in requests)
        return [], []

    monkeypatch.setattr(cells, "run_cells", run_cells)
    bench.run("demo-brand", "original", seed=seed, oracle_seeds=0, cache_dir=tmp_path)
    assert [(type(one), one) for one in asked] == [(int, 0), (int, 1)]


def test_cells_that_diverged_or_failed_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record_of: Callable[..., RunRecord]
) -> None:
    done = FinishedRun(record_of("npo", diverged=True), tmp_path / "there")

    def run_cells(requests: Sequence[RunRequest], *_: Any) -> tuple[list[Any], list[Any]]:
        return [done], [(requests[0], BenchError("it broke"))]

    monkeypatch.setattr(cells, "run_cells", run_cells)
    with pytest.warns(UserWarning, match="seed 0") as warned:
        found = bench.run("demo-brand", "npo", on_error="warn", results_dir=tmp_path, cache_dir=tmp_path)
    texts = [str(one.message) for one in warned]
    assert texts == ["tiger, original, seed 0: it broke", "tiger, npo, seed 0: diverged: not finite"]
    assert {one.filename for one in warned} == {__file__}
    assert found.empty
    with pytest.raises(BenchError, match="it broke"):
        bench.run("demo-brand", "npo", results_dir=tmp_path, cache_dir=tmp_path)


def test_an_empty_folder_of_results_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").mkdir()
    with pytest.raises(DataMissing, match="run something first"):
        bench.load_results()
    (tmp_path / "results").rmdir()
    with pytest.raises(DataMissing, match="there is no folder 'reslts'"):
        bench.load_results("reslts", published=True)
    assert len(bench.load_results(Path("results"), published=True, task="demo-brand"))
    with pytest.raises(DataMissing, match="no row"):
        bench.leaderboard(bench.load_results(published=True).query("seed == 12345"))
    monkeypatch.setattr("genrec_unlearn_bench.submissions.result_set.SHIPPED", Path("empty"))
    with pytest.raises(DataMissing, match="no published results in this installation"):
        bench.load_results(published=True)


def test_filtered_frames_count_and_edited_values_do_not(published: pd.DataFrame) -> None:
    demo = published.query("task == 'industrial-brand' and backbone == 'tiger' and suite == 'core'")
    whole = bench.leaderboard(demo)
    assert list(whole["forget:hr@10/10"].columns) == ["mean", "low", "high", "verdict"]
    half = bench.leaderboard(demo[demo["method"].isin(["original", "retrain", "tracer"]) & (demo["seed"] < 3)])
    assert half.index.get_level_values("method").tolist() == ["original", "retrain", "tracer"]
    hr = demo.query("method == 'tracer' and seed < 3 and metric == 'hr@10' and group == 'retain' and beam == 10")
    assert half.xs("tracer", level="method")["retain:hr@10/10"]["mean"].item() == pytest.approx(
        hr["value"].mean(), rel=1e-5
    )
    edited = bench.leaderboard(demo.assign(value=0.0))
    pd.testing.assert_frame_equal(edited, whole)


def test_comparisons_have_the_columns_of_the_specification(published: pd.DataFrame) -> None:
    block = published.query("task == 'industrial-brand' and backbone == 'tiger' and suite == 'core'")
    found = bench.compare("tracer", "filter", block, metric="retain:hr@10")
    numbers = ["estimate", "low", "high", "n", "p", "p_holm", "p_sign_flip", "effect"]
    assert list(found.columns) == ["block", "measure", *numbers, "verdict", "detectable", "sentence"]
    assert found["measure"].tolist() == ["retain:hr@10/10"]
    assert found["low"].item() <= found["estimate"].item() <= found["high"].item()


def test_a_figure_is_shown_and_written_in_the_style_of_the_suite(published: pd.DataFrame, tmp_path: Path) -> None:
    figure = bench.plot("pareto", published, task="industrial-brand", backbone="tiger", suite="core", width="column")
    assert figure.get_size_inches()[0] == pytest.approx(3.33, abs=0.01)
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    figure.savefig(tmp_path / "pareto.pdf")
    assert b"/Type3" not in (tmp_path / "pareto.pdf").read_bytes()


def test_a_task_knows_its_items_and_interactions() -> None:
    task = bench.load_task("demo-brand")
    manifest = task.split.manifest
    assert set(task.items.query("concept")["id"]) == set(manifest.forget_items)
    counts = task.interactions.groupby(["part", "forget"]).size()
    for part in ("train", "valid", "test"):
        assert counts[part, True] == manifest.counts[f"{part}_forget"]
        assert counts[part, False] == manifest.counts[f"{part}_retain"]
    assert task.interactions[task.interactions["forget"]]["item"].isin(manifest.forget_items).all()


def test_a_task_as_datasets() -> None:
    pytest.importorskip("datasets")
    task = bench.load_task("demo-brand")
    found = task.to_datasets()
    assert list(found) == ["train", "valid", "test"]
    assert found["test"].num_rows == len(task.split.test.forget) + len(task.split.test.retain)
    first = found["train"][0]
    assert set(first) == {"user", "item", "part", "forget", "history"}
    assert set(first["history"]) <= set(task.items["id"])


def test_a_task_of_ones_own_is_written_beside_the_results(tmp_path: Path) -> None:
    own = tasks()["demo-brand"].model_copy(update={"name": "mine-brand", "seed": 1})
    task = bench.load_task(own)
    assert task.spec.name == "mine-brand"
    with pytest.raises(UnknownName, match="unknown backbone"):
        bench.run(own, "tracer", backbone="tigre")
    assert list((tmp_path / "results" / ".tasks").rglob("mine-brand.yaml"))


def test_a_run_that_is_read_twice_counts_once() -> None:
    folder = RESULTS / "demo-brand"
    once, twice = bench.load_results(folder), bench.load_results([folder, folder / "tiger", folder])
    assert len(once) == len(twice)
    assert not twice.duplicated(["key", "metric", "group", "beam"]).any()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bench.load_results("/absent"), r"wrote to \(results_dir\)"),
        (lambda: bench.load_results(None), "no folder was named, but None"),  # type: ignore[arg-type]
        (lambda: bench.load_results(RESULTS / "demo-brand", protocol=0), "no result of protocol 0"),
        (lambda: bench.leaderboard(RESULTS / "demo-brand", beam=20), "use beam 10 or beam 50"),
        (lambda: bench.compare("tracr", "npo", RESULTS / "demo-brand"), "did you mean tracer"),
        (lambda: bench.load_results(RESULTS / "demo-brand", task="steam-price"), "hint:  published adds"),
        (lambda: bench.run("demo-brand", "npo", method_set={"absent": 1}), "where: method_set"),
        (lambda: bench.leaderboard(RESULTS / "demo-brand", layout="streams"), "bench run --suite full"),
    ],
)
def test_errors_name_arguments_and_whole_commands(call: Callable[[], object], said: str) -> None:
    with pytest.raises(BenchError, match=said):
        call()


def test_columns_of_numbers_stay_so_where_nothing_could_be_tested() -> None:
    one = bench.load_results(RESULTS / "demo-brand", seed=0)
    found = bench.compare("tracer", "npo", one)
    assert all(found[name].dtype == float for name in ("low", "high", "p", "p_holm", "p_sign_flip", "effect"))
    table = bench.leaderboard(one)
    assert all(table[measure, name].dtype == float for measure, name in table.columns if name in ("low", "high"))


def test_a_task_is_shown_in_a_line() -> None:
    assert re.fullmatch(
        r"Task\('demo-brand': \d+ of 400 items to be forgotten; .*\)", repr(bench.load_task("demo-brand"))
    )
