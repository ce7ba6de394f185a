"""A store and a results folder as a grid that was run would leave them, without running anything: every stage that a
cell asks for is written as a manifest over next to nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.grid.cell import GridCell, cell_name
from genrec_unlearn_bench.grid.explain import recorded_names
from genrec_unlearn_bench.grid.probe import Probe, StageMissing, Walk, _ProbingRoom
from genrec_unlearn_bench.pipeline.ground import lay_ground
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.results import folder_prefix, row_folder
from genrec_unlearn_bench.pipeline.setting import Setting, settle
from genrec_unlearn_bench.pipeline.workroom import Shelf, Workroom
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import REFERENCE_ROWS, methods
from genrec_unlearn_bench.sids.storage import save_table
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.store.keys import KeyContent
from genrec_unlearn_bench.store.manifest import write_manifest
from genrec_unlearn_bench.store.store import Compute, StageStore, StoredStage

GROUND = ("dataset", "task", "features")
KINDS = ("demo-brand", "demo-price", "demo-item", "demo-interaction")
BACKBONES = ("tiger", "letter", "p5sid", "mor", "etegrec")


def lay_grounds(store: StageStore, tasks: Iterable[str]) -> None:
    """The real dataset and features of the demo, which everything else is keyed by."""
    for task in tasks:
        request = RunRequest(task=task, method="original", device="cpu", threads=1)
        lay_ground(Workroom(settle(request), store, Progress(), Shelf()))


def grid_of(
    results: Path,
    *,
    tasks: Iterable[str] = KINDS[:1],
    backbones: Iterable[str] = BACKBONES[:1],
    rows: Iterable[str] = ("original", "retrain", "filter"),
    seeds: int = 1,
    **fields: Any,
) -> list[GridCell]:
    """A grid's cells, in its order."""
    cells = []
    for task, backbone, row, seed in product(tasks, backbones, rows, range(seeds)):
        request = RunRequest(
            task=task,
            backbone=backbone,
            method=row,
            seed=seed,
            device="cpu",
            threads=1,
            results_dir=results,
            **fields,
        )
        cells.append(GridCell(cell_name(request), request))
    return cells


def all_rows() -> list[str]:
    """Reference rows and every method."""
    return [*REFERENCE_ROWS, *(name for name, entry in methods().items() if entry.kind == "method")]


class Faking(Probe):
    """Writes what a walk does not find."""

    def _room(self, setting: Setting, recorded: Any) -> _ProbingRoom:
        return _FakingRoom(setting, self.store, self._shelf, self._look, self._keys, {})


class _FakingRoom(_ProbingRoom):
    def stage(
        self, name: str, content: KeyContent, compute: Compute, *, of: str = "", together: bool = False
    ) -> StoredStage:
        try:
            return super().stage(name, content, compute, of=of, together=together)
        except StageMissing as missing:
            assert name not in GROUND, "laid before"
            _write_stage(self._store, name, missing.key, content)
            self._look._found.pop((name, missing.key))
            self.visits.pop()
            return super().stage(name, content, compute, of=of, together=together)


def _write_stage(store: StageStore, name: str, key: str, content: KeyContent) -> None:
    folder = store.folder(name, key)
    folder.mkdir(parents=True)
    (folder / "what.txt").write_text(key)
    if name == "evaluation":
        (folder / "per_user.parquet").touch()
    table = SidTable(np.arange(8, dtype=np.int64).reshape(4, 2), (8, 8), 2)
    if name in ("sids", "sids-full"):
        save_table(table, folder)
    if name in ("original", "retrain", "unlearned", "retrain-full"):
        save_table(table, folder / "model" / "sids")
    write_manifest(folder, name, key, content, seconds=3.5, account={"seconds": 3.0, "peak_memory_mib": 100.0})


def fake_run(store: StageStore, cells: Iterable[GridCell], *, results: bool = True) -> int:
    """Leave everything that running these cells would; returns how many were left out as impossible."""
    faking, refused = Faking(store), 0
    for cell in cells:
        try:
            walk = faking.walk(cell.request)
        except UsageError:
            refused += 1
            continue
        assert walk.key is not None
        if results:
            _write_result(cell.request.results_dir, walk)
    return refused


def _write_result(root: Path, walk: Walk) -> None:
    assert walk.key is not None
    folder = row_folder(root, walk.cell) / f"{folder_prefix(walk.cell)}{walk.key[:10]}"
    folder.mkdir(parents=True, exist_ok=True)
    stages = [
        {"name": name, "key": visit.key, "digest": visit.stage.digest}
        for name, visit in recorded_names(walk)
        if visit.stage is not None
    ]
    setting = walk.setting
    record = {
        "key": walk.key,
        "created": "2026-01-01T00:00:00+00:00",
        "command": setting.request.command(),
        "method_config": setting.method_config.model_dump(mode="json"),
        "backbone_config": setting.backbone_config.model_dump(mode="json"),
        "sid_config": setting.sid_config.model_dump(mode="json"),
        "stages": stages,
        "metrics": [],
    }
    (folder / "result.json").write_text(json.dumps(record))


def tree_digest(root: Path) -> str:
    """Of every name, time and byte under a folder."""
    state = hashlib.blake2b()
    for path in sorted(root.rglob("*")):
        status = path.stat()
        state.update(f"{path.relative_to(root)} {status.st_mtime_ns} {status.st_size}".encode())
        if path.is_file():
            state.update(path.read_bytes())
    return state.hexdigest()
