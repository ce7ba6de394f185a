"""Finding the result of a request that was run before, without resolving it again: torch is not imported.

A result's key follows from the resolved request, and resolving imports backbones and methods. So each finished run
leaves a line in ``<cache>/finished``: request and everything that resolving it reads -> key of the result. Only speed
depends on it: whatever differs, down to the time of a source file, leads to resolving as usual.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.locate import source_digests
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.pipeline.record import Cell, RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.results import find_result, read_record
from genrec_unlearn_bench.registry import find_method, source_digest

if TYPE_CHECKING:
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["FinishedRun", "find_finished", "remember_finished"]

FOLDER = "finished"

PACKAGE = Path(__file__).resolve().parents[1]
CONTENT = ("methods", "tasks", "leaderboard")
"""Folders beside the package in a clone, inside it in a wheel."""


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run's record and the folder it was written to.

    Attributes:
        cached: Whether the result was there already.
    """

    record: RunRecord
    folder: Path
    cached: bool = False


class _Line(StrictModel):
    cell: Cell
    key: str


def find_finished(request: RunRequest, store: StageStore) -> FinishedRun | None:
    """The result of an earlier run of the same request, if it is there and whole; None where that takes a closer look.

    Faults of the request are not reported here: resolving it does that.
    """
    try:
        line = _Line.model_validate_json(_place(request, store).read_bytes())
        folder = find_result(request.results_dir, line.cell, line.key)
        record = None if folder is None else read_record(folder)
    except (BenchError, OSError, ValidationError, ValueError):
        return None
    if folder is None or record is None or record.key != line.key:
        return None
    return FinishedRun(record, folder, cached=True)


def remember_finished(request: RunRequest, store: StageStore, done: FinishedRun) -> None:
    """Let ``find_finished`` find a run. A store that cannot be written does without."""
    try:
        line = _Line(cell=done.record.cell, key=done.record.key)
        atomic_text(_place(request, store), line.model_dump_json() + "\n", "--cache-dir")
    except (BenchError, OSError):
        return


def _place(request: RunRequest, store: StageStore) -> Path:
    """The file for a request and all that resolving it reads. Raises BenchError for a request that is wrong."""
    task = find_task(request.task, request.data_dir)
    spec = find_dataset(task.dataset, request.data_dir)
    content = {
        "request": request.model_dump(mode="json", exclude={"results_dir", "threads"}),
        "data": [source.digest for source in source_digests(spec, request.data_dir, download=False)],
        "method": source_digest(find_method(request.method)),
        "tuned": _stamps(request.tuned_dir, "*.json") if request.ruleset == "tuned" else [],
        "encoder": _stamps(Path(request.encoder), "*") if request.encoder and Path(request.encoder).is_dir() else [],
        "checkpoint": [_stamps(Path(value), "*") for value in request.backbone_set.values() if _is_folder(value)],
        # Which device `auto` means, without asking torch.
        "gpu": [Path("/dev/nvidiactl").exists(), os.environ.get("CUDA_VISIBLE_DEVICES", "")],
        "sources": [_stamps(PACKAGE, "*.py"), *(_stamps(_content_folder(name), "*") for name in CONTENT[:2])],
        "rulesets": _stamps(_content_folder("leaderboard") / "rulesets", "*"),
    }
    text = json.dumps(content, sort_keys=True)
    return store.root / FOLDER / f"{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}.json"


def _content_folder(name: str) -> Path:
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name


def _is_folder(value: object) -> bool:
    return isinstance(value, str) and Path(value).is_dir()


def _stamps(folder: Path, pattern: str) -> list[tuple[str, int, int]]:
    """Name, size and time of the files below a folder."""
    found = []
    for path in sorted(folder.rglob(pattern)):
        if path.is_file() and "__pycache__" not in path.parts:
            status = path.stat()
            found.append((path.relative_to(folder).as_posix(), status.st_size, status.st_mtime_ns))
    return found
