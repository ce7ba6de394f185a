"""The documents that verbs print with ``--json``: names and types of all fields, as they were last agreed upon.

After a meant change: ``python -m tests.cli.test_json`` writes json.txt again; read its difference.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import VERBS, app
from genrec_unlearn_bench.contract.rules import CheckReport, RuleResult
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.results import FinishedRun, read_record, remember_finished
from genrec_unlearn_bench.pipeline.tune import Tuned
from genrec_unlearn_bench.reproduce.repeat import Repetition, compare
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.submissions.submit import submit
from genrec_unlearn_bench.tuning.choice import Choice
from genrec_unlearn_bench.tuning.rule import Measured, Trial
from tests.cli.conftest import install_light
from tests.pipeline.letter_world import TINY, write_world
from tests.reporting.examples.planted_runs import made_world
from tests.submissions.honest import known_leaderboard, prepared, request

FILE = Path(__file__).with_name("json.txt")
DEMO = Path(__file__).parents[2] / "leaderboard/results/demo-brand/tiger"
ROWS = ("original", "retrain", "tracer")

KEYED = {"counts", "groups", "measures", "cells", "columns", "layouts", "checks"}
"""Fields whose keys are data, which stand as one ``*``."""

FREE = {"presets", "sid_presets", "config", "fields", "variants", "report", "settings", "changes", "environment"}
FREE |= {"method_config", "backbone_config", "sid_config", "concept", "dropped"}
"""Fields whose content depends on what they are about, or on the machine."""

TYPES = {type(None): "null", bool: "bool", int: "number", float: "number", str: "text"}

GRID = (
    "name: two\naxes: {task: demo-brand, method: [popularity, filter, tracer], scale: smoke}\nsettings: {device: cpu}\n"
)


def shape(value: Any, path: str = "", found: dict[str, set[str]] | None = None) -> dict[str, set[str]]:
    """Path of each leaf -> types of its values."""
    found = defaultdict(set) if found is None else found
    field = path.rpartition(".")[2]
    if field in FREE and isinstance(value, dict | list):
        found[path].add("mapping" if isinstance(value, dict) else "list")
    elif isinstance(value, dict) and value:
        for name, part in value.items():
            shape(part, f"{path}.{'*' if field in KEYED else name}", found)
    elif isinstance(value, list) and value:
        for part in value:
            shape(part, f"{path}[]", found)
    else:
        found[path or "."].add("nothing" if value in ({}, []) else TYPES[type(value)])
    return found


def frozen(root: Path) -> str:
    """The shapes of all documents, one call after the other."""
    parts, called = [], []
    with pytest.MonkeyPatch.context() as patch:
        for words, document in documents(root, patch):
            fields = [f"  {path}: {' or '.join(sorted(types))}" for path, types in sorted(shape(document).items())]
            parts.append("\n".join([f"bench {words}", *fields]))
            called.append(f"{words} ")
    assert [verb for verb in VERBS if not any(words.startswith(f"{verb} ") for words in called)] == []
    return "\n\n".join(parts) + "\n"


def documents(root: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[str, Any]]:
    """Call -> what it prints. The demo's shipped results stand for runs; what would train is replaced."""
    patch.chdir(root)
    patch.setenv("GENREC_UNLEARN_BENCH_CACHE", str(root / "cache"))
    patch.setenv("XDG_DATA_HOME", str(root / "home"))
    patch.setenv("GENREC_UNLEARN_BENCH_OFFLINE", "1")
    for row in ROWS:
        for place in ("results", "tree"):
            shutil.copytree(DEMO / row, root / place / "demo-brand/tiger" / row)
    (root / "tree/manifests").mkdir()
    shutil.copy(DEMO.parents[1] / "manifests/demo-brand.json", root / "tree/manifests")
    replaced(patch)
    remembered()
    for words in plain_calls():
        yield words, printed(words, code=int(words == "method check tracer"))
    yield from import_document(root)
    yield from grid_documents(patch)
    yield from list_documents(root)
    yield from submission_documents(root)


def printed(words: str, *more: str, code: int = 0) -> Any:
    """stdout of a call, read as JSON."""
    done = CliRunner().invoke(app, [*words.split(), *more, "--json"])
    assert done.exit_code == code, (words, done.output)
    return json.loads(done.stdout)


def plain_calls() -> list[str]:
    kinds = ("tasks", "methods", "backbones", "datasets", "measurements", "metrics", "grids")
    things = ("demo-brand", "tracer", "retrain", "demo", "tiger", "probing", "hr@10", "smoke", "sports-brand")
    return [
        "run --task demo-brand --method tracer",
        "tune --task demo-brand --method tracer --tuned-dir tuned",
        "ls",
        *(f"ls {kind}" for kind in kinds),
        *(f"show {thing}" for thing in things),
        *(f"data {verb}" for verb in ("prepare demo", "info demo", "info sports", "sids --task demo-brand")),
        "data export --task demo-brand --out exported",
        *("method new mine --out mine", "method check tracer"),
        "results compare original tracer",
        "results compare original tracer --users",
        "results claims 1 17",
        "results figures --kind pareto --format png",
        "results pull tree --results-dir pulled",
        "leaderboard --results-dir results",
        "submission site --leaderboard .",
        "submission reproduce",
        *("cache ls", "cache gc", "cache verify"),
        "doctor",
    ]


