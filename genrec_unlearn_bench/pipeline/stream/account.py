"""What the requests of a stream reported and cost, put together as if one piece of work had been done."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.files import write_json
from genrec_unlearn_bench.pipeline.stage_log import LOSSES, NOTES, read_notes

__all__ = ["STEPS", "write_account"]

STEPS = "steps.json"


def write_account(folder: Path, steps: Sequence[tuple[str, Path]]) -> None:
    """Write ``losses.jsonl`` and ``notes.json`` over all requests as ``StageLog`` does for one, and ``steps.json``.

    ``stage`` of a line of losses begins with the request's number, and notes are grouped by it. ``steps.json`` names
    the requests' stages by digest, so that two streams that report the same are still two.

    Args:
        steps: (digest, folder) of every request's stage, in order.
    """
    told = [read_notes(path) for _, path in steps]
    with (folder / LOSSES).open("w", encoding="utf-8") as handle:
        for number, (_, path) in enumerate(steps, start=1):
            for text in (path / LOSSES).read_text(encoding="utf-8").splitlines():
                line: dict[str, Any] = json.loads(text)
                handle.write(json.dumps({**line, "stage": f"request {number}: {line['stage']}"}) + "\n")
    notes = {f"request {number}": found["notes"] for number, found in enumerate(told, start=1) if found["notes"]}
    content = {
        "diverged": any(found["diverged"] for found in told),
        "steps": sum(found["steps"] for found in told),
        "notes": notes,
    }
    write_json(folder / NOTES, content)
    write_json(folder / STEPS, {"steps": [digest for digest, _ in steps]})
