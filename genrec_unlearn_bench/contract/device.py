"""``bench doctor --run``: a few steps of the main work on a device, timed, repeated, and compared with the CPU.

By the stages of a run, in a temporary store: twice on the device (the first time warms up and shows number formats, the
second is timed), and once on the CPU from the same inputs, unless that is the device.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from genrec_unlearn_bench.backbones import load_backbone
from genrec_unlearn_bench.contract.check import MAX_LENGTHS, shortened
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.evaluation.measurement import read_parts
from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH, WIDE_BEAM, gain
from genrec_unlearn_bench.pipeline.environment import determinism, metered
from genrec_unlearn_bench.pipeline.error_mapping import to_user_error
from genrec_unlearn_bench.pipeline.graph import build_result
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest, resolve
from genrec_unlearn_bench.pipeline.results import LOSSES
from genrec_unlearn_bench.pipeline.stage import Inputs, SessionCache, Stage, StageContext, materialise
from genrec_unlearn_bench.pipeline.stages.data import prepare_task
from genrec_unlearn_bench.pipeline.stages.train import MODEL
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.unlearning.sampling import at_most

RELEARNING = "measured relearning of original"
CHECKS: Mapping[str, tuple[str, str, Callable[[Any], int]]] = {
    "tiger": ("tiger", "original", lambda resolved: resolved.backbone_config.training.batch_size),
    "mor": ("mor", "original", lambda resolved: resolved.backbone_config.training.batch_size),
    "etegrec": ("etegrec", "original", lambda resolved: resolved.backbone_config.joint.batch_size),
    "tracer": ("tiger", "row", lambda resolved: 2 * resolved.method_config.batch_size),
    "relearning": ("tiger", RELEARNING, lambda resolved: resolved.measuring["relearning"].batch_size),
}
"""Check -> backbone, role of its stage in the graph of a cell, and examples of a full step."""
STEPS = {"cpu": ("smoke", 8), "cuda": ("small", 60)}
"""Scale, and most optimiser steps of each training and attack."""
EVERY = 4
"""Steps between two readings of the clock, at which the device's queue is drained."""
ROWS = 256
"""Retain test examples that are scored and ranked."""


def check_device(device: str, progress: Progress) -> Iterator[dict[str, Any]]:
    """Make every check and yield its figures, or its ``error``; a check that fails stops no other.

    Figures: ``steps_per_second``, ``examples_per_second``, ``lists_per_second`` (beam 50), ``peak_memory_mib``,
    ``precision``; ``noise_…``, the largest difference that a repetition on the device makes to weights and to NDCG@10
    (HR@10 of attacks); ``cpu_…``, where the CPU evaluates the same weights: the largest difference of logits, the share
    of equal top-10 lists; ``cpu_trained_…``, where it has made them: the same, and that of losses, relative above 1.
    Rounding grows with every step of training, so losses are what tells a fault there.
    """
    with TemporaryDirectory() as folder:
        for name, (backbone, role, examples) in CHECKS.items():
            progress.info(f"{name} on {device}")
            began = time.perf_counter()
            try:
                resolved = _resolved(backbone, device)
                with determinism(resolved.threads):
                    found = _figures(resolved, role, Path(folder) / backbone, Path(folder) / name)
                found["examples_per_second"] = examples(resolved) * found["steps_per_second"]
            except Exception as fault:
                found = {"error": to_user_error(fault).what.partition("\n")[0]}
            yield {"check": name, **found, "seconds": round(time.perf_counter() - began, 1)}


def _resolved(backbone: str, device: str) -> ResolvedRequest:
    (scale, steps), family = STEPS[device.partition(":")[0]], load_backbone(backbone)
    # Generators of the CPU and of a GPU draw other dropout masks, and trainings with them could not be compared.
    lengths = {**MAX_LENGTHS, "max_steps": steps, "dropout": 0}
    what: dict[str, Any] = {"task": "demo-brand", "method": "tracer", "suite": "full", "measure": ("relearning",)}
    shorter = {
        "method_set": {"max_steps": steps, "hard_epochs": 1, "epochs": 4},
        "backbone_set": shortened(family.presets[scale].model_dump(), lengths),
        "sid_set": shortened(family.sid_presets[scale].model_dump(), lengths),
        "measure_set": {"relearning.steps": (0, steps)},
    }
    return resolve(RunRequest(backbone=backbone, scale=scale, device=device, **what, **shorter))


