"""What one stage reports, kept apart from the other stages of a run while it is drawn in the same place."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from genrec_unlearn_bench.files import write_json
from genrec_unlearn_bench.progress import Progress

__all__ = ["LOSSES", "NOTES", "StageLog", "read_notes"]

T = TypeVar("T")

LOSSES = "losses.jsonl"
NOTES = "notes.json"


class StageLog(Progress):
    """Collects a stage's steps and notes of its own; bars and lines go to the run's progress.

    Args:
        work: Folder for what an interrupted computation goes on from (``StageStore.work``).
    """

    def __init__(self, outer: Progress, work: Path | None = None) -> None:
        super().__init__(work=work)
        self._outer = outer

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        return self._outer.track(label, sequence, total=total)

    def info(self, text: str) -> None:
        self._outer.info(text)

    def log(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        super().log(stage, step, losses)
        self._outer.follow(stage, step, losses)

    def follow(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        self._outer.follow(stage, step, losses)

    def write(self, folder: Path) -> None:
        """``losses.jsonl`` (one line a step) and ``notes.json``. A loss that is not finite is written as null."""
        with (folder / LOSSES).open("w", encoding="utf-8") as handle:
            for step in self.steps:
                losses = {name: _finite(value) for name, value in step.losses.items()}
                line = {"stage": step.stage, "step": step.step, "losses": losses}
                handle.write(json.dumps(line, allow_nan=False) + "\n")
        notes = {name: _finite(value) for name, value in self.notes.items()}
        write_json(folder / NOTES, {"diverged": self.diverged, "steps": len(self.steps), "notes": notes})


def read_notes(folder: Path) -> dict[str, Any]:
    """What ``write`` left: ``diverged``, ``steps`` and ``notes``."""
    content: dict[str, Any] = json.loads((folder / NOTES).read_text(encoding="utf-8"))
    return content


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
