"""A submitted method's cell, run so that no retrained model is in its reach: the method first, the oracle afterwards.

1. What the method starts from (dataset, task, features, IDs, original) is made or taken from the cache, without the
   method: its file is not even imported.
2. A process of its own, in a sandbox, runs the method on a copy of these stages. It ends before anything goes on.
3. Of what it wrote, the unlearned model alone is taken over, plain files without links. Oracles, evaluation and
   measurements follow here, again without the method's code: a stand-in with its name and configuration fits the keys.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.locate import locate
from genrec_unlearn_bench.errors import BenchError, UsageError
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.graph import build_result
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ConfigSource, ResolvedRequest, resolve
from genrec_unlearn_bench.pipeline.results import FinishedRun
from genrec_unlearn_bench.pipeline.run import run_resolved
from genrec_unlearn_bench.pipeline.stage import Stage, StageContext, materialise, topological
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, source_digest, source_file
from genrec_unlearn_bench.reproduce.sandbox import check_sandbox, run_apart
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest

METHOD_STAGES = frozenset({"unlearned", "stream"})
"""Stages that the method's own code makes."""
REQUEST = "request.json"
METHOD = "method.py"
CACHE = "cache"
CHILD = f"from {__name__} import unlearn_apart; unlearn_apart()"
LARGEST = 64 << 30
"""Bytes of an unlearned model that are taken over."""


class _AnyConfig(MethodConfig):
    model_config = ConfigDict(extra="allow")


class _StandIn(UnlearningMethod[_AnyConfig]):
    """In place of the submitted method wherever its code may not run."""

    name = ""

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        raise BenchError(
            "the method's process made no model of the key that the record asks for",
            hint="its configuration may not be the record's, or it stopped without saying so",
        )


def run_isolated(
    request: RunRequest, source: ConfigSource, store: StageStore, progress: Progress, *, sandboxed: bool, seconds: float
) -> FinishedRun:
    """Run a cell of a method that is not trusted.

    Args:
        source: The record's own configuration.
        store: Must not hold the method's own stages; what it holds of others is used.
        sandboxed: False runs the method's process with this user's rights, for code that is trusted.
        seconds: After so long the method is ended.

    Raises:
        UsageError: The sandbox does not work here, or the run calls the method for its measurements.
        BenchError: The method failed.
    """
    if sandboxed:
        check_sandbox()
    if request.shadows:
        raise UsageError(
            "shadow models call the method again and again, which is not done in isolation",
            hint="run the record's command without --shadows",
        )
    resolved = _without_code(request, source)
    context = StageContext(store, progress, device=resolved.device)
    row = build_result(resolved, progress=progress).inputs["row"]
    theirs = [stage for stage in topological([row]) if stage.name in METHOD_STAGES]
    given = [stage for stage in topological([row]) if stage.name not in METHOD_STAGES]
    with determinism(resolved.threads):
        for stage in given:
            materialise(stage, context)
    with tempfile.TemporaryDirectory(prefix="bench-inputs-") as one, tempfile.TemporaryDirectory() as other:
        inputs, out = Path(one), Path(other)
        _write_inputs(request, source, given, context, inputs)
        progress.info(f"{resolved.entry.name}: unlearning {'in the sandbox' if sandboxed else 'without a sandbox'}")
        readable = _data_files(resolved, progress)
        run_apart(CHILD, inputs, out, sandboxed=sandboxed, readable=readable, seconds=seconds)
        _take_over(theirs, StageStore(out), context)
    return run_resolved(resolved, context)


def unlearn_apart() -> None:
    """In the method's process: make the row from the stages that are given, and store it in the output folder."""
    inputs, out = map(Path, sys.argv[1:])
    content = json.loads((inputs / REQUEST).read_text(encoding="utf-8"))
    request = RunRequest.model_validate(content["request"]).model_copy(update={"method": str(inputs / METHOD)})
    resolved = resolve(request, source=ConfigSource(**content["source"]))
    row = build_result(resolved, download=False).inputs["row"]
    store = StageStore(out, shared=inputs / CACHE)
    with determinism(resolved.threads):
        materialise(row, StageContext(store, device=resolved.device))


def _without_code(request: RunRequest, source: ConfigSource) -> ResolvedRequest:
    """The resolved request with a stand-in for its method, whose file is read and not imported."""
    entry = find_method(request.method)
    shared = resolve(request.model_copy(update={"method": "original"}), source=ConfigSource())
    config = _AnyConfig(**source.fields)
    kind = type("StandIn", (_StandIn,), {"name": entry.variant_of or entry.name, "Config": _AnyConfig})
    return replace(
        shared,
        request=request.model_copy(update={"scale": shared.scale.value}),
        entry=entry,
        method=kind(config),
        method_config=config,
        method_digest=source_digest(entry),
        source=source,
    )


def _write_inputs(
    request: RunRequest, source: ConfigSource, given: Sequence[Stage], context: StageContext, inputs: Path
) -> None:
    """The method's file, the request, and a store with copies of the stages that it starts from."""
    path = source_file(find_method(request.method))
    if path is None:
        raise UsageError(f"{request.method!r} has no file to run", hint="name the method's file")
    shutil.copyfile(path, inputs / METHOD)
    fields: dict[str, Any] = {"name": source.name, "fields": dict(source.fields), "where": source.where}
    content = {"request": request.model_dump(mode="json", exclude={"results_dir"}), "source": fields}
    (inputs / REQUEST).write_text(json.dumps(content), encoding="utf-8")
    store = StageStore(inputs / CACHE)
    for stage in given:
        shutil.copytree(context.stored(stage).path, store.folder(stage.name, stage.key))


def _data_files(resolved: ResolvedRequest, progress: Progress) -> list[Path]:
    """The dataset's folder, as digests of its files are part of the keys (none for the demo, which is generated), and
    a text encoder that lies in a folder."""
    encoder = Path(resolved.request.encoder or "")
    found = [encoder.resolve()] if encoder.is_absolute() and encoder.exists() else []
    if resolved.dataset.format != "demo":
        found.append(locate(resolved.dataset, resolved.data_dir, progress).folder.resolve())
    return found


def _take_over(theirs: Sequence[Stage], there: StageStore, context: StageContext) -> None:
    """Copy the stages that the method's process made into the run's store, as stages that were computed.

    Links are refused: one to the cache's retrained model would be read with our rights.
    """
    for stage in theirs:
        source, target = there.folder(stage.name, stage.key), context.store.folder(stage.name, stage.key)
        if source.is_dir():
            _copy_plain(source, target, source)
        found = context.store.find(stage.name, stage.key)
        if found is not None:
            context.cache.stages[stage.key] = found
            context.made.add(stage.key)


def _copy_plain(source: Path, target: Path, top: Path) -> None:
    target.mkdir(parents=True)
    with os.scandir(source) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                _copy_plain(Path(entry.path), target / entry.name, top)
            elif stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST:
                shutil.copyfile(entry.path, target / entry.name, follow_symlinks=False)
            else:
                place = ascii(Path(entry.path).relative_to(top).as_posix())
                raise BenchError(f"the method's process left something that is no plain file: {place}")
