"""A request with every default filled in and every name resolved: all that is wrong with a call shows here, before any
work is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.backbones.backbone import Backbone, BackboneConfig, Scale
from genrec_unlearn_bench.backbones.catalogue import load_backbone
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.config import StrictModel, parse
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.data.spec import DatasetSpec
from genrec_unlearn_bench.data.task_spec import TaskSpec
from genrec_unlearn_bench.errors import CapabilityMissing, UnknownName
from genrec_unlearn_bench.evaluation.suites import Suite, find_suite
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec
from genrec_unlearn_bench.pipeline.environment import default_threads, resolve_device
from genrec_unlearn_bench.pipeline.measure_configs import measure_configs
from genrec_unlearn_bench.pipeline.names import Names
from genrec_unlearn_bench.pipeline.request import RunRequest, changed
from genrec_unlearn_bench.registry import Entry, load_class
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.tuning.choice import recommender_digest
from genrec_unlearn_bench.tuning.rulesets import Ruling, ruled
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ENCODERS", "Setting", "settle", "settle_method", "settle_recommender"]

ENCODERS = {
    Scale.SMOKE: "tfidf",
    Scale.SMALL: "tfidf",
    # TIGER's encoder; TRACER names none. It has to be downloaded, so the small scales do without.
    Scale.PAPER: "sentence-transformers/sentence-t5-base",
    Scale.OFFICIAL: "sentence-transformers/sentence-t5-base",
}
"""Default text encoder of each scale; the demo's texts are made up and always take TF-IDF."""

DEMO = "demo"


@dataclass(frozen=True)
class Setting:
    """One cell, ready to be run.

    Attributes:
        request: As it was asked for, with the scale filled in.
        capabilities: What a recommender of these configurations has.
        method: The method's class and configuration; None for a reference row.
        ruling: Where the method's configuration comes from.
        measuring: Configurations of the suite's measurements beyond the core, by name.
    """

    request: RunRequest
    task: TaskSpec
    dataset: DatasetSpec
    scale: Scale
    backbone: type[Backbone]
    backbone_config: BackboneConfig
    sid_config: SidConfig
    capabilities: frozenset[Capability]
    entry: Entry
    method: UnlearningMethod[Any] | None
    method_config: MethodConfig
    ruling: Ruling
    suite: Suite
    measuring: Mapping[str, StrictModel]
    encoder: EncoderSpec
    device: str
    threads: int

    @property
    def seed(self) -> int:
        """The training seed."""
        return self.request.seed

    @property
    def data_dir(self) -> Path | None:
        """Where the dataset's files lie, if the user said so."""
        return self.request.data_dir

    @property
    def device_kind(self) -> str:
        """``cpu`` or ``cuda``: numbers differ between the two, and not between two GPUs of one kind's index."""
        return self.device.partition(":")[0]


def settle(request: RunRequest, ruling: Ruling | None = None) -> Setting:
    """Resolve a request. Raises UsageError of one kind or another for everything that is wrong with it.

    Args:
        ruling: Where the method's configuration comes from, if not from the request's ruleset (a record's own).
    """
    names = Names()
    return settle_method(settle_recommender(request, names), request, names, ruling)


def settle_recommender(request: RunRequest, names: Names) -> Setting:
    """The setting of the row ``original``: all of a request but its method. Raises UsageError."""
    task = names.task(request.task, request.data_dir)
    entry = names.method("original")
    scale = _scale(request.scale, task)
    backbone = load_backbone(request.backbone)
    backbone_config = changed(backbone.preset(scale), request.backbone_set, where="--set-backbone")
    sid_config = changed(backbone.sid_preset(scale), request.sid_set, where="--set-sid")
    suite = find_suite(request.suite, request.measure)
    plain = ENCODERS[Scale.SMOKE] if task.dataset == DEMO else ENCODERS[scale]
    setting = Setting(
        request=request.model_copy(
            update={"scale": scale.value, "method": entry.name, "method_set": {}, "ruleset": "default"}
        ),
        task=task,
        dataset=names.dataset(task.dataset, request.data_dir),
        scale=scale,
        backbone=backbone,
        backbone_config=backbone_config,
        sid_config=sid_config,
        capabilities=backbone.capabilities(backbone_config, sid_config),
        entry=entry,
        method=None,
        method_config=MethodConfig(),
        ruling=Ruling(),
        suite=suite,
        measuring=measure_configs(suite, scale.value, request.measure_set),
        encoder=names.encoder(request.encoder or plain),
        device=resolve_device(request.device),
        # At smoke scale the matrices are so small that a second thread only costs (demo original: 31 s, alone 26 s).
        threads=request.threads or (1 if scale is Scale.SMOKE else default_threads()),
    )
    if request.shadows:
        from genrec_unlearn_bench.pipeline.shadow_limits import check_shadows

        check_shadows(request, setting.suite, setting.backbone_config)
    return setting


def settle_method(before: Setting, request: RunRequest, names: Names, ruling: Ruling | None = None) -> Setting:
    """The setting of a request, from that of its original. Raises UsageError.

    Args:
        before: What ``settle_recommender`` gave for this request, or for one that differs in method and seed alone.
        ruling: As in ``settle``.
    """
    entry = names.method(request.method)
    scale = before.scale.value
    ruling = ruling or ruled(request, entry, task=before.task.name, scale=scale, fixed=names.fixed)
    method, method_config = _method(entry, ruling.fields, where=ruling.where)
    if method is not None:
        _check_capabilities(method, before.backbone.name, before.capabilities)
        _check_kind(method, before.task)
    ruling.check_recommender(recommender_digest(before.backbone_config, before.sid_config), before.encoder.key)
    return replace(
        before,
        request=request.model_copy(update={"scale": scale}),
        entry=entry,
        method=method,
        method_config=method_config,
        ruling=ruling,
    )


def _scale(name: str | None, task: TaskSpec) -> Scale:
    if name is None:
        return Scale.SMOKE if task.dataset == DEMO else Scale.SMALL
    if name not in set(Scale):
        raise UnknownName("scale", name, list(Scale))
    return Scale(name)


def _method(
    entry: Entry, fields: Mapping[str, Any], *, where: str
) -> tuple[UnlearningMethod[Any] | None, MethodConfig]:
    if entry.kind == "reference":
        return None, parse(MethodConfig, fields, where=f"--set (the row {entry.name!r} has nothing to set)")
    # mypy: an abstract class may be looked for, it is only instantiated below.
    found: type[UnlearningMethod[Any]] = load_class(entry, UnlearningMethod)  # type: ignore[type-abstract]
    config = parse(found.Config, {**entry.fields, **fields}, where=where)
    return found(config), config


def _check_capabilities(method: UnlearningMethod[Any], backbone: str, found: frozenset[Capability]) -> None:
    missing = sorted(method.needs - found)
    if missing:
        raise CapabilityMissing(
            f"the method {method.name!r} needs what the backbone {backbone!r} does not have here: {', '.join(missing)}",
            hint="; ".join(
                [
                    *(method.without[capability] for capability in missing if capability in method.without),
                    "choose another backbone, or a method that does without (bench ls methods)",
                ]
            ),
        )


def _check_kind(method: UnlearningMethod[Any], task: TaskSpec) -> None:
    kind = ConceptKind(task.concept.kind)
    if kind not in method.kinds:
        raise CapabilityMissing(
            f"the method {method.name!r} does not serve requests of the kind {kind.value!r}, as {task.name!r} is",
            hint=f"use a task of the kind {' or '.join(sorted(method.kinds))}, or another method (bench ls methods)",
        )
