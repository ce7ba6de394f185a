"""Resolving a request: defaults filled in, names found, the configuration chosen, every fault shown before any work.

A configuration comes from one of three rulesets (protocol, sec. 5): ``default``, ``fixed`` or ``tuned``.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.backbones import load_backbone
from genrec_unlearn_bench.backbones.backbone import Backbone
from genrec_unlearn_bench.backbones.config import BackboneConfig, Scale
from genrec_unlearn_bench.config import StrictModel, one_of, parse
from genrec_unlearn_bench.data.catalogue import DatasetSpec, find_dataset
from genrec_unlearn_bench.data.tasks import TaskSpec, find_task, tasks
from genrec_unlearn_bench.errors import CapabilityMissing, DataMissing, UsageError
from genrec_unlearn_bench.evaluation.suites import Suite, find_measurement, find_suite, measurements
from genrec_unlearn_bench.evaluation.ulira import LEAST
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec, parse_encoder
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline.environment import default_threads, precision, resolve_device
from genrec_unlearn_bench.pipeline.record import Cell
from genrec_unlearn_bench.pipeline.request import RunRequest, changed
from genrec_unlearn_bench.registry import Entry, find_method, load_class, methods, source_digest
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.tuning.choice import (
    WHERE,
    Choice,
    choice_path,
    read_choice,
    recommender_digest,
    shipped_fixed,
)
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod, lacks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

LARGE_ENCODER = "sentence-transformers/sentence-t5-base"
"""TIGER's text encoder, TRACER names none. It has to be downloaded: small scales, and the demo, take TF-IDF."""

DEMO = "demo"

_SHARED = attrgetter(*(RunRequest.model_fields.keys() - {"method", "method_set", "ruleset", "seed"}))
"""Fields of a request that all methods and seeds of a grid may have in common."""

T = TypeVar("T")


@dataclass(frozen=True)
class ConfigSource:
    """Where one run's method configuration comes from."""

    name: str = "default"
    """default, fixed or tuned; default for every reference row."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    where: str = "--set"
    """As messages name it; the choice's file where it is tuned."""
    note: str = ""
    """For the record."""
    choice: Choice | None = None


@dataclass(frozen=True)
class ResolvedRequest:
    """One cell, ready to be run.

    Attributes:
        request: As given, with the scale filled in.
        method: None for a reference row.
        method_digest: blake2b-256 of the method's source file, or of the reference row's name.
        measuring: Configurations of the suite's measurements beyond the core, by name.
        precision: Of training on a GPU, where it changes numbers; empty on CPU.
        shared: The same for all methods and seeds of a grid that have everything else in common.
    """

    request: RunRequest
    task: TaskSpec
    dataset: DatasetSpec
    scale: Scale
    backbone: type[Backbone[Any, Any]]
    backbone_config: BackboneConfig
    sid_config: SidConfig
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
        return self.request.seed

    @property
    def bounded(self) -> bool:
        """Whether no model may take long whatever the data: at smoke scale, where they are not the demo's."""
        return self.scale is Scale.SMOKE and self.task.dataset != DEMO

    @property
    def hardware(self) -> dict[str, str]:
        """Device kind and precision, for keys: numbers differ between CPU and GPU, not between two GPUs' indices."""
        kind = self.device.partition(":")[0]
        return {"device": kind, "precision": self.precision} if self.precision else {"device": kind}

    @property
    def with_sasrec(self) -> bool:
        """Whether the original's quality is held against SASRec's."""
        asked = self.request.sasrec
        return self.scale is not Scale.SMOKE if asked is None else asked

    @property
    def holdout(self) -> dict[str, bool]:
        """For keys of what is trained or measured without the suite's holdout; empty where the suite has none."""
        return {"holdout": True} if self.suite.holdout else {}

    def of_seed(self, seed: int) -> ResolvedRequest:
        """The same cell with another training seed."""
        return replace(self, request=self.request.model_copy(update={"seed": seed}))


class Catalogue:
    """Finds what requests name, each thing once: a grid of thousands of cells names a handful of tasks and methods."""

    def __init__(self) -> None:
        self._found: dict[Hashable, object] = {}

    def task(self, name: str, data_dir: Path | None = None) -> TaskSpec:
        return self.tasks().get(name) or self.once(("task", name, data_dir), find_task, name, data_dir)

    def method(self, name: str) -> Entry:
        return self.methods().get(name) or self.once(("method", name), find_method, name)

    def tasks(self) -> dict[str, TaskSpec]:
        return self.once("tasks", tasks)

    def methods(self) -> dict[str, Entry]:
        return self.once("methods", methods)

    def once(self, key: Hashable, find: Callable[..., T], *arguments: Any) -> T:
        """The value of ``find``, called once for each key."""
        if key not in self._found:
            self._found[key] = find(*arguments)
        found: T = self._found[key]  # type: ignore[assignment]
        return found


