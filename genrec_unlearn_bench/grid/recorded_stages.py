"""What stages took by the records of results: of those that were pulled, of a checkout's own, of those without a cache.

Records say seconds and the machine, and not how large a stage is. Stages beyond the core are left out, as a record does
not say which of a measurement's parts belong together. Defining a task takes about a millisecond and is in no record;
it counts as nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.pipeline.record import Cell
from genrec_unlearn_bench.pipeline.results import RECORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["RecordedStage", "known_results", "recorded_stages"]

MOST_OF_A_ROW = 3
"""Results that are read of each task, backbone and method: a record takes about a millisecond to read, and a folder may
hold fifty thousand."""


@dataclass(frozen=True)
class RecordedStage:
    """One stage of one result.

    Attributes:
        name: As the store calls it, without what it is of.
        cell: The result's.
        device: ``cpu`` or ``cuda``.
        held_out: Whether the suite kept interactions from training.
        machine: For people: ``AMD EPYC, 1 thread``.
        memory_mib: Peak memory, where the record tells it of this stage.
    """

    name: str
    seconds: float
    cell: Cell
    dataset: str
    encoder: str
    device: str
    held_out: bool
    machine: str
    memory_mib: float | None = None


def known_results(own: Path) -> tuple[Path, ...]:
    """Results folders to learn from: the user's own, then the published ones, which only a checkout has."""
    leaderboard = Path(str(resources.files("genrec_unlearn_bench.leaderboard")))
    return own, *sorted(leaderboard.glob("grids/*")), leaderboard / "results"


def recorded_stages(roots: Iterable[Path]) -> Iterator[RecordedStage]:
    """The stages of the results in these folders, each once a backbone for every time that it was made.

    What cannot be read is passed over. Two machines make two of one stage; popularity is one stage of all backbones.

    Args:
        roots: Results folders (``<task>/<backbone>/<method>/<result>/``); those that are not there hold nothing.
    """
    datasets = {name: spec.dataset for name, spec in tasks().items()}
    told: set[tuple[str, float, str]] = set()
    for root in roots:
        for row in sorted(root.glob("*/*/*")):
            dataset = datasets.get(row.parts[-3])
            if dataset is None:
                continue
            for place in sorted(row.glob(f"*/{RECORD}"))[:MOST_OF_A_ROW]:
                yield from _stages(place, dataset, told)


def _stages(place: Path, dataset: str, told: set[tuple[str, float, str]]) -> Iterator[RecordedStage]:
    try:
        content = json.loads(place.read_bytes())
        found = list(_read(content, dataset))
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return
    for key, stage in found:
        once = (key, stage.seconds, stage.cell.backbone)
        if once not in told:
            told.add(once)
            yield stage


def _read(content: Mapping[str, Any], dataset: str) -> Iterator[tuple[str, RecordedStage]]:
    cell, environment = Cell.model_validate(content["cell"]), content["environment"]
    threads = int(environment["threads"])
    whole: dict[str, Any] = {
        "cell": cell,
        "dataset": dataset,
        "encoder": str(content["encoder"]),
        "device": str(environment["device"]).partition(":")[0],
        "held_out": bool(content.get("holdout")),
        "machine": f"{environment['device_name']}, {threads} thread{'s' if threads > 1 else ''}",
    }
    for stage in content["stages"]:
        name = str(stage["name"]).partition(" of ")[0]
        memory = float(content["cost"]["peak_memory_mib"]) if name == "unlearned" else None
        yield str(stage["key"]), RecordedStage(name, float(stage["seconds"]), memory_mib=memory, **whole)
    yield f"task {content['key']}", RecordedStage("task", 0.0, **whole)