def replaced(patch: pytest.MonkeyPatch) -> None:
    """Stand-ins for what computes for a minute: tuning, a method's check, a run that is repeated."""
    seed = Measured(seed=9000, forget_hr=0.1, retain_ndcg=0.1)
    trial = Trial(config={"lr": 0.1}, forget_hr=0.1, retain_ndcg=0.1, seconds=1.0, diverged=False, seeds=(seed,))
    texts = ("suite_version", "created", "dataset_digest", "task_digest", "backbone_digest", "encoder", "command")
    choice = Choice(
        **dict.fromkeys(texts, "text"),
        protocol_version=1,
        task="demo-brand",
        backbone="tiger",
        scale="smoke",
        device="cpu",
        method="tracer",
        method_digest="text",
        seeds=(9000,),
        searched=("lr",),
        space=1,
        original=trial,
        trials=(trial,),
        chosen=0,
        feasible=True,
        seconds=1.0,
    )
    patch.setattr("genrec_unlearn_bench.pipeline.tune.tune", lambda *_, **__: Tuned(choice, {}))
    finding = RuleResult(rule="quiet", status="broken", reasons=("reason",), hint="hint")
    report = CheckReport(method="tracer", file="tracer.py", seconds=1.0, findings=(finding,))
    patch.setattr("genrec_unlearn_bench.contract.check.check_method", lambda *_, **__: report)

    def repeat(record: Any, **_: Any) -> Repetition:
        return compare(record, record.model_copy(update={"per_user_digest": "f" * 64}))

    patch.setattr("genrec_unlearn_bench.reproduce.repeat.repeat_record", repeat)


def remembered() -> None:
    """Let ``bench run`` find the shipped results as those of earlier calls."""
    for row in ROWS:
        folder = next(Path("results/demo-brand/tiger", row).glob("*-seed0-*"))
        done = FinishedRun(read_record(folder), folder)
        remember_finished(RunRequest(task="demo-brand", method=row), StageStore(Path("cache").absolute()), done)


def import_document(root: Path) -> Iterator[tuple[str, Any]]:
    folder = root / "shop"
    folder.mkdir()
    rows = [{"item_id": f"i{n}", "title": f"thing {n}", "brand": f"brand {n % 20}"} for n in range(60)]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [f"u{n % 30}\ti{(n * 7 + n // 30) % 60}\t{n}\n" for n in range(600)]
    (folder / "interactions.tsv").write_text("user\titem\ttimestamp\n" + "".join(lines))
    yield (words := "data import shop --name shop"), printed(words)


def grid_documents(patch: pytest.MonkeyPatch) -> Iterator[tuple[str, Any]]:
    Path("two.yaml").write_text(GRID)
    light = install_light(patch)
    light.faults["filter"] = ValueError("broken")
    places = ("--cache-dir", "light", "--results-dir", "light-results")
    yield "grid plan two.yaml", printed("grid plan two.yaml", *places)
    cell = "tiger filter seed0"
    yield "grid plan two.yaml --explain", printed("grid plan two.yaml --explain", cell, *places)
    yield "grid run two.yaml --dry-run", printed("grid run two.yaml --dry-run", *places)
    yield "grid run two.yaml", printed("grid run two.yaml", *places, code=1)
    yield "grid status two", printed("grid status two", *places[:2])
    yield "grid collect two", printed("grid collect two", *places[:2], code=1)


def list_documents(root: Path) -> Iterator[tuple[str, Any]]:
    world = made_world(root / "world")
    places = ("--results-dir", str(world.results), "--cache-dir", str(root / "world/cache"))
    yield "results examples --method npo", printed("results examples --method npo", *places)
    run = next(world.results.rglob("npo/*/result.json")).parent
    yield "results export", printed("results export", str(run), "--out", "trec", *places[2:])


def submission_documents(root: Path) -> Iterator[tuple[str, Any]]:
    home = prepared(root / "home")
    known_leaderboard(home)
    board = ("--leaderboard", str(home / "leaderboard"))
    folder = str(submit(**request(home, out=root / "submitted")).folder)
    renew = ("--method", str(home / "mine.py"), "--results-dir", str(home / "results"), "--out", "submitted")
    yield "submission new", printed("submission new mine", *renew, *board)
    yield "submission publish", printed(f"submission publish {home / 'results'} --out tree")
    yield "submission verify", printed(f"submission verify {folder}", *board)
    place = next(Path(folder, "results").rglob("result.json")).parent
    yield "submission reproduce RUN", printed(f"submission reproduce {place}")
    shorter = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]
    data = ("--data-dir", str(write_world(root / "letter")), "--threads", "1", "--device", "cpu")
    pace = ("--minutes", "1e-9", "--results-dir", "trained")
    yield "submission reproduce NAME", printed("submission reproduce letter-instruments", *data, *shorter, *pace)


@pytest.mark.slow
def test_documents_have_the_fields_that_were_agreed_upon(tmp_path: Path) -> None:
    assert frozen(tmp_path) == FILE.read_text(encoding="utf-8"), __doc__


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "160")
    with tempfile.TemporaryDirectory() as place:
        text = frozen(Path(place).resolve())
    FILE.write_text(text, encoding="utf-8")
