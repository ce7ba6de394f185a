"""How much memory a job will need: what its grid says, else what cells like it have taken, else a guess by scale."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.executors.shelves import dataset_of
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.pipeline.results import RECORD

__all__ = ["BY_SCALE", "MemoryNeeds"]

BY_SCALE = {"smoke": 1024, "small": 3072, "paper": 8192, "official": 24576}
"""MiB assumed of a process at a scale where nothing like it has been recorded."""

MARGIN = 1.5
"""Over the recorded peak, which is that of unlearning alone: training and evaluation may take more."""

LOOKED_AT = 20
"""Records read for an estimate."""


class MemoryNeeds:
    """Estimates, each made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], int | None] = {}

    def of(self, job: Job) -> int:
        """Resident memory in MiB that the job will need."""
        if job.resources.memory_mib is not None:
            return job.resources.memory_mib
        request = job.request
        where = (str(request.results_dir), request.task, request.backbone, request.scale or "")
        if where not in self._known:
            self._known[where] = _recorded(request.results_dir / request.task / request.backbone, request.scale)
        recorded = self._known[where]
        # At least what every process takes that has loaded torch.
        return max(recorded, BY_SCALE["smoke"]) if recorded is not None else self._guess(job)

    def _guess(self, job: Job) -> int:
        scale = job.request.scale or ("smoke" if dataset_of(job).endswith(":demo") else "small")
        return BY_SCALE.get(scale, BY_SCALE["small"])


def _recorded(folder: Path, scale: str | None) -> int | None:
    """The highest recorded peak of a few records there, with a margin."""
    found = sorted(folder.glob(f"*/{scale or ''}*-seed*/{RECORD}"))[:LOOKED_AT]
    peaks = [peak for path in found if (peak := _peak(path))]
    return math.ceil(max(peaks) * MARGIN) if peaks else None


def _peak(path: Path) -> float:
    # Read as plain JSON, as records of other versions are as good for this.
    with suppress(OSError, ValueError, KeyError, TypeError):
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not str(content["environment"]["device"]).startswith("cuda"):
            return float(content["cost"]["peak_memory_mib"])
    return 0.0
