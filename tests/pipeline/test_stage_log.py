"""A stage's log: its own steps and notes, drawn elsewhere, written without NaN."""

from __future__ import annotations

import json
from pathlib import Path

from genrec_unlearn_bench.pipeline.stage_log import LOSSES, StageLog, read_notes
from genrec_unlearn_bench.progress import Progress


def test_steps_and_notes_stay_with_the_stage(tmp_path: Path) -> None:
    outer = Progress()
    log = StageLog(outer)
    assert list(log.track("soft", [1, 2])) == [1, 2]
    log.log("soft", 0, {"forget": 1.5, "retain": 2.0})
    log.log("soft", 1, {"forget": float("nan")})
    log.note("moved", 3)
    log.note("overlap", [0.5, float("inf")])
    log.write(tmp_path)
    assert (outer.steps, outer.notes, outer.diverged) == ([], {}, False)
    lines = [json.loads(line) for line in (tmp_path / LOSSES).read_text().splitlines()]
    assert lines == [
        {"stage": "soft", "step": 0, "losses": {"forget": 1.5, "retain": 2.0}},
        {"stage": "soft", "step": 1, "losses": {"forget": None}},
    ]
    assert read_notes(tmp_path) == {"diverged": True, "steps": 2, "notes": {"moved": 3, "overlap": [0.5, None]}}


def test_a_silent_stage_leaves_empty_files(tmp_path: Path) -> None:
    StageLog(Progress()).write(tmp_path)
    assert (tmp_path / LOSSES).read_text() == ""
    assert read_notes(tmp_path) == {"diverged": False, "steps": 0, "notes": {}}
