"""One call of a method on the demo: its side effects, and the faults of its result, however little it has learned."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from genrec_unlearn_bench.backbones.packing import foreign_hooks
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.decode import decode, given_histories
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import RANK_METRICS, user_mean
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask
from genrec_unlearn_bench.pipeline.stages.unlearn import first_not_finite
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import frame_in_file
from genrec_unlearn_bench.seeding import derive, generators_kept
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.sampling import at_most

SEED = 0

BEAM = 10

TEST_USERS = 64
"""Test users per group whose recommendation lists are checked."""


@dataclass(eq=False)
class MethodCall:
    """A call of ``unlearn`` and its result.

    Attributes:
        method: The called object; None if it could not be made.
        fault: Why the call failed, in one line; there is no result then.
        faults: What it broke, by the name of the rule.
        content: Digest of all that determines its lists; None without a result.
    """

    method: UnlearningMethod[Any] | None = None
    fault: str = ""
    hint: str | None = None
    faults: dict[str, list[str]] = field(default_factory=dict)
    content: tuple[str, str, str] | None = None
    seconds: float = 0.0
    progress: Progress = field(default_factory=Progress)


def call_method(
    make: Callable[[], UnlearningMethod[Any]],
    recommender: Recommender,
    task: PreparedTask,
    *,
    source: Path | None,
    repeated: bool = False,
) -> MethodCall:
    """Call a method's ``unlearn`` once.

    Args:
        source: The method's file, to report the line of an exception.
        repeated: A call for comparison with an earlier one: with other states of Python's and NumPy's global
            generators, on which nothing may depend, and without checking the result.
    """
    request = task.request(SEED)
    before, digest = fingerprint(recommender), _digest(request)
    call = MethodCall()
    began = time.perf_counter()
    with _observed(call.faults, global_seed=int(repeated)):
        try:
            call.method = make()
            result = call.method.unlearn(recommender, request, call.progress)
        except BenchError as fault:
            call.fault, call.hint = fault.what, fault.hint
            return call
        except (Exception, SystemExit) as fault:
            call.fault = frame_in_file(fault, source) or f"{type(fault).__name__}: {fault}".partition("\n")[0]
            return call
    call.seconds = time.perf_counter() - began
    if not isinstance(result, Recommender):
        call.fault = f"unlearn() returned {type(result).__name__}, not a recommender"
        return call
    now, after = fingerprint(recommender), fingerprint(result)
    changed = [part for part, was in vars(before).items() if vars(now)[part] != was]
    call.faults["original-untouched"] = [f"the original's {part} changed" for part in changed]
    if _digest(request) != digest:
        call.faults["request-untouched"] = ["arrays of the request were changed in place"]
    notes = call.progress.notes
    if after.content == before.content and notes.get("applicable") is not False and notes.get("edited_vectors") != 0:
        call.faults["changed"] = ["the result equals the original to the bit"]
    call.faults["losses"] = _loss_faults(call.progress, trained=after.weights != before.weights)
    if not repeated:
        with tempfile.TemporaryDirectory() as folder:
            call.faults["result-whole"] = list(result_faults(before, result, Path(folder) / "model"))
        if not first_not_finite(result):
            call.faults["lists"] = list(list_faults(result, task.split.test, TEST_USERS))
    call.content = after.content
    return call


def _loss_faults(progress: Progress, *, trained: bool) -> list[str]:
    for step in progress.steps:
        if names := [f"{name} = {value}" for name, value in step.losses.items() if not math.isfinite(value)]:
            return [f"losses are not finite in step {step.step} of {step.stage!r}: {', '.join(names)}"]
    return [] if progress.steps or not trained else ["weights were changed, and no step was reported"]


@dataclass(frozen=True)
class Fingerprint:
    """A recommender's state: content, and the modes, flags and hooks that a method may forget to put back."""

    weights: str
    names: tuple[str, ...]
    sids: str
    serving: str
    training: bool
    trainable: tuple[bool, ...]
    hooks: int

    @property
    def content(self) -> tuple[str, str, str]:
        """The part that determines its lists."""
        return self.weights, self.sids, self.serving


def fingerprint(recommender: Recommender) -> Fingerprint:
    """Digests of a recommender's state, weights to the bit."""
    state = recommender.module.state_dict()
    weights = hashlib.blake2b(digest_size=16)
    for name, tensor in state.items():
        weights.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        weights.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return Fingerprint(
        weights=weights.hexdigest(),
        names=tuple(state),
        sids=recommender.sids.digest,
        serving=_digest(recommender.serving),
        training=recommender.module.training,
        trainable=tuple(parameter.requires_grad for parameter in recommender.module.parameters()),
        hooks=len([*foreign_hooks(recommender.module)]),
    )


