"""The demo with recommenders that train in a second or two: what the contract is tested on.

They are the backbones' own smoke presets with every length cut down, made by the same stages as any run's, so that
they lie in the cache after the first check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from genrec_unlearn_bench.backbones.backbone import Scale
from genrec_unlearn_bench.backbones.catalogue import load_backbone
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.pipeline.context import Inputs, StageContext, materialise
from genrec_unlearn_bench.pipeline.graph import recommender_stages
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest, resolve
from genrec_unlearn_bench.pipeline.stage import Stage
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask, prepare_task
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore

__all__ = ["TASKS", "Place", "World", "shortened", "trial_inputs"]

TASKS = {
    ConceptKind.BRAND: "demo-brand",
    ConceptKind.PRICE: "demo-price",
    ConceptKind.ITEM: "demo-item",
    ConceptKind.INTERACTION: "demo-interaction",
}
"""A task of every kind."""

LENGTHS = {
    "max_steps": 15,
    "epochs": 2,
    "evaluations": 1,
    "valid_rows": 64,
    "warmup_epochs": 1,
    "warm_epoch": 1,
    "resolve_rounds": 1,
    "dead_code_epochs": 1,
    "recluster_epochs": 1,
}
"""Fields that say how long something is trained, and the most they may be here."""


@dataclass(frozen=True)
class Place:
    """Where the method is tried once."""

    backbone: str = "tiger"
    kind: ConceptKind = ConceptKind.BRAND

    @property
    def task(self) -> str:
        """The demo's task of that kind."""
        return TASKS[self.kind]

    def __str__(self) -> str:
        return f"{self.task} on {self.backbone}"


class World:
    """Recommenders and requests on the demo, made when they are asked for."""

    def __init__(self, store: StageStore, progress: Progress) -> None:
        self._context = StageContext(store, progress)

    def resolve(self, place: Place, method: str, fields: Mapping[str, Any]) -> ResolvedRequest:
        """The method on a place. Raises CapabilityMissing where it refuses."""
        found = load_backbone(place.backbone)
        request = RunRequest(
            task=place.task,
            method=method,
            backbone=place.backbone,
            scale=Scale.SMOKE.value,
            device="cpu",
            threads=1,
            method_set=dict(fields),
            backbone_set=shortened(found.preset(Scale.SMOKE).model_dump()),
            sid_set=shortened(found.sid_preset(Scale.SMOKE).model_dump()),
        )
        return resolve(request)

    def task(self, place: Place) -> PreparedTask:
        """Dataset, task and features."""
        resolved = self.resolve(place, "original", {})
        return prepare_task(trial_inputs(resolved, self._context), resolved.encoder.key, holdout=False)

    def recommender(self, place: Place) -> Recommender:
        """An original, each time another copy."""
        found = trial_inputs(self.resolve(place, "original", {}), self._context)["original"]
        if not isinstance(found, Recommender):
            raise BenchError(f"the backbone {place.backbone!r} gives no generative recommender")
        return found


def trial_inputs(resolved: ResolvedRequest, context: StageContext) -> Inputs:
    """Data and original recommender of a request, made or taken from the store."""
    data, _, original, _ = recommender_stages(resolved, context.progress)
    trial = Stage("trial", 1, inputs={**data, "original": original})
    for stage in trial.inputs.values():
        materialise(stage, context)
    return Inputs(trial, context)


def shortened(content: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with every length cut down."""
    out: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            out[name] = shortened(value)
        elif name == "max_steps":
            out[name] = LENGTHS[name]
        elif name in LENGTHS and isinstance(value, int):
            out[name] = min(value, LENGTHS[name])
        else:
            out[name] = value
    return out
