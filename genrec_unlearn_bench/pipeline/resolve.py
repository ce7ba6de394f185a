"""Resolving a request: every default filled in, every name found, every fault shown before any work is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.backbones.backbone import Backbone
from genrec_unlearn_bench.backbones.catalogue import load_backbone
from genrec_unlearn_bench.backbones.config import BackboneConfig, Scale
from genrec_unlearn_bench.backbones.minionerec.config import MiniOneRecConfig
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.config import StrictModel, one_of, parse
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.data.spec import DatasetSpec
from genrec_unlearn_bench.data.tasks import TaskSpec, find_task, tasks
from genrec_unlearn_bench.errors import CapabilityMissing, UnknownName, UsageError
from genrec_unlearn_bench.evaluation.suites import Suite, find_measurement, find_suite
from genrec_unlearn_bench.evaluation.ulira import LEAST
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec, parse_encoder
from genrec_unlearn_bench.pipeline.environment import default_threads, precision, resolve_device
from genrec_unlearn_bench.pipeline.record import Cell
from genrec_unlearn_bench.pipeline.request import RunRequest, changed
from genrec_unlearn_bench.pipeline.rulesets import ConfigSource, config_source
from genrec_unlearn_bench.registry import Entry, find_method, load_class, methods, source_digest
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.tuning.choice import check_recommender, recommender_digest
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

ENCODERS = {
    Scale.SMOKE: "tfidf",
    Scale.SMALL: "tfidf",
    # TIGER's encoder; TRACER names none. It has to be downloaded, so the small scales do without.
    Scale.PAPER: "sentence-transformers/sentence-t5-base",
    Scale.OFFICIAL: "sentence-transformers/sentence-t5-base",
}
"""Default text encoder of each scale; the demo's texts are made up and always take TF-IDF."""

DEMO = "demo"

MOST_SHADOW_PARAMETERS = 100_000_000
"""Of a recommender that shadow models are trained of: T5 sizes. No language model is trained N times to be measured."""

_SHARED = attrgetter(*(RunRequest.model_fields.keys() - {"method", "method_set", "ruleset", "seed"}))
"""Fields of a request that all methods and seeds of a grid may have in common."""

T = TypeVar("T")


@dataclass(frozen=True)
class ResolvedRequest:
    """One cell, ready to be run.

    Attributes:
        request: As it was asked for, with the scale filled in.
        capabilities: What a recommender of these configurations has.
        method: The method with its configuration; None for a reference row.
        method_digest: blake2b-256 of the method's source file, or of the reference row's name.
        source: Where the method's configuration comes from.
        measuring: Configurations of the suite's measurements beyond the core, by name.
        precision: Of training on a GPU, where it changes numbers; empty on CPU.
        shared: The same for all methods and seeds of a grid that have everything else in common.
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
    method_digest: str
    source: ConfigSource
    suite: Suite
    measuring: Mapping[str, StrictModel]
    encoder: EncoderSpec
    device: str
    threads: int
    precision: str = ""
    shared: tuple[Hashable, ...] = ()

    @cached_property
    def cell(self) -> Cell:
        """The cell of a grid that this is."""
        return Cell(
            task=self.task.name,
            backbone=self.backbone.name,
            method=self.entry.name,
            seed=self.seed,
            scale=self.scale.value,
            suite=self.request.suite,
            ruleset=self.source.name,
            requests=self.request.requests,
        )

    @property
    def seed(self) -> int:
        """The training seed."""
        return self.request.seed

    @property
    def data_dir(self) -> Path | None:
        """Where the dataset's files lie, if the user said so."""
        return self.request.data_dir

    @property
    def hardware(self) -> dict[str, str]:
        """Device kind and precision, for keys: numbers differ between CPU and GPU, not between two GPUs' indices."""
        kind = self.device.partition(":")[0]
        return {"device": kind, "precision": self.precision} if self.precision else {"device": kind}

    def of_seed(self, seed: int) -> ResolvedRequest:
        """The same cell with another training seed."""
        return replace(self, request=self.request.model_copy(update={"seed": seed}))


class Catalogue:
    """Finds what requests name, each thing once: a grid of thousands of cells names a handful of tasks and methods.

    A file that changes while this lives is not read again.
    """

    def __init__(self) -> None:
        self._found: dict[Hashable, object] = {}

    def task(self, name: str, data_dir: Path | None = None) -> TaskSpec:
        """As ``find_task``."""
        known = self.tasks()
        return known[name] if name in known else self.once(("task", name, data_dir), lambda: find_task(name, data_dir))

    def method(self, name: str) -> Entry:
        """As ``find_method``."""
        known = self.methods()
        return known[name] if name in known else self.once(("method", name), lambda: find_method(name))

    def tasks(self) -> dict[str, TaskSpec]:
        """As ``data.tasks.tasks``."""
        return self.once("tasks", tasks)

    def methods(self) -> dict[str, Entry]:
        """As ``registry.methods``."""
        return self.once("methods", methods)

    def once(self, key: Hashable, find: Callable[[], T]) -> T:
        """What ``find`` gives, called once for each key."""
        if key not in self._found:
            self._found[key] = find()
        found: T = self._found[key]  # type: ignore[assignment]
        return found


