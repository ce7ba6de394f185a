"""``bench results examples`` from outside: formats, files, choices, and faults told in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from tests.pipeline.listed_world import World, keeping
from tests.reporting.examples.planted_runs import made_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = made_world(tmp_path_factory.mktemp("world"))
    made.add("rmu", keeping([1]), seed=1)
    made.add("flat", keeping([1]), diverged=True)
    return made


def bench(world: World, *words: str, cache: str = "cache") -> Result:
    places = ("--results-dir", str(world.results), "--cache-dir", str(world.root / cache))
    return CliRunner().invoke(app, ["results", "examples", *words, *places])


def read(world: World, *words: str) -> Any:
    done = bench(world, "--method", "npo,tracer", *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_most_changed_of_the_forget_side_by_default(world: World) -> None:
    page = read(world)
    assert {example["group"] for example in page["examples"]} == {"forget"}
    assert 1 <= len(page["examples"]) <= 5
    assert [shown["label"] for shown in page["examples"][0]["lists"]] == ["original", "retrain", "npo", "tracer"]
    changes = [np.mean([shown["change"] for shown in example["lists"][2:]]) for example in page["examples"]]
    assert changes == sorted(changes, reverse=True)
    assert "overlap@10" in page["rule"]


def test_named_users_on_both_sides_or_on_one(world: World) -> None:
    users = world.split.test.retain.users
    user = next(int(user) for user in world.split.test.forget.users if user in users)
    both = read(world, "--user", str(user), "--ids")
    assert {example["group"] for example in both["examples"]} == {"forget", "retain"}
    assert {example["user"] for example in both["examples"]} == {user}
    one = read(world, "--user", str(user), "--group", "retain", "--beam", "50")
    assert {example["group"] for example in one["examples"]} == {"retain"}
    assert {example["user"] for example in one["examples"]} == {None}
    assert (one["beam"], one["depth"]) == (50, 50)


@pytest.mark.parametrize(("name", "begins"), [("page.html", "<!doctype html>"), ("page.json", "{")])
def test_a_files_name_says_its_format(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, begins: str
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    path = tmp_path / name
    done = bench(world, "--method", "npo", "--top", "1", "--out", str(path))
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(path)
    assert path.read_text(encoding="utf-8").startswith(begins)
    printed = bench(world, "--method", "npo", "--top", "1", "--format", path.suffix[1:]).stdout
    assert [line.rstrip() for line in printed.splitlines()] == path.read_text(encoding="utf-8").splitlines()


def test_a_file_of_the_user_s_own_is_kept(world: World, tmp_path: Path) -> None:
    path = tmp_path / "examples.html"
    path.write_text("mine", encoding="utf-8")
    done = bench(world, "--method", "npo", "--top", "1", "--out", str(path))
    assert done.exit_code == 2
    assert f"{path} exists and was not made by bench" in done.stderr
    assert f"--out {tmp_path / 'bench' / 'examples.html'}" in done.stderr
    assert path.read_text(encoding="utf-8") == "mine"
    for top in "12":
        assert bench(world, "--method", "npo", "--top", top, "--out", str(tmp_path / "b.html")).exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--method", "traser"), "did you mean tracer"),
        (("--method", "npo", "--task", "nowhere"), "unknown task"),
        (("--method", "npo", "--suite", "full"), "no results of suite 'full'"),
        # No option of this command adds the suite's own results.
        (("--method", "scrub"), "no results of method 'scrub'"),
        (("--method", "npo", "--task", "steam-price"), "run it first (bench run); known here: world-brand"),
        (("--method", "npo", "--seed", "4"), "not all rows have a run at seed 4"),
        (("--method", "rmu"), "at no seed all rows have a run"),
        (("--method", "flat"), "flat has none"),
        (("--method", "npo", "--user", "9999"), "no forget or retain test example is of the user 9999"),
        (("--method", "npo", "--group", "both"), "unknown group 'both'"),
        (("--method", "npo", "--beam", "20"), "--beam 10 or --beam 50"),
        (("--method", "npo", "--format", "pdf"), "unknown format 'pdf'"),
        (("--method", "npo", "--format", "html", "--out", "a.json"), "cannot be written to a.json"),
    ],
)
def test_faults_are_told_in_words(world: World, words: tuple[str, ...], said: str) -> None:
    done = bench(world, *words)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert "Traceback" not in done.output
    assert done.stdout == ""


def test_runs_made_elsewhere_are_said_with_their_command(world: World) -> None:
    done = bench(world, "--method", "npo", cache="elsewhere")
    assert done.exit_code == 2
    assert "the cache has no ranked lists of this run" in done.stderr
    assert "bench run --task world-brand --method original --set lr=1 --seed 0" in done.stderr


def test_one_seed_is_taken_not_the_last_of_several(world: World) -> None:
    refused = bench(world, "--method", "npo,tracer", "--seed", "0,1")
    assert refused.exit_code == 2
    assert "'0,1' is no seed; a whole number from 0 up" in refused.output