def _figures(resolved: ResolvedRequest, role: str, shared: Path, folder: Path) -> dict[str, Any]:
    """Make the stage of a role; ``shared`` keeps what several checks of a backbone need."""
    device, result, formats = resolved.device, build_result(resolved), set[str]()
    stage, inputs = result.inputs[role], StageContext(StageStore(shared), device=device)
    for upstream in stage.inputs.values():
        materialise(upstream, inputs)

    def made(stage: Stage, name: str, device: str) -> Path:
        """In a store of its own, so that it is computed, from inputs that are there."""
        cache = SessionCache({key: one for key, one in inputs.cache.stages.items() if key != stage.key})
        return StageContext(StageStore(folder / name), cache=cache, device=device).make(stage).path

    with _timed(device, formats):
        first = made(stage, "first", device)
    with metered(device) as reading, _timed(device) as marks:
        second = made(stage, "second", device)
    here = None
    if device != "cpu":
        cpu = build_result(replace(resolved, device="cpu", precision="")).inputs[role]
        # The CPU's stage on the device's inputs, which it loads to the CPU.
        loaded = {name: replace(one, load=cpu.inputs[name].load) for name, one in stage.inputs.items()}
        here = made(replace(cpu, inputs=loaded), "cpu", "cpu")
    # The median: validation between two readings counts for nothing.
    speed = EVERY / float(np.median(np.diff(marks)))
    found: dict[str, Any] = {"steps_per_second": speed, "peak_memory_mib": reading.peak_memory_mib}
    found["precision"] = " and ".join(sorted(formats))
    if role == RELEARNING:
        others = {"noise_metric": second, "cpu_trained_metric": here}
        return found | {name: _attacks_differ(first, other) for name, other in others.items() if other}
    test = prepare_task(Inputs(result, inputs), resolved, holdout=False).split.test.retain
    return found | _models(resolved, at_most(test, ROWS, resolved.seed, "device"), first, second, here)


@contextmanager
def _timed(device: str, formats: set[str] | None = None) -> Iterator[list[float]]:
    """Seconds after every fourth optimiser step; ``formats`` of linear layers' outputs where gradients are taken."""
    marks, steps = list[float](), count(1)

    def stepped(*_: object) -> None:
        if next(steps) % EVERY == 0:
            if device != "cpu":
                torch.cuda.synchronize(device)
            marks.append(time.perf_counter())

    def called(module: torch.nn.Module, _: object, output: Any) -> None:
        if formats is not None and isinstance(module, torch.nn.Linear) and output.requires_grad:
            formats.add(str(output.dtype).removeprefix("torch."))

    watched = nullcontext() if formats is None else register_module_forward_hook(called)
    with register_optimizer_step_post_hook(stepped), watched:
        yield marks


def _models(resolved: ResolvedRequest, test: Examples, first: Path, second: Path, here: Path | None) -> dict[str, Any]:
    def read(folder: Path, device: str) -> tuple[Any, Any, float]:
        """Logits, lists, and lists a second."""
        model: Any = resolved.backbone.load(folder / MODEL, device=device)
        model.module.eval()
        histories = test.histories(model.history_limit)
        with torch.no_grad():
            logits = model.forward(histories, test.targets).logits.float().cpu()
        with metered(device) as reading:
            lists = model.recommend(histories, LIST_LENGTH, beam=WIDE_BEAM)
        return logits, lists, len(test) / reading.seconds

    (logits, lists, _), (_, again, speed) = (read(folder, resolved.device) for folder in (first, second))
    ndcg, other = (float(gain(one.ranks(test.targets), LIST_LENGTH).mean()) for one in (lists, again))
    found = {
        "lists_per_second": speed,
        "noise_weights": weights_differ(first, second),
        "noise_metric": abs(ndcg - other),
    }
    for name, folder in {} if here is None else {"cpu": first, "cpu_trained": here}.items():
        own, ranked, _ = read(folder, "cpu")
        found[f"{name}_logits"] = float((logits - own).abs().max())
        found[f"{name}_lists"] = float((lists.items == ranked.items).all(axis=1).mean())
    return found | ({} if here is None else {"cpu_trained_losses": losses_differ(first, here)})


def weights_differ(one: Path, other: Path) -> float:
    """The largest difference of two stored models' weights."""
    files = [path.relative_to(one) for path in (one / MODEL).rglob("*.safetensors")]
    pairs = [(value, load_file(other / file)[name]) for file in files for name, value in load_file(one / file).items()]
    return max(float((a.float() - b.float()).abs().max()) for a, b in pairs if a.is_floating_point() and a.numel())


def losses_differ(one: Path, other: Path) -> float:
    """The largest difference of two trainings' reported losses, relative to those above 1."""
    lines = [
        [json.loads(line) for line in (folder / LOSSES).read_text(encoding="utf-8").splitlines()]
        for folder in (one, other)
    ]
    pairs = [(a["losses"], b["losses"]) for a, b in zip(*lines, strict=True) if not a["stage"].endswith(".valid")]
    return float(max(abs(a[name] - b[name]) / max(1.0, abs(a[name])) for a, b in pairs for name in a))


def _attacks_differ(one: Path, other: Path) -> float:
    """The largest difference in HR@10 of the held-out interactions, over all attacks and steps."""
    rates = [{name: part.samples["train"].mean(1) for name, part in read_parts(each).items()} for each in (one, other)]
    return max(float(np.abs(rate - rates[1][name]).max()) for name, rate in rates[0].items())
