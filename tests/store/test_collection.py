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
from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.collection import Policy, keys_of_results, select
from genrec_unlearn_bench.store.inventory import entries, list_store
from genrec_unlearn_bench.store.keys import content_key
from genrec_unlearn_bench.store.locks import try_lock
from genrec_unlearn_bench.store.manifest import StoredStage, write_manifest
from genrec_unlearn_bench.store.orphans import orphans
from genrec_unlearn_bench.store.sources import code_digests
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.store.sweeping import sweep_store
from genrec_unlearn_bench.store.wanted import is_asked_for
from tests.store.small_store import compute, content

DAY = 86400.0


def aged(root: Path, number: int, days: float, name: str = "original", **more: Any) -> StoredStage:
    """A stage that was last read so many days ago."""
    stored = StageStore(root).stage(name, content(number, **more), compute(number))
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
    assert StageStore(tmp_path).stage("original", content(0), compute(0)).cached
    assert gc(tmp_path, "--older-than", "30d")["stages"] == 0


def test_beyond_a_size_those_read_longest_ago_go_first(tmp_path: Path) -> None:
    stages = [aged(tmp_path, number, 10 - number) for number in range(5)]
    size = next(entries(tmp_path)).size
    chosen = select(entries(tmp_path), Policy(max_size=3 * size + 200))
    assert [one.entry.key for one in chosen] == [stages[0].key, stages[1].key]
    assert select(entries(tmp_path), Policy(max_size=10 * size)) == ()


def test_what_was_read_within_a_day_stays_unless_it_is_said(tmp_path: Path) -> None:
    aged(tmp_path, 0, 0.5)
    assert gc(tmp_path, "--max-size", "0")["stages"] == 0
    assert gc(tmp_path, "--max-size", "0", "--recent")["stages"] == 1


def test_what_results_stand_on_stays(tmp_path: Path) -> None:
    root, results = tmp_path / "cache", tmp_path / "results"
    kept, other = aged(root, 0, 40), aged(root, 1, 40)
    folder = results / "demo-brand" / "tiger" / "npo" / "smoke-seed0-aa"
    folder.mkdir(parents=True)
    record = {"cell": {"task": "demo-brand"}, "stages": [{"key": kept.key}, {"key": "gone"}]}
    (folder / "result.json").write_text(json.dumps(record))
    assert keys_of_results([results]) == {kept.key, "gone"}
    assert gc(root, "--keep-results", str(results), "--yes")["reasons"] == {"not kept": 1}
    assert keys(root) == {kept.key}
    assert other.key not in keys(root)
    assert gc(root, "--keep-results", str(results), "--older-than", "1d", "--yes")["stages"] == 0
    with pytest.raises(DataMissing):
        keys_of_results([tmp_path / "resluts"])


def test_a_mistyped_place_of_results_frees_nothing(tmp_path: Path) -> None:
    aged(tmp_path, 0, 40)
    done = CliRunner().invoke(
        app, ["cache", "gc", "--cache-dir", str(tmp_path), "--keep-results", "no-such-grid-or-folder", "--yes"]
    )
    assert done.exit_code == 2, done.output
    assert len(keys(tmp_path)) == 1


def test_what_todays_code_asks_for_no_more_goes(tmp_path: Path) -> None:
    now = aged(tmp_path, 0, 40, code=code_digests(["genrec_unlearn_bench.seeding"]))
    aged(tmp_path, 1, 40, code={"genrec_unlearn_bench.seeding": "00"})
    aged(tmp_path, 2, 40, code={"genrec_unlearn_bench.no_such_module": "00"})
    mine = aged(tmp_path, 3, 40, code={"mine": "00"})
    plain = StageStore(tmp_path).stage("task", {"task": "demo"}, compute(4))
    assert {entry.key for entry in entries(tmp_path) if is_asked_for(entry)} == {now.key, mine.key, plain.key}
    assert gc(tmp_path, "--unreachable", "--yes")["reasons"] == {"not asked for": 2}
    assert keys(tmp_path) == {now.key, mine.key, plain.key}


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


def test_leftovers_of_killed_processes_are_swept_and_running_ones_left_alone(tmp_path: Path) -> None:
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
    assert sorted(one.kind for one in orphans(tmp_path)) == ["draft", "lock", "lock", "unfinished"]
    swept = sweep_store(tmp_path, Policy(), Progress(), remove=True)
    assert swept.refused == ()
    assert swept.stages == 0, "no policy was given, so every stage stays"
    release()
    assert not finished.exists()
    assert waiting.exists(), "its command may be given again"
    names = {path.name for path in stored.path.parent.iterdir() if path.name.startswith(".")}
    assert names == {f".draft-{running.name[:24]}-12345678", f".{running.name}.lock"}


def test_the_listing_knows_the_backbone_of_whatever_was_made_from_a_model(tmp_path: Path) -> None:
    sids = aged(tmp_path, 0, 0, "sids")
    model = aged(tmp_path, 1, 0, "original", backbone="letter", sids=sids.digest)
    unlearned = aged(tmp_path, 2, 0, "unlearned", original=model.digest)
    aged(tmp_path, 3, 0, "evaluation", ranker=unlearned.digest, original_sids=sids.digest)
    rows = {(row.stage, row.backbone): row.stages for row in list_store(tmp_path).rows}
    assert rows == {("sids", ""): 1, ("original", "letter"): 1, ("unlearned", "letter"): 1, ("evaluation", "letter"): 1}
    done = CliRunner().invoke(app, ["cache", "ls", "--cache-dir", str(tmp_path)])
    assert done.exit_code == 0
    assert "letter" in done.output


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
    for number in range(50_000):
        told = content(number, backbone="tiger")
        key = content_key("evaluation", told)
        folder = tmp_path / "evaluation" / key[:2] / key
        folder.mkdir(parents=True)
        (folder / "values.json").write_text("{}")
        write_manifest(folder, "evaluation", key, told, seconds=1.0, account={})
        os.utime(folder, (1, 1))
    began = time.process_time()
    listing = list_store(tmp_path)
    listed = time.process_time() - began
    assert sum(row.stages for row in listing.rows) == 50_000
    began = time.process_time()
    swept = sweep_store(tmp_path, Policy(unreachable=True), Progress(), remove=False)
    collected = time.process_time() - began
    assert swept.stages == 50_000
    print(f"50,000 stages: {listed:.1f} s of CPU to list, {collected:.1f} s to work out a policy")
    assert listed < 30
    assert collected < 90
