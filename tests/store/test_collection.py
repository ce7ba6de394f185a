"""What goes and what stays when a store is collected, and what a listing says of it."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.inventory import (
    Policy,
    collect,
    entries,
    keys_of_results,
    leftovers,
    list_store,
    select,
)
from genrec_unlearn_bench.store.manifest import StoredStage, content_key, write_manifest
from genrec_unlearn_bench.store.store import StageStore, old_store_notice, try_lock
from tests.store.small_store import make, recipe

DAY = 86400.0


def aged(root: Path, number: int, days: float, name: str = "original", **more: Any) -> StoredStage:
    """A stage that was last read so many days ago."""
    stored = make(root, number, name, **more)
    then = time.time() - days * DAY
    os.utime(stored.path, (then, then))
    return stored


def keys(root: Path) -> set[str]:
    return {entry.key for entry in entries(root)}


def gc(root: Path, *words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["cache", "gc", "--cache-dir", str(root), "--json", *words])
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def test_what_was_not_read_for_long_goes_and_only_with_a_yes(tmp_path: Path) -> None:
    old, new = aged(tmp_path, 0, 40), aged(tmp_path, 1, 10)
    told = gc(tmp_path, "--older-than", "30d")
    assert (told["stages"], told["removed"], told["reasons"]) == (1, False, {"older": 1})
    assert told["seconds"]["original"] >= 0
    assert keys(tmp_path) == {old.key, new.key}
    assert gc(tmp_path, "--older-than", "30d", "--yes")["removed"]
    assert keys(tmp_path) == {new.key}
    assert list(tmp_path.rglob(".*")) == [], "no lock and no draft stays behind"


def test_reading_a_stage_keeps_it(tmp_path: Path) -> None:
    aged(tmp_path, 0, 40)
    assert make(tmp_path, 0).cached
    assert gc(tmp_path, "--older-than", "30d")["stages"] == 0


def test_beyond_a_size_those_read_longest_ago_go_first(tmp_path: Path) -> None:
    stages = [aged(tmp_path, number, 10 - number) for number in range(5)]
    size = next(entries(tmp_path)).size
    chosen = select(entries(tmp_path), Policy(max_size=3 * size + 200))
    assert [one.path for one in chosen] == [stages[0].path, stages[1].path]
    assert select(entries(tmp_path), Policy(max_size=10 * size)) == []


def test_what_was_read_within_a_day_stays_unless_it_is_said(tmp_path: Path) -> None:
    aged(tmp_path, 0, 0.5)
    assert gc(tmp_path, "--max-size", "0")["stages"] == 0
    assert gc(tmp_path, "--max-size", "0", "--recent")["stages"] == 1


def test_what_results_were_made_from_stays_with_its_inputs(tmp_path: Path) -> None:
    root, results = tmp_path / "cache", tmp_path / "results"
    sids = aged(root, 0, 40, "sids")
    kept = aged(root, 0, 40, inputs={"sids": sids.key})
    aged(root, 1, 40)
    folder = results / "demo-brand" / "tiger" / "npo" / "smoke-seed0-aa"
    folder.mkdir(parents=True)
    record = {"cell": {"task": "demo-brand"}, "stages": [{"key": kept.key}, {"key": "gone"}]}
    (folder / "result.json").write_text(json.dumps(record))
    assert keys_of_results([results]) == {kept.key, "gone"}
    assert gc(root, "--results-dir", str(results), "--yes")["reasons"] == {"not kept": 1}
    assert keys(root) == {kept.key, sids.key}
    assert gc(root, "--results-dir", str(results), "--older-than", "1d", "--yes")["stages"] == 0
    assert gc(root, "--results-dir", str(results), "--max-size", "0", "--yes")["stages"] == 0
    with pytest.raises(DataMissing):
        keys_of_results([tmp_path / "resluts"])
    (folder / "result.json").write_text("[" * 100_000)
    with pytest.raises(CorruptArtefact, match="record"):
        keys_of_results([results])


def test_a_mistyped_place_of_results_frees_nothing(tmp_path: Path) -> None:
    aged(tmp_path, 0, 40)
    done = CliRunner().invoke(
        app, ["cache", "gc", "--cache-dir", str(tmp_path), "--results-dir", "no-such-folder", "--yes"]
    )
    assert done.exit_code == 2, done.output
    assert len(keys(tmp_path)) == 1


def test_stages_of_an_older_recipe_are_noticed_never_read_and_removed_on_demand(tmp_path: Path) -> None:
    now = aged(tmp_path, 0, 40)
    assert old_store_notice(tmp_path) is None
    old = tmp_path / "original" / now.key[:2] / now.key
    shutil.copytree(now.path, old)
    (old.parent / f".{now.key}.lock").touch()
    embeddings = tmp_path / "embeddings" / "model.bin"
    embeddings.parent.mkdir()
    embeddings.touch()
    assert old_store_notice(tmp_path) == (
        "the cache holds 1 stages of an older recipe, which are not read: bench cache gc --old removes them"
    )
    assert keys(tmp_path) == {now.key}
    done = CliRunner().invoke(app, ["cache", "ls", "--cache-dir", str(tmp_path)])
    assert "bench cache gc --old" in done.stderr
    assert gc(tmp_path, "--yes")["stages"] == 0
    told = gc(tmp_path, "--old")
    assert (told["stages"], told["reasons"], told["removed"]) == (1, {"old recipe": 1}, False)
    release = try_lock(old)
    assert release is not None
    assert gc(tmp_path, "--old", "--yes")["refused"] == [f"original/{now.key[:2]}/{now.key}"]
    release()
    assert gc(tmp_path, "--old", "--yes")["refused"] == []
    assert not (tmp_path / "original").exists()
    assert keys(tmp_path) == {now.key}
    assert embeddings.exists()


def test_a_locked_stage_stays(tmp_path: Path) -> None:
    stored = aged(tmp_path, 0, 40)
    release = try_lock(stored.path)
    assert release is not None
    told = gc(tmp_path, "--older-than", "30d", "--yes")
    assert len(told["refused"]) == 1
    assert keys(tmp_path) == {stored.key}
    release()
    assert gc(tmp_path, "--older-than", "30d", "--yes")["refused"] == []
    assert keys(tmp_path) == set()


def test_leftovers_of_killed_processes_are_collected_and_running_ones_left_alone(tmp_path: Path) -> None:
    stored = aged(tmp_path, 0, 0)
    gone, running = stored.path.parent / ("ab" * 32), stored.path.parent / ("cd" * 32)
    for target in (gone, running):
        draft = target.parent / f".draft-{target.name[:24]}-12345678"
        draft.mkdir()
        (draft / "weights").write_text("half")
        for path in (draft / "weights", draft):
            os.utime(path, (1, 1))
        (target.parent / f".{target.name}.lock").touch()
    release = try_lock(running)
    assert release is not None
    finished = tmp_path / "unfinished" / "original" / stored.key
    waiting = tmp_path / "unfinished" / "original" / ("ef" * 32)
    for work in (finished, waiting):
        work.mkdir(parents=True)
        (work / "snapshot").write_text("0" * 10)
    assert sorted(one.why for one in leftovers(tmp_path)) == ["draft", "unfinished"]
    collected = collect(tmp_path, Policy(), Progress(), yes=True)
    assert collected.refused == ()
    assert collected.stages == 0, "no policy was given, so every stage stays"
    assert not finished.exists()
    assert waiting.exists(), "its command may be given again"
    names = {path.name for path in stored.path.parent.iterdir() if path.name.startswith(".")}
    assert names == {f".draft-{running.name[:24]}-12345678", f".{running.name}.lock"}
    release()


def test_the_listing_knows_the_backbone_of_whatever_was_made_from_a_model(tmp_path: Path) -> None:
    sids = aged(tmp_path, 0, 0, "sids")
    model = aged(tmp_path, 1, 0, "original", backbone="letter", inputs={"sids": sids.key})
    unlearned = aged(tmp_path, 2, 0, "unlearned", inputs={"original": model.key})
    aged(tmp_path, 3, 0, "evaluation", inputs={"model": unlearned.key, "sids": sids.key})
    rows = {(row.stage, row.backbone): row.stages for row in list_store(tmp_path).rows}
    assert rows == {("sids", ""): 1, ("original", "letter"): 1, ("unlearned", "letter"): 1, ("evaluation", "letter"): 1}
    done = CliRunner().invoke(app, ["cache", "ls", "--cache-dir", str(tmp_path)])
    assert done.exit_code == 0
    assert "letter" in done.output


def test_names_in_a_listing_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    root = tmp_path / "cache\x1b[31m\u202e"
    make(root, 0, backbone="[red]\x1b[2Jletter")
    done = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["cache", "ls", "--cache-dir", str(root)])
    assert done.exit_code == 0
    assert not {"\x1b", "\u202e"} & set(done.output)
    assert r"[red]\x1b[2Jletter" in done.output


def test_verify_names_and_moves_what_is_damaged(tmp_path: Path) -> None:
    stored = aged(tmp_path, 0, 0)
    aged(tmp_path, 1, 0)
    (stored.path / "values.json").write_text("{}")
    runner = CliRunner()
    first = runner.invoke(app, ["cache", "verify", "--cache-dir", str(tmp_path), "--keep"])
    assert (first.exit_code, "values.json" in first.output, stored.path.is_dir()) == (1, True, True)
    again = runner.invoke(app, ["cache", "verify", "--cache-dir", str(tmp_path), "--json"])
    assert again.exit_code == 1
    assert json.loads(again.stdout)["damaged"][0]["moved"]
    assert not stored.path.exists()
    assert runner.invoke(app, ["cache", "verify", "--cache-dir", str(tmp_path)]).exit_code == 0


@pytest.mark.parametrize("words", [["--older-than", "30"], ["--max-size", "much"]])
def test_amounts_that_say_nothing_are_wrong_calls(tmp_path: Path, words: list[str]) -> None:
    done = CliRunner().invoke(app, ["cache", "gc", "--cache-dir", str(tmp_path), *words])
    assert done.exit_code == 2, done.output
    assert "hint" in done.stderr


@pytest.mark.slow
def test_fifty_thousand_stages_are_listed_and_collected_in_seconds(tmp_path: Path) -> None:
    store = StageStore(tmp_path)
    for number in range(50_000):
        made_from = recipe(number, "evaluation", backbone="tiger")
        key = content_key(made_from)
        folder = store.folder("evaluation", key)
        folder.mkdir(parents=True)
        (folder / "values.json").write_text("{}")
        write_manifest(folder, "evaluation", key, made_from, seconds=1.0, facts={})
        os.utime(folder, (1, 1))
    began = time.process_time()
    listing = list_store(tmp_path)
    listed = time.process_time() - began
    assert sum(row.stages for row in listing.rows) == 50_000
    began = time.process_time()
    collected = collect(tmp_path, Policy(older_than=DAY), Progress(), yes=False)
    collecting = time.process_time() - began
    assert collected.stages == 50_000
    print(f"50,000 stages: {listed:.1f} s of CPU to list, {collecting:.1f} s to work out a policy")
    assert listed < 30
    assert collecting < 90