def resolve(
    request: RunRequest, *, catalogue: Catalogue | None = None, source: ConfigSource | None = None
) -> ResolvedRequest:
    """Resolve a request. Raises UsageError of one kind or another for everything that is wrong with it.

    With the same ``catalogue`` for all cells of a grid, what they share is resolved once. The method's configuration
    comes from the request's ruleset, or from ``source`` (a record's own).
    """
    catalogue = catalogue or Catalogue()
    shared = tuple([repr(value) if isinstance(value, dict) else value for value in _SHARED(request)])
    before = catalogue.once(("original", shared), lambda: replace(_original(request, catalogue), shared=shared))
    entry = catalogue.method(request.method)
    scale = before.scale.value
    source = source or _config_source(request, entry, before)
    method, config, digest = catalogue.once(
        ("config", request.method, source.where, repr(sorted(source.fields.items()))), _method, entry, source
    )
    if method is not None:
        _check_method(method, before)
    if entry.name == "retrain-full" and before.sid_config.index:
        what = "the row 'retrain-full' makes semantic IDs anew without the concept, and those of a file stay"
        raise CapabilityMissing(what, where=str(request.sids), hint="leave the row out; 'retrain' keeps the IDs")
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
    of_demo = task.dataset == DEMO
    scale = Scale(one_of("scale", request.scale or (Scale.SMOKE if of_demo else Scale.SMALL), Scale))
    backbone = load_backbone(request.backbone)
    suite = find_suite(request.suite, request.measure)
    encoder = request.encoder or ("tfidf" if of_demo or scale in (Scale.SMOKE, Scale.SMALL) else LARGE_ENCODER)
    device = resolve_device(request.device)
    limits = backbone.smoke_limits if scale is Scale.SMOKE and not of_demo else {}
    if request.shadows:
        _check_shadows(request, suite)
    return ResolvedRequest(
        request=request.model_copy(update={"scale": scale.value}),
        task=task,
        dataset=find_dataset(task.dataset, request.data_dir),
        scale=scale,
        backbone=backbone,
        backbone_config=changed(backbone.presets[scale], {**limits, **request.backbone_set}, where="--set-backbone"),
        sid_config=_sid_config(request, backbone, scale),
        entry=catalogue.method("original"),
        method=None,
        method_config=MethodConfig(),
        method_digest="",
        source=ConfigSource(),
        suite=suite,
        measuring=_measurement_configs(suite, scale.value, request.measure_set),
        encoder=catalogue.once(("encoder", encoder), parse_encoder, encoder),
        device=device,
        # At smoke scale the matrices are so small that a second thread only costs (demo original: 31 s, alone 26 s).
        threads=request.threads or (1 if scale is Scale.SMOKE else default_threads()),
        precision=precision(device) if device.startswith("cuda") else "",
    )


def _sid_config(request: RunRequest, backbone: type[Backbone[Any, Any]], scale: Scale) -> SidConfig:
    """The tokenizer's preset with the request's changes, or with the digest of the index file that stands for it."""
    config: SidConfig = changed(backbone.sid_presets[scale], request.sid_set, where="--set-sid")
    if request.sids is None:
        if config.index:
            what = "the semantic IDs came from an index file, which a record knows by its content alone"
            raise UsageError(what, hint="say where it lies: --sids path/to/index.json")
        return config
    where = str(request.sids)
    if not backbone.reads_index:
        what = f"the backbone {backbone.name!r} has semantic IDs of its own making and takes none from a file"
        raise CapabilityMissing(what, where=where, hint="leave out --sids, or use --backbone tiger, letter or mor")
    try:
        digest = file_digest(request.sids)
    except OSError as fault:
        raise DataMissing(f"the index file cannot be read: {fault.strerror}", where=where) from None
    if config.index not in ("", digest):
        raise UsageError("this index file has another content than the one recorded", where=where, hint="give that one")
    return config.model_copy(update={"index": digest})


def _measurement_configs(suite: Suite, scale: str, fields: Mapping[str, Any]) -> dict[str, StrictModel]:
    """Each measurement's preset of the scale with the user's changes (``relearning.lr`` -> value)."""
    asked: dict[str, dict[str, Any]] = {name: {} for name in suite.measurements}
    for place, value in fields.items():
        name, _, field = place.partition(".")
        if one_of("measurement", name, measurements()) not in asked:
            what = f"this run does not make the measurement {name!r}"
            raise UsageError(what, where=f"--set-measure {place}", hint=f"give --suite full --measure {name}")
        asked[name][field] = value
    return {
        name: changed(find_measurement(name).config(scale), own, where=f"--set-measure {name}")
        for name, own in asked.items()
    }


def _check_shadows(request: RunRequest, suite: Suite) -> None:
    """Refuse shadow models that cannot be had. The size of their network shows once the original is there."""
    faults = (
        (request.shadows < LEAST or request.shadows % 2, f"they come in pairs, at least {LEAST}"),
        (request.requests > 1, "they follow one request, and --requests divides the forget set"),
        (not suite.holdout, f"they belong to the suite 'full', and the suite is {suite.name!r}"),
    )
    if found := [text for wrong, text in faults if wrong]:
        what = f"{request.shadows} shadow models cannot be trained: {'; '.join(found)}"
        raise UsageError(what, hint="use --suite full --shadows 8, say, or leave out --shadows")


