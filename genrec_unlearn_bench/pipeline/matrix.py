"""Every method on every backbone for every kind of request, at smoke scale: does the pair work at all?

Not a benchmark: a few steps, no oracle, no stored result. One original serves all four kinds and all methods, and
comes from the same stages as any other run's, so that a matrix behind a smoke run trains nothing.
"""

from __future__ import annotations

import math
import multiprocessing
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from genrec_unlearn_bench.backbones.catalogue import load_backbone
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import BenchError, CapabilityMissing
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.ground import Ground, lay_ground
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.setting import settle
from genrec_unlearn_bench.pipeline.smoke_settings import smoke_fields
from genrec_unlearn_bench.pipeline.soundness import fingerprint, list_faults, result_faults
from genrec_unlearn_bench.pipeline.trained import Trained, original, tokens
from genrec_unlearn_bench.pipeline.workroom import Shelf, Workroom
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, load_class
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.store.sources import code_digests
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest

__all__ = ["Status", "Tried", "examined", "run_matrix", "tally"]

Status = Literal["ok", "refused", "null", "broken"]
"""``refused``: the method declares that it does not serve this; ``null``: it ran and notes that it
is not applicable, or found nothing to edit."""

ROWS = 64
"""Test users of each group whose lists are looked at."""


class Tried(StrictModel):
    """One cell of the matrix."""

    method: str
    backbone: str
    task: str
    status: Status
    seconds: float
    faults: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The cell in words."""
        return f"{self.method} on {self.backbone}, {self.task}"


@dataclass(frozen=True)
class _Part:
    """What one process does in one go: all methods on one backbone and task."""

    methods: tuple[str, ...]
    backbone: str
    task: str
    cache: Path

    def broken(self, fault: BaseException) -> list[Tried]:
        """All its cells, when they could not even begin."""
        told = (_told(fault),)
        return [
            Tried(method=name, backbone=self.backbone, task=self.task, status="broken", seconds=0.0, faults=told)
            for name in self.methods
        ]


def run_matrix(
    methods: Sequence[str],
    backbones: Sequence[str],
    tasks: Sequence[str],
    store: StageStore,
    progress: Progress,
    *,
    processes: int = 1,
) -> list[Tried]:
    """Try every combination; what breaks is told in its cell and stops nothing.

    Raises:
        UsageError: A method, backbone or task does not exist.
    """
    for name in backbones:
        load_backbone(name)
    for name in tasks:
        find_task(name)
    names = tuple(dict.fromkeys(find_method(name).name if ".py" not in name else name for name in methods))
    # Task by task, so that two processes begin with two originals and do not wait for one.
    parts = [_Part(names, backbone, task, store.root) for task in tasks for backbone in backbones]
    found: list[Tried] = []
    for number, (part, cells) in enumerate(_done(parts, processes), start=1):
        found += cells
        counts = ", ".join(f"{count} {status}" for status, count in tally(cells).items())
        seconds = sum(cell.seconds for cell in cells)
        progress.info(f"[{number}/{len(parts)}] {part.backbone} · {part.task}: {counts} in {seconds:.0f} s")
    places = {part: place for place, part in enumerate((part.backbone, part.task) for part in parts)}
    return sorted(found, key=lambda cell: places[cell.backbone, cell.task])


def tally(cells: Sequence[Tried]) -> dict[Status, int]:
    """How many cells ended how."""
    statuses: tuple[Status, ...] = ("ok", "refused", "null", "broken")
    counted = {status: sum(cell.status == status for cell in cells) for status in statuses}
    return {status: count for status, count in counted.items() if count}


def _done(parts: Sequence[_Part], processes: int) -> Iterator[tuple[_Part, list[Tried]]]:
    if processes == 1:
        yield from ((part, _try_part(part)) for part in parts)
        return
    # Forked children would inherit torch's threads in whatever state they are.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting: dict[Future[list[Tried]], _Part] = {pool.submit(_try_part, part): part for part in parts}
        for future in as_completed(waiting):
            part = waiting[future]
            fault = future.exception()
            yield part, future.result() if fault is None else part.broken(fault)


def _try_part(part: _Part) -> list[Tried]:
    store, shelf = StageStore(part.cache), Shelf()
    try:
        with determinism(1):
            room = _room(part, "original", {}, store, shelf)
            code_digests([__name__, room.setting.backbone.__module__])
            ground = lay_ground(room)
            before = original(room, ground, tokens(room, ground))
            return [_try_cell(part, name, ground, before, store, shelf) for name in part.methods]
    except Exception as fault:
        return part.broken(fault)


def _room(part: _Part, method: str, fields: dict[str, Any], store: StageStore, shelf: Shelf) -> Workroom:
    request = RunRequest(
        task=part.task, method=method, backbone=part.backbone, scale="smoke", device="cpu", method_set=fields
    )
    return Workroom(settle(request), store, Progress(), shelf)


def _try_cell(part: _Part, name: str, ground: Ground, before: Trained, store: StageStore, shelf: Shelf) -> Tried:
    began = time.perf_counter()
    status: Status
    faults: tuple[str, ...] = ()
    try:
        # mypy: an abstract class may be looked for, it is only instantiated by settle.
        found: type[UnlearningMethod[Any]] = load_class(find_method(name), UnlearningMethod)  # type: ignore[type-abstract]
        room = _room(part, name, smoke_fields(found.name, found.Config), store, shelf)
        status, faults = _unlearn(room, ground, before)
    except CapabilityMissing:
        status = "refused"
    except Exception as fault:
        status, faults = "broken", (_told(fault),)
    seconds = time.perf_counter() - began
    return Tried(method=name, backbone=part.backbone, task=part.task, status=status, seconds=seconds, faults=faults)


def _unlearn(room: Workroom, ground: Ground, before: Trained) -> tuple[Status, tuple[str, ...]]:
    setting = room.setting
    recommender = before.load()
    if setting.method is None or not isinstance(recommender, Recommender):
        raise BenchError(f"{setting.entry.name!r} on {setting.backbone.name!r} leaves nothing to unlearn")
    with torch.random.fork_rng():
        torch.manual_seed(derive(setting.seed, "stage", "unlearned"))
        return examined(setting.method, recommender, ground.request(setting.seed), ground.split.test)


def examined(
    method: UnlearningMethod[Any], recommender: Recommender, request: ForgetRequest, test: Groups
) -> tuple[Status, tuple[str, ...]]:
    """Run a method once and look at everything it must leave in order."""
    was = fingerprint(recommender)
    progress = Progress()
    result = method.unlearn(recommender, request, progress)
    faults = []
    if fingerprint(recommender) != was:
        faults.append("the original was changed")
    if progress.diverged:
        lost = next(step for step in progress.steps if not all(map(math.isfinite, step.losses.values())))
        faults.append(f"losses that are not finite: {lost.stage}, step {lost.step}, {dict(lost.losses)}")
    with tempfile.TemporaryDirectory() as folder:
        faults += result_faults(was, result, Path(folder) / "model")
    faults += list_faults(result, test, ROWS)
    unchanged = fingerprint(result).content == was.content
    null = progress.notes.get("applicable") is False or progress.notes.get("edited_vectors") == 0
    if unchanged and not null:
        faults.append("nothing has changed: neither weights nor semantic IDs nor serving rules")
    return "broken" if faults else "null" if unchanged else "ok", tuple(faults)


def _told(fault: BaseException) -> str:
    """The fault in one line, with the place of this package where it came up."""
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if "site-packages" not in frame.filename]
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = str(fault).strip().splitlines()
    return f"{type(fault).__name__}: {text[0] if text else 'no details'}{place}"
