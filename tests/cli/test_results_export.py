"""``bench results export``: what was written is said, and nothing is written where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from tests.pipeline.listed_world import World, keeping, make_world, walking


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    made = make_world(tmp_path)
    made.add("original", walking)
    made.add("npo", keeping(range(10)))
    return made


def bench(world: World, *words: str) -> Result:
    return CliRunner().invoke(app, ["results", "export", *words, "--cache-dir", str(world.root / "cache")])


def folder(world: World, method: str) -> str:
    return str(next(world.results.rglob(f"{method}/*/result.json")).parent)


NAMES = [f"{group}.{end}" for group in ("forget", "retain") for end in ("qrels", "beam10.run", "beam50.run")]


def test_one_run_goes_into_the_folder(world: World) -> None:
    done = bench(world, folder(world, "npo"), "--out", "out")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in Path("out").glob("[!.]*")) == sorted(NAMES)
    assert "out/retain.qrels" in done.stdout


def test_several_runs_go_into_folders_of_their_own(world: World) -> None:
    runs = [folder(world, "npo"), folder(world, "original"), folder(world, "npo")]
    told = json.loads(bench(world, *runs, "--out", "out", "--json").stdout)
    assert [Path(entry["run"]).parent.name for entry in told] == ["npo", "original"]
    places = {Path(file).parent.name for entry in told for file in entry["files"]}
    assert places == {path.name for path in Path("out").iterdir()}
    assert all("small-seed0" in place for place in places)
    assert all(Path(file).is_file() for entry in told for file in entry["files"])


@pytest.mark.parametrize(
    ("words", "said"), [(("nowhere/at/all",), "there is no run"), (("--format", "csv"), "unknown format 'csv'")]
)
def test_wrong_calls_write_nothing(world: World, words: tuple[str, ...], said: str) -> None:
    done = bench(world, folder(world, "npo"), *words, "--out", "out")
    assert done.exit_code == 2
    assert said in done.stderr
    assert not Path("out").exists()


@pytest.mark.parametrize(("form", "name"), [("trec", "retain.qrels"), ("parquet", "README.md")])
def test_a_file_of_the_user_s_own_is_kept(world: World, form: str, name: str) -> None:
    Path("out").mkdir()
    Path("out", name).write_text("mine", encoding="utf-8")
    run = folder(world, "npo") if form == "trec" else str(world.results)
    done = bench(world, run, "--format", form, "--out", "out")
    assert done.exit_code == 2, done.output
    assert f"out/{name} exists and was not made by bench" in done.stderr
    assert "--out out/bench" in done.stderr
    assert [path.name for path in Path("out").iterdir()] == [name]
    for _ in range(2):
        assert bench(world, run, "--format", form, "--out", "out/bench").exit_code == 0


def test_a_cache_without_the_lists_is_said_with_the_command(world: World) -> None:
    done = CliRunner().invoke(
        app, ["results", "export", folder(world, "npo"), "--out", "out", "--cache-dir", "elsewhere"]
    )
    assert done.exit_code == 2
    assert "bench run --task world-brand --method npo --set lr=1 --seed 0" in done.stderr
    assert not Path("out").exists()


def test_all_metrics_go_into_one_table_that_datasets_reads(world: World) -> None:
    import datasets
    import pandas as pd

    import genrec_unlearn_bench as suite

    done = bench(world, str(world.results), "--format", "parquet", "--out", "out")
    assert done.exit_code == 0, done.output
    found = pd.read_parquet("out/results.parquet")
    own = suite.load_results(world.results).drop(columns="folder")
    pd.testing.assert_frame_equal(found.astype(own.dtypes.to_dict()), own)
    assert f"({len(own)} rows from 2 records)" in done.stdout
    assert "original" in Path("out/README.md").read_text(encoding="utf-8")
    loaded = datasets.load_dataset("out", split="train", cache_dir="hub")
    assert loaded.column_names == list(own.columns)
    assert len(loaded) == len(own)