def _method(entry: Entry, source: ConfigSource) -> tuple[UnlearningMethod[Any] | None, MethodConfig, str]:
    """A method, its configuration and the digest of its source."""
    if entry.kind == "reference":
        where = f"--set (the row {entry.name!r} has nothing to set)"
        return None, parse(MethodConfig, source.fields, where=where), source_digest(entry)
    # mypy: an abstract class may be looked for, it is only instantiated below.
    found: type[UnlearningMethod[Any]] = load_class(entry, UnlearningMethod)  # type: ignore[type-abstract]
    if lacking := lacks(found):
        raise UsageError(f"the method {entry.name!r} {lacking}", where=entry.target, hint="bench method new writes one")
    config = parse(found.Config, {**entry.fields, **source.fields}, where=source.where)
    return found(config), config, source_digest(entry)


def _check_method(method: UnlearningMethod[Any], before: ResolvedRequest) -> None:
    """Refuse a method whose needs the backbone does not meet, or that does not serve the task's kind of request."""
    missing = sorted(method.needs - before.backbone.capabilities(before.backbone_config, before.sid_config))
    if missing:
        ways = [method.without[capability] for capability in missing if capability in method.without]
        needs = f"needs what the backbone {before.backbone.name!r} does not have here: {', '.join(missing)}"
        hint = "; ".join([*ways, "choose another backbone, or a method that does without (bench ls methods)"])
        raise CapabilityMissing(f"the method {method.name!r} {needs}", hint=hint)
    if (task := before.task).kind not in method.kinds:
        raise CapabilityMissing(
            f"the method {method.name!r} does not serve requests of the kind {task.kind.value!r}, as {task.name!r} is",
            hint=f"use a task of the kind {' or '.join(sorted(method.kinds))}, or another method (bench ls methods)",
        )


def _config_source(request: RunRequest, entry: Entry, before: ResolvedRequest) -> ConfigSource:
    """Raises UsageError or ProtocolMismatch where the request's ruleset gives none."""
    if request.ruleset == "default" or entry.kind == "reference":
        return ConfigSource(fields=request.method_set)
    if request.method_set:
        raise UsageError(
            f"--ruleset {request.ruleset} fixes the configuration of {entry.name!r}, and --set changes it",
            hint="leave one of the two out",
        )
    return _fixed(entry, before) if request.ruleset == "fixed" else _tuned(request, entry, before)


def _fixed(entry: Entry, before: ResolvedRequest) -> ConfigSource:
    rules = shipped_fixed()
    carried = ""
    if (on := rules.chosen_on) and (on.task, on.backbone) != (before.task.name, before.backbone.name):
        carried = f"transferred: chosen on {on.task}, {on.backbone}, {on.scale}"
    if entry.name in rules.methods:
        return ConfigSource("fixed", rules.methods[entry.name], f"{WHERE}, {entry.name}", carried)
    if entry.variant_of not in rules.methods:
        return ConfigSource("fixed", where=WHERE, note="not in the fixed ruleset: the method's defaults")
    # A variant changes something about its method, and should differ from it in nothing else.
    note = f"not in the fixed ruleset: the entry of {entry.variant_of!r}, with the variant's own changes"
    fields = {**rules.methods[entry.variant_of], **entry.fields}
    return ConfigSource("fixed", fields, f"{WHERE}, {entry.variant_of}", f"{note}; {carried}".rstrip("; "))


def _tuned(request: RunRequest, entry: Entry, before: ResolvedRequest) -> ConfigSource:
    task, scale = before.task.name, before.scale.value
    path = choice_path(request.tuned_dir, task=task, backbone=request.backbone, scale=scale, method=entry.name)
    wanted = request.model_copy(update={"scale": scale})
    names = ("backbone", "scale", "data_dir", "sids", "encoder", "device", "tuned_dir")
    command = shlex.join(wanted.arguments("tune", *names))
    if not path.is_file():
        what = f"{entry.name!r} has not been tuned on {task}, {request.backbone}, {scale}"
        raise UsageError(what, where=str(path), hint=command)
    choice, fault = read_choice(path), ""
    if request.seed in choice.seeds:
        raise UsageError(
            f"the seed {request.seed} was used to tune {choice.method!r}, so nothing may be reported at it "
            "(protocol, sec. 5)",
            where=str(path),
            hint="give another --seed, or tune with seeds that you do not report (bench tune --seed 9000)",
        )
    if choice.method != entry.name or choice.method_digest != source_digest(entry):
        fault = "was changed after it was tuned"
    elif choice.backbone_digest != recommender_digest(before.backbone_config, before.sid_config):
        fault = "was tuned on another configuration of backbone or tokenizer"
    elif choice.encoder != before.encoder.key:
        fault = f"was tuned on the encoder {choice.encoder} (here: {before.encoder.key})"
    if fault:
        raise UsageError(f"the method {entry.name!r} {fault}", where=str(path), hint=f"tune again: {command}")
    note = f"no trial kept {choice.floor:.0%} of the original's retain NDCG@10 on validation; the nearest was taken"
    return ConfigSource("tuned", choice.config, str(path), "" if choice.feasible else note, choice)
