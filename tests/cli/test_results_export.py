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
    assert sorted(path.name for path in Path("out").iterdir()) == sorted(NAMES)
    lines = Path("out/retain.qrels").read_text(encoding="utf-8").splitlines()
    assert f"out/retain.qrels  ({len(lines)} lines, {len(lines)} queries)" in done.stdout
    assert lines[0].split()[2].startswith("I0"), "the dataset's own ids"


def test_several_runs_go_into_folders_of_their_own(world: World) -> None:
    runs = [folder(world, "npo"), folder(world, "original"), folder(world, "npo")]
    told = json.loads(bench(world, *runs, "--out", "out", "--json").stdout)
    assert [Path(entry["run"]).parent.name for entry in told] == ["npo", "original"]
    places = {Path(file["path"]).parent.name for entry in told for file in entry["files"]}
    assert places == {path.name for path in Path("out").iterdir()}
    assert all("small-seed0" in place for place in places)
    assert all(Path(file["path"]).is_file() for entry in told for file in entry["files"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere/at/all",), "there is no run"),
        (("--format", "csv"), "unknown format 'csv'"),
    ],
)
def test_wrong_calls_write_nothing(world: World, words: tuple[str, ...], said: str) -> None:
    done = bench(world, folder(world, "npo"), *words, "--out", "out")
    assert done.exit_code == 2
    assert said in done.stderr
    assert not Path("out").exists()


def test_a_cache_without_the_lists_is_said_with_the_command(world: World) -> None:
    done = CliRunner().invoke(
        app, ["results", "export", folder(world, "npo"), "--out", "out", "--cache-dir", "elsewhere"]
    )
    assert done.exit_code == 2
    assert "bench run --task world-brand --method npo --set lr=1 --seed 0" in done.stderr
    assert not Path("out").exists()


def test_ids_that_cannot_stand_in_a_column_are_refused(tmp_path: Path) -> None:
    world = make_world(tmp_path, ids=lambda item: f"a{'_ '[item % 2]}b{item // 2}")
    world.add("original", walking)
    done = bench(world, folder(world, "original"), "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert "other ids" in done.stderr
    assert not (tmp_path / "out").exists()


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


def test_a_table_can_be_of_one_run_by_its_key(world: World) -> None:
    key = json.loads((Path(folder(world, "npo")) / "result.json").read_text(encoding="utf-8"))["key"]
    done = bench(world, key[:10], "--format", "parquet", "--out", "out", "--results-dir", str(world.results))
    assert done.exit_code == 0, done.output
    assert "from 1 records" in done.stdout
