"""What goes and what stays when a store is collected, and what a listing says of it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.inventory import collect, entries, keys_of_results, leftovers, list_store
from genrec_unlearn_bench.store.manifest import StoredStage, content_key, write_manifest
from genrec_unlearn_bench.store.store import StageStore, try_lock
from tests.store.small_store import make, recipe

DAY = 86400.0


def aged(root: Path, number: int, days: float, name: str = "original", **more: Any) -> StoredStage:
    """A stage that was last read so many days ago."""
    stored = make(root, number, name, **more)
    then = time.time() - days * DAY
    os.utime(stored.path, (then, then))
    return stored


def keys(root: Path) -> set[str]:
    return {entry.path.name for entry in entries(root)}


def gc(root: Path, *words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["cache", "gc", "--cache-dir", str(root), "--json", *words])
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def test_what_was_not_read_for_long_goes_and_only_with_a_yes(tmp_path: Path) -> None:
    old, new = aged(tmp_path, 0, 40), aged(tmp_path, 1, 10)
    told = gc(tmp_path, "--older-than", "30")
    assert (told["stages"], told["removed"]) == (1, False)
    assert told["seconds"] >= 0
    assert keys(tmp_path) == {old.key, new.key}
    assert gc(tmp_path, "--older-than", "30", "--yes")["removed"]
    assert keys(tmp_path) == {new.key}
    assert list(tmp_path.rglob(".*")) == [], "no lock and no draft stays behind"


def test_reading_a_stage_keeps_it(tmp_path: Path) -> None:
    aged(tmp_path, 0, 40)
    assert make(tmp_path, 0).cached
    assert gc(tmp_path, "--older-than", "30")["stages"] == 0


def test_what_results_were_made_from_stays_with_its_inputs(tmp_path: Path) -> None:
    root, results = tmp_path / "cache", tmp_path / "results"
    sids = aged(root, 0, 40, "sids")
    kept = aged(root, 0, 40, inputs={"sids": sids.key})
    aged(root, 1, 40)
    folder = results / "demo-brand" / "tiger" / "npo" / "smoke-seed0-aa"
    folder.mkdir(parents=True)
    record = {"cell": {"task": "demo-brand"}, "stages": [{"key": kept.key}, {"key": "gone"}]}
    (folder / "result.json").write_text(json.dumps(record))
    draft = folder.with_name(".draft-smoke-seed0-aa-12345678")
    draft.mkdir()
    (draft / "result.json").write_text('{"cell": {')  # Of a killed run.
    assert keys_of_results([results]) == {kept.key, "gone"}
    recent = aged(root, 2, 0.5)
    assert gc(root, "--results-dir", str(results), "--yes")["stages"] == 1
    assert keys(root) == {kept.key, sids.key, recent.key}
    assert gc(root, "--results-dir", str(results), "--older-than", "1", "--yes")["stages"] == 0
    assert gc(root, "--results-dir", str(results), "--older-than", "0", "--yes")["stages"] == 1
    assert keys(root) == {kept.key, sids.key}
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


def test_a_locked_stage_stays(tmp_path: Path) -> None:
    stored = aged(tmp_path, 0, 40)
    release = try_lock(stored.path)
    assert release is not None
    told = gc(tmp_path, "--older-than", "30", "--yes")
    assert len(told["refused"]) == 1
    assert keys(tmp_path) == {stored.key}
    release()
    assert gc(tmp_path, "--older-than", "30", "--yes")["refused"] == []
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
    assert len(list(leftovers(tmp_path))) == 3
    collected = collect(tmp_path, Progress(), yes=True)
    draft = running.parent / f".draft-{running.name[:24]}-12345678"
    assert collected["refused"] == [str(draft.relative_to(tmp_path))]
    assert collected["stages"] == 0, "no policy was given, so every stage stays"
    assert not finished.exists()
    assert waiting.exists(), "its command may be given again"
    names = {path.name for path in stored.path.parent.iterdir() if path.name.startswith(".")}
    assert names == {f".draft-{running.name[:24]}-12345678", f".{running.name}.lock"}
    release()


def test_the_listing_counts_by_kind(tmp_path: Path) -> None:
    for number, name in enumerate(("sids", "original", "original")):
        aged(tmp_path, number, 0, name)
    rows = {row["stage"]: (row["stages"], row["unreadable"]) for row in list_store(tmp_path)}
    assert rows == {"sids": (1, 0), "original": (2, 0)}
    assert list_store(tmp_path / "empty") == []
    done = CliRunner().invoke(app, ["cache", "ls", "--cache-dir", str(tmp_path)])
    assert done.exit_code == 0
    assert "original" in done.output


def test_verify_names_and_moves_what_is_damaged(tmp_path: Path) -> None:
    stored = aged(tmp_path, 0, 0)
    aged(tmp_path, 1, 0)
    (stored.path / "values.json").write_text("{}")
    runner = CliRunner()
    again = runner.invoke(app, ["cache", "verify", "--cache-dir", str(tmp_path), "--json"])
    assert again.exit_code == 1
    assert json.loads(again.stdout)["damaged"][0]["moved"]
    assert not stored.path.exists()
    assert runner.invoke(app, ["cache", "verify", "--cache-dir", str(tmp_path)]).exit_code == 0


@pytest.mark.huge
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
    assert sum(row["stages"] for row in listing) == 50_000
    began = time.process_time()
    collected = collect(tmp_path, Progress(), older_than=DAY)
    collecting = time.process_time() - began
    assert collected["stages"] == 50_000
    print(f"50,000 stages: {listed:.1f} s of CPU to list, {collecting:.1f} s to work out a policy")
    assert listed < 30
    assert collecting < 90
