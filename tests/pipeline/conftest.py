"""A tiny recommender on the demo, and a cache and results folder to run it in (fixtures: ``tests/conftest.py``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.results import FinishedRun
from genrec_unlearn_bench.pipeline.run import run_cell
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore

TINY = {
    "training.epochs": 1,
    "training.evaluations": 1,
    "training.valid_rows": 50,
    "training.batch_size": 512,
    "shape.layers": 1,
    "shape.d_model": 32,
    "shape.d_ff": 64,
    "shape.history_limit": 5,
}
"""A recommender that trains in a second. What it recommends is poor; what is tested here is the line around it."""

TINY_TRACER = {"epochs": 2, "hard_epochs": 1}


class Told(Progress):
    """Keeps what was said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)

    @property
    def computed(self) -> list[str]:
        """Stages that were computed rather than found, by the lines about them."""
        ends = [line.rpartition(": ") for line in self.lines]
        return [name for name, _, end in ends if end.endswith(" s") and end[:-2].replace(".", "").isdigit()]


@dataclass
class Bench:
    """A cache and a results folder, and a short way to run in them."""

    root: Path
    told: Told = field(default_factory=Told)

    @property
    def store(self) -> StageStore:
        return StageStore(self.root / "cache", self.told)

    @property
    def results(self) -> Path:
        return self.root / "results"

    def request(self, method: str, task: str = "demo-brand", **changes: Any) -> RunRequest:
        fields: dict[str, Any] = {"backbone_set": TINY, "results_dir": self.results, "threads": 1, **changes}
        if method == "tracer":
            fields.setdefault("method_set", TINY_TRACER)
        return RunRequest(task=task, method=method, **fields)

    def run(self, method: str, task: str = "demo-brand", **changes: Any) -> FinishedRun:
        """One cell in a session of its own; ``told`` afterwards holds its lines alone."""
        self.told.lines.clear()
        return run_cell(self.request(method, task, **changes), self.store, self.told)


def value(record: RunRecord, metric: str, group: Group, beam: int | None = 10) -> float:
    found = [v.value for v in record.metrics if (v.metric, v.group, v.beam) == (metric, group, beam)]
    assert len(found) == 1
    assert found[0] is not None
    return found[0]