def result_faults(before: Fingerprint, result: Recommender, folder: Path) -> Iterator[str]:
    """Faults of the recommender that a method returned; it is saved to ``folder`` and loaded again."""
    after = fingerprint(result)
    if bad := first_not_finite(result):
        yield f"weights that are not finite: {bad} holds NaN or infinity"
    if after.hooks > before.hooks:
        yield f"{after.hooks - before.hooks} hooks were left behind"
    if after.names != before.names:
        yield f"other parameters than the original's: {', '.join(sorted({*after.names} ^ {*before.names})[:4])} …"
        return
    if after.trainable != before.trainable:
        yield "parameters that no longer require gradients, or newly do"
    result.save(folder)
    if fingerprint(type(result).load(folder)).content != after.content:
        yield "saved and loaded, it is another model"


def list_faults(model: Recommender, test: Groups, rows: int) -> Iterator[str]:
    """Faults of the lists of at most ``rows`` forget and as many retain users: bounds between the ranking metrics,
    duplicate items, scores out of order, blocked items."""
    values: list[MetricValue] = []
    for group, part in ((Group.FORGET, test.forget), (Group.RETAIN, test.retain)):
        examples = at_most(part, rows, 0, "soundness", group.value)
        ranking = decode(model, given_histories(model, examples), beam=BEAM, label=group.value, progress=Progress())
        yield from (f"{group.value} lists: {fault}" for fault in _order_faults(model, ranking))
        ranks = ranking.ranks(examples.targets)
        values += [user_mean(name, group, score(ranks), beam=BEAM) for name, score in RANK_METRICS.items()]
    yield from check_invariants(values)


def _order_faults(model: Recommender, ranking: Ranking) -> Iterator[str]:
    filled = ranking.items >= 0
    if not filled[:, 0].all():
        yield f"{int((~filled[:, 0]).sum())} are empty"
    if any(len(np.unique(row[row >= 0])) < int((row >= 0).sum()) for row in ranking.items):
        yield "an item stands in one twice"
    steps = np.diff(np.where(filled, ranking.log_probs, -np.inf), axis=1)
    if np.isnan(ranking.log_probs).any() or (steps > 1e-5)[filled[:, 1:]].any():
        yield "scores are not in order"
    blocked = model.serving.blocked
    if blocked is not None and blocked[ranking.items[filled]].any():
        yield "a blocked item is served"


def _digest(content: object) -> str:
    state = hashlib.blake2b(digest_size=16)
    waiting = [content]
    while waiting:
        part = waiting.pop()
        if isinstance(part, np.ndarray) and part.dtype != object:
            state.update(np.ascontiguousarray(part).tobytes())
        elif dataclasses.is_dataclass(part) and not isinstance(part, type):
            waiting += [getattr(part, each.name) for each in dataclasses.fields(part)]
        else:
            state.update(repr(part).encode())
    return state.hexdigest()


SETTINGS: tuple[tuple[str, Callable[[], Any], Callable[[Any], object]], ...] = (
    ("torch's default type", torch.get_default_dtype, torch.set_default_dtype),
    ("the number of threads", torch.get_num_threads, torch.set_num_threads),
    ("gradients (torch.set_grad_enabled)", torch.is_grad_enabled, torch.set_grad_enabled),
)
"""What a method must leave as it is, how to read it, and how to put it back."""


@contextlib.contextmanager
def _observed(faults: dict[str, list[str]], *, global_seed: int) -> Iterator[None]:
    """Observe the block's output and changes of settings; global state is restored.

    Torch's global generator is seeded as the runner does for a stage, Python's and NumPy's with ``global_seed``.
    """
    output = io.StringIO()
    outside = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global generator is meant
    before = [read() for _, read, _ in SETTINGS]
    try:
        with generators_kept(), contextlib.redirect_stdout(output):
            random.seed(global_seed)
            np.random.seed(global_seed)  # noqa: NPY002
            torch.manual_seed(derive(SEED, "stage", "unlearned"))
            yield
    finally:
        random.setstate(outside[0])
        np.random.set_state(outside[1])  # noqa: NPY002
        faults["settings"] = []
        for (what, read, restore), was in zip(SETTINGS, before, strict=True):
            if (now := read()) != was:
                faults["settings"].append(f"{what} was {was} and is {now}")
                restore(was)
        printed = output.getvalue().strip().partition("\n")[0]
        faults["quiet"] = [f"it prints {printed[:80]!r}"] if printed else []
