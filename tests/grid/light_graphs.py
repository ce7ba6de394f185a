"""Stage graphs like those of real cells, whose stages write a line each: for plans and sweeps without any training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import atomic_folder
from genrec_unlearn_bench.grid.expand import CellGraph, GridCell, cell_name
from genrec_unlearn_bench.pipeline.record import Cell
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.results import RECORD, result_folder
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext, materialise
from genrec_unlearn_bench.store.store import StageStore


def _writes(seconds: float = 0.0) -> Callable[[StageContext, Inputs, Path], Mapping[str, Any]]:
    def compute(context: StageContext, inputs: Inputs, folder: Path) -> Mapping[str, Any]:
        for step in context.progress.track("training", range(4)):
            time.sleep(seconds / 4)
            context.progress.follow("training", step, {"loss": 1.0 / (1 + step)})
        (folder / "out.json").write_text(json.dumps(inputs.stage.recipe))
        return {"peak_memory_mib": 100.0}

    return compute


class LightBuilder:
    """Builds a cell's graph as ``pipeline.graph`` does: dataset → task, sids → original, retrain → row → result.

    Args:
        versions: Stage name -> version, where it is not 1.
        seconds: What each stage takes.
    """

    def __init__(self, *, versions: Mapping[str, int] | None = None, seconds: float = 0.0) -> None:
        self._versions = versions or {}
        self._compute = _writes(seconds)
        self._memo: dict[Any, Stage] = {}

    def __call__(self, request: RunRequest) -> CellGraph:
        if request.method == "impossible":
            raise UsageError("the backbone cannot do that", hint="choose another one")
        task, backbone, seed = request.task, request.backbone, request.seed
        dataset = self._stage("dataset", {"dataset": task.partition("-")[0]})
        tasks = self._stage("task", {"task": task}, dataset=dataset)
        sids = self._stage("sids", {"backbone": backbone, "seed": seed}, dataset=dataset)
        original = self._stage("original", {"backbone": backbone, "seed": seed}, dataset=dataset, sids=sids)
        retrain = self._stage("retrain", {"backbone": backbone, "seed": seed}, dataset=dataset, sids=sids, task=tasks)
        stages = [dataset, tasks, sids, original, retrain]
        row = original if request.method == "original" else retrain
        if request.method not in ("original", "retrain"):
            config = {"method": request.method, "seed": seed, **_plain(request.method_set)}
            row = self._stage("unlearned", config, original=original, task=tasks)
            stages.append(row)
        result = self._stage("result", {"method": request.method}, retrain=retrain, row=row)
        stages.append(result)
        cell = Cell(
            task=task,
            backbone=backbone,
            method=request.method,
            seed=seed,
            scale=request.scale or "smoke",
            suite=request.suite,
        )
        return CellGraph(cell, result)

    def _stage(self, name: str, config: Mapping[str, Any], **inputs: Stage) -> Stage:
        # Equal configurations have equal inputs here.
        key = (name, json.dumps(config), *(stage.key for stage in inputs.values()))
        if key not in self._memo:
            version = self._versions.get(name, 1)
            self._memo[key] = Stage(name, version, config, inputs, compute=self._compute)
        return self._memo[key]


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the configuration, without those that say how a light job ends."""
    return {name: value for name, value in fields.items() if name in ("lr",)}


def grid_of(
    results: Path,
    *,
    tasks: Iterable[str] = ("demo-brand",),
    backbones: Iterable[str] = ("tiger",),
    rows: Iterable[str] = ("original", "retrain", "filter"),
    seeds: int = 1,
    **fields: Any,
) -> list[GridCell]:
    """A grid's cells, in its order."""
    cells = []
    for task, backbone, seed, row in product(tasks, backbones, range(seeds), rows):
        request = RunRequest(
            task=task, backbone=backbone, method=row, seed=seed, device="cpu", threads=1, results_dir=results, **fields
        )
        axes = {"task": task, "dataset": task.partition("-")[0], "backbone": backbone, "method": row, "seed": seed}
        cells.append(GridCell(cell_name(request), request, axes=axes))
    return cells


def run_light(request: RunRequest, graph: CellGraph, context: StageContext) -> Path:
    """Make a cell's stages and its result: the same bytes whenever it is written, but for the times."""
    for stage in graph.result.inputs.values():
        materialise(stage, context)
    return write_result(request, graph)


def write_result(request: RunRequest, graph: CellGraph) -> Path:
    """Leave a result's folder."""
    folder = result_folder(request.results_dir, graph.cell, graph.result.key)
    record = {
        "key": graph.result.key,
        "created": "2026-01-01T00:00:00+00:00",
        "threads": request.threads,
        "command": request.model_copy(update={"scale": graph.cell.scale}).command(),
        "stages": [{"name": label, "key": stage.key} for label, stage in graph.stages.items()][:-1],
        "per_user_digest": "abc",
    }
    with atomic_folder(folder, "--results-dir", replace=True) as draft:
        (draft / RECORD).write_text(json.dumps(record, indent=2))
        (draft / "per_user.parquet").write_text("users")
    return folder


def run_all(cells: Iterable[GridCell], build: LightBuilder, store: StageStore) -> None:
    """Run cells one after the other."""
    context = StageContext(store)
    for cell in cells:
        run_light(cell.request, build(cell.request), context)