def resolve(
    request: RunRequest, *, catalogue: Catalogue | None = None, source: ConfigSource | None = None
) -> ResolvedRequest:
    """Resolve a request. Raises UsageError of one kind or another for everything that is wrong with it.

    Args:
        catalogue: Give the same one for all cells of a grid: what they share is worked out once.
        source: Where the method's configuration comes from, if not from the request's ruleset (a record's own).
    """
    catalogue = catalogue or Catalogue()
    shared = tuple([repr(value) if isinstance(value, dict) else value for value in _SHARED(request)])
    before = catalogue.once(("original", shared), lambda: replace(_original(request, catalogue), shared=shared))
    entry = catalogue.method(request.method)
    scale = before.scale.value
    if source is None and request.ruleset == "default":
        source = ConfigSource(fields=request.method_set)
    source = source or config_source(request, entry, task=before.task.name, scale=scale)
    method, config, digest = catalogue.once(
        ("config", request.method, source.where, repr(sorted(source.fields.items()))),
        lambda: (*_method(entry, source.fields, where=source.where), source_digest(entry)),
    )
    if method is not None:
        _check_capabilities(method, before.backbone.name, before.capabilities)
        _check_kind(method, before.task)
    if source.choice is not None:
        digest_now = recommender_digest(before.backbone_config, before.sid_config)
        check_recommender(source.choice, digest_now, before.encoder.key, path=source.path, hint=source.again)
    return replace(
        before,
        request=request if request.scale == scale else request.model_copy(update={"scale": scale}),
        entry=entry,
        method=method,
        method_config=config,
        method_digest=digest,
        source=source,
    )


def _original(request: RunRequest, catalogue: Catalogue) -> ResolvedRequest:
    """The row ``original``: all of a request but its method and seed. Raises UsageError."""
    task = catalogue.task(request.task, request.data_dir)
    scale = _scale(request.scale, task)
    backbone = load_backbone(request.backbone)
    backbone_config = changed(backbone.presets[scale], request.backbone_set, where="--set-backbone")
    sid_config = changed(backbone.sid_presets[scale], request.sid_set, where="--set-sid")
    suite = find_suite(request.suite, request.measure)
    encoder = request.encoder or (ENCODERS[Scale.SMOKE] if task.dataset == DEMO else ENCODERS[scale])
    device = resolve_device(request.device)
    resolved = ResolvedRequest(
        request=request.model_copy(update={"scale": scale.value}),
        task=task,
        dataset=find_dataset(task.dataset, request.data_dir),
        scale=scale,
        backbone=backbone,
        backbone_config=backbone_config,
        sid_config=sid_config,
        capabilities=backbone.capabilities(backbone_config, sid_config),
        entry=catalogue.method("original"),
        method=None,
        method_config=MethodConfig(),
        method_digest="",
        source=ConfigSource(),
        suite=suite,
        measuring=_measurement_configs(suite, scale.value, request.measure_set),
        encoder=catalogue.once(("encoder", encoder), lambda: parse_encoder(encoder)),
        device=device,
        # At smoke scale the matrices are so small that a second thread only costs (demo original: 31 s, alone 26 s).
        threads=request.threads or (1 if scale is Scale.SMOKE else default_threads()),
        precision=precision(device) if device.startswith("cuda") else "",
    )
    if request.shadows:
        _check_shadows(resolved)
    return resolved


def _measurement_configs(suite: Suite, scale: str, fields: Mapping[str, Any]) -> dict[str, StrictModel]:
    """Each measurement's preset of the scale with the user's changes (``relearning.lr`` -> value)."""
    asked: dict[str, dict[str, Any]] = {name: {} for name in suite.measurements}
    for place, value in fields.items():
        name, _, field = place.partition(".")
        if name not in asked:
            raise UnknownName("measurement", name, asked)
        asked[name][field] = value
    return {
        name: changed(find_measurement(name).config(scale), own, where=f"--set-measure {name}")
        for name, own in asked.items()
    }


def _check_shadows(resolved: ResolvedRequest) -> None:
    """Refuse shadow models that cannot be had. The size of a network from scratch shows once the original is there."""
    shadows = resolved.request.shadows
    if shadows < LEAST or shadows % 2:
        raise UsageError(
            f"shadow models come in pairs, at least {LEAST} of them, and {shadows} were asked for",
            hint="use --shadows 8, say",
        )
    if resolved.request.requests > 1:
        raise UsageError(
            "shadow models follow one request, and the forget set is divided into several",
            hint="leave out --shadows or --requests",
        )
    if not resolved.suite.holdout:
        raise UsageError(
            f"shadow models belong to the suite 'full', and the suite is {resolved.suite.name!r}",
            hint="use --suite full, or leave out --shadows",
        )
    config = resolved.backbone_config
    if isinstance(config, MiniOneRecConfig) and config.checkpoint is not None:
        raise UsageError(
            f"the recommender is made of the language model {config.checkpoint}, and shadow models are trained of up "
            f"to {MOST_SHADOW_PARAMETERS / 1e6:.0f} million parameters",
            hint="leave out --shadows, or train from scratch (--set-backbone checkpoint=null)",
        )


def _scale(name: str | None, task: TaskSpec) -> Scale:
    if name is None:
        return Scale.SMOKE if task.dataset == DEMO else Scale.SMALL
    return Scale(one_of("scale", name, Scale))


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
