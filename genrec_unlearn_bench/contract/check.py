"""``bench method check``: all rules of the contract, from the method's file to its calls on every backbone.

The recommenders are the backbones' smoke presets on the demo, shortened to train in a second or two. They are made by
the same stages as those of a run, so the cache has them after the first check.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.backbones import backbones, load_backbone
from genrec_unlearn_bench.backbones.config import Scale
from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.contract import rules
from genrec_unlearn_bench.contract.calls import MethodCall, call_method
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.data.tasks import TASK_ENDINGS
from genrec_unlearn_bench.errors import BenchError, CapabilityMissing, UnknownName, UsageError
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.graph import recommender_stages
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest, resolve
from genrec_unlearn_bench.pipeline.stage import Inputs, SessionCache, Stage, StageContext
from genrec_unlearn_bench.pipeline.stages.data import prepare_task
from genrec_unlearn_bench.pipeline.stages.unlearn import generative
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import Entry, find_method
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod

FIRST_BACKBONE = "tiger"

MAX_LENGTHS = {
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
"""Largest values of fields for the length of a backbone's training."""

STEPS = 3
"""Optimiser steps of every method whose configuration has ``max_steps``."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    # P5's trees have no codebooks; where there are some, the field changes nothing.
    "tracer": {"surrogate_codebooks": True},
    # Its default turns back a step that costs too much, and a run of three may then have taken none.
    "grad-ascent": {"retain_ceiling": None},
    "influence": {"curvature_rows": 64, "iterations": 2},
    # Whatever the autoencoders of a run of seconds are worth, they are used, so that an edit takes place.
    "pisces": {
        "sae_rows": 1024,
        "sae_steps": 20,
        "fvu_ceiling": 10.0,
        "splice_floor": 0.0,
        "retain_floor": 0.0,
        "evaluations": 2,
        "valid_rows": 32,
        "pairs": 128,
    },
}
"""Further fields for a run of seconds, by method."""

OF_OTHER_CALLS = ("original-untouched", "result-whole", "lists", "losses")
OF_A_CALL = (*OF_OTHER_CALLS, "request-untouched", "changed", "quiet", "settings")
"""Rules that a call may break: of every call, and of the first one."""

DEMO_TASKS = {ConceptKind(concept.kind): f"demo-{ending}" for ending, concept in reversed(TASK_ENDINGS.items())}
"""The task of each kind that a method is called on."""


def check_method(
    text: str,
    *,
    cache_dir: Path,
    progress: Progress,
    fields: Mapping[str, Any] | None = None,
    on: Sequence[str] | None = None,
) -> rules.CheckReport:
    """Check all rules of the contract for a method.

    Args:
        text: ``path/to/file.py``, ``path/to/file.py:Class``, or the name of an installed method.
        fields: Configuration fields to set besides those that shorten it.
        on: Backbones besides TIGER; None means all.

    Raises UsageError if there is no such file, method or backbone, or ``fields`` do not fit.
    """
    began = time.perf_counter()
    names = dict.fromkeys([FIRST_BACKBONE, *(backbones() if on is None else on)])
    for name in names:
        load_backbone(name)  # Unknown names are refused before anything is done.
    try:
        entry = find_method(text)
    except UsageError as fault:
        file = Path(text if text.endswith(".py") else text.rpartition(":")[0])
        if isinstance(fault, UnknownName) or not file.is_file():
            raise
        result = rules.broken("file", fault.what, hint=fault.hint)
        return rules.CheckReport(method=text, file=text, findings=(result,), seconds=0.0)
    if entry.kind == "reference":
        raise UsageError(f"{entry.name!r} is a reference row and has no contract", hint="bench ls methods")
    method, imported = rules.import_rule(entry)
    results = [rules.checked("file"), *rules.file_rules(entry), imported]
    if method is not None:
        results += rules.class_rules(entry, method)
        needed = ("config-default", "declarations")
        if not any(result.status == "broken" and result.rule in needed for result in results):
            store = StageStore(cache_dir, progress)
            with determinism(1):
                results += _DemoCheck(entry, method, text, dict(fields or {}), list(names), store, progress).results()
    seconds = round(time.perf_counter() - began, 1)
    source = str(entry.source or entry.target)
    return rules.CheckReport(method=entry.name, file=source, findings=tuple(results), seconds=seconds)


@dataclass(frozen=True, eq=False)
class _DemoCheck:
    entry: Entry
    method: rules.Method
    text: str
    fields: dict[str, Any]
    backbones: list[str]
    store: StageStore
    progress: Progress
    cache: SessionCache = field(default_factory=SessionCache)

    def results(self) -> Iterator[rules.RuleResult]:
        fields = {**self.entry.fields, **reduced_fields(self.method.name, self.method.Config), **self.fields}
        config = parse(self.method.Config, fields, where="--set")
        kinds = [kind for kind in ConceptKind if kind in self.method.kinds]
        refusals = {(name, kind): self._refusal(name, kind) for name in self.backbones for kind in kinds}
        case = next((case for case, refusal in refusals.items() if not refusal), None)
        if case is None:
            yield rules.broken("runs", next(iter(refusals.values())))
            return
        first = self._call(*case, config)
        yield rules.checked("runs", [first.fault] if first.fault else [], f"{first.seconds:.1f} s", hint=first.hint)
        if first.fault:
            return
        yield from (rules.checked(rule, first.faults.get(rule, ())) for rule in OF_A_CALL)
        again = self._call(*case, config, again=first.method)
        faults = [f"a second call of the same object fails: {again.fault}"] if again.fault else []
        differs = ["two calls with one seed gave two results"] if again.content != first.content else []
        yield rules.checked("deterministic", faults or differs)
        backbone, kind = case
        others = [("kind", one.value, (backbone, one)) for one in ConceptKind if one is not kind]
        others += [("backbone", name, (name, kind)) for name in self.backbones if name != backbone]
        for rule, subject, other in others:
            if refusal := refusals.get(other, "not in `kinds`: refused"):
                yield rules.left_out(rule, refusal, subject=subject)
            else:
                call = self._call(*other, config)
                found = [part for name in OF_OTHER_CALLS for part in call.faults.get(name, ())]
                faults = [call.fault] if call.fault else found
                yield rules.checked(rule, faults, f"{call.seconds:.1f} s", hint=call.hint, subject=subject)

    def _call(
        self, backbone: str, kind: ConceptKind, config: MethodConfig, *, again: UnlearningMethod[Any] | None = None
    ) -> MethodCall:
        """Call a new method object, or a former one again, on a fresh copy of the original."""
        self.progress.info(f"check: {DEMO_TASKS[kind]} on {backbone}")
        resolved = self._resolve(backbone, kind, "original", {})
        context = StageContext(self.store, self.progress, self.cache)
        data, _, original, _ = recommender_stages(resolved, self.progress)
        inputs = Inputs(Stage("check", 1, inputs={**data, "original": original}), context)
        return call_method(
            lambda: again or self.method(config),
            generative(inputs["original"]),
            prepare_task(inputs, resolved, holdout=False),
            source=self.entry.source,
            repeated=again is not None,
        )

    def _refusal(self, backbone: str, kind: ConceptKind) -> str:
        """Why the method cannot be called there; empty if it can."""
        try:
            self._resolve(backbone, kind, self.text, self.fields)
        except CapabilityMissing as fault:
            return fault.what
        except BenchError:
            raise
        except Exception:  # Of the method's constructor: the call reports it.
            return ""
        return ""

    def _resolve(self, backbone: str, kind: ConceptKind, method: str, fields: Mapping[str, Any]) -> ResolvedRequest:
        found = load_backbone(backbone)
        request = RunRequest(
            task=DEMO_TASKS[kind],
            method=method,
            backbone=backbone,
            scale=Scale.SMOKE.value,
            device="cpu",
            threads=1,
            method_set=dict(fields),
            backbone_set=shortened(found.presets[Scale.SMOKE].model_dump()),
            sid_set=shortened(found.sid_presets[Scale.SMOKE].model_dump()),
        )
        return resolve(request)


def reduced_fields(method: str, config: type[MethodConfig]) -> dict[str, Any]:
    """Fields to change for a run of seconds: few steps, or one epoch of each kind where steps cannot be limited."""
    fields = config.model_fields
    if "max_steps" in fields:
        return {"max_steps": STEPS, **SETTINGS.get(method, {})}
    epochs = [name for name in fields if name.endswith("epochs") and type(fields[name].default) is int]
    return {**dict.fromkeys(epochs, 1), **SETTINGS.get(method, {})}


def shortened(content: Mapping[str, Any], lengths: Mapping[str, int] = MAX_LENGTHS) -> dict[str, Any]:
    """Limit the numbers in a configuration to those of their names in ``lengths``."""

    def limited(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return shortened(value, lengths)
        if name == "max_steps":  # It may be null: no limit.
            return lengths[name]
        return min(value, lengths.get(name, value)) if isinstance(value, int | float) else value

    return {name: limited(name, value) for name, value in content.items()}
