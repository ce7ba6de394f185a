"""The keys of published results: a record's key follows from the stages that it lists, today as when it was made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.pipeline.account import result_key
from genrec_unlearn_bench.pipeline.record import Cell
from genrec_unlearn_bench.store.store import StoredStage

PUBLISHED = Path(__file__).parents[2] / "leaderboard" / "results"


def stage_of(content: dict[str, Any]) -> StoredStage:
    return StoredStage(content["name"], Path(), content["key"], content["digest"], 0.0, True, {})


def test_published_records_keep_their_keys() -> None:
    records = [json.loads(path.read_bytes()) for path in sorted(PUBLISHED.rglob("result.json"))]
    assert len(records) >= 230
    seen = 0
    for record in records:
        cell = Cell.model_validate(record["cell"])
        stages = {stage["name"]: stage_of(stage) for stage in record["stages"]}
        # A stage that stands for two things (the oracle that is the row itself) is listed once, by its last name.
        oracle = stages.get("evaluation of retrain", stages["evaluation"])
        beyond = [stage for name, stage in stages.items() if ": " in name]
        key = result_key(cell, evaluation=stages["evaluation"], oracles=[oracle], beyond=beyond)
        assert key == record["key"], record["command"]
        seen += bool(beyond)
    assert seen or all(record["cell"]["suite"] == "core" for record in records)
