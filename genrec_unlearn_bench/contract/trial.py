"""One call of a method on the demo, with everything that can be seen of it from outside."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import random
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.contract.soundness import Fingerprint, fingerprint, list_faults, result_faults
from genrec_unlearn_bench.contract.watch import Seen, watched
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.unlearning.method import UnlearningMethod

__all__ = ["PATIENCE", "Trial", "difference", "tried"]

PATIENCE = 40.0
"""Seconds after which a call is ended at its next report. The whole contract is to take a minute."""

ROWS = 64
"""Test users of each group whose lists are looked at."""


class _Patience(Progress):
    """Ends a call that goes on too long, at the next thing it reports."""

    def __init__(self) -> None:
        super().__init__()
        self._began = time.perf_counter()

    def log(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        super().log(stage, step, losses)
        self._look()

    def track(self, label: str, sequence: Any, *, total: int | None = None) -> Iterator[Any]:
        for part in sequence:
            self._look()
            yield part

    def _look(self) -> None:
        if time.perf_counter() - self._began > PATIENCE:
            raise BenchError(
                f"it was still running after {PATIENCE:.0f} seconds on the smallest recommender there is",
                hint="give the configuration a `max_steps` (DescentConfig has one), or shorten it here with --set",
            )


@dataclass(frozen=True, eq=False)
class Trial:
    """What was seen.

    Attributes:
        fault: Why it ended early, in one line; then there is no result.
        original: What has become of the original, in words; empty where nothing has.
        result: What is wrong with the recommender that came back.
        lists: What is wrong with its lists.
        content: Digest of everything that decides its lists; None without a result.
        changed: Whether it differs from the original at all.
    """

    fault: str = ""
    hint: str = ""
    original: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    content: tuple[str, str, str] | None = None
    changed: bool = False
    trained: bool = False
    request_changed: bool = False
    seconds: float = 0.0
    progress: Progress = field(default_factory=Progress)
    seen: Seen = field(default_factory=Seen)


def tried(
    method: UnlearningMethod[Any],
    recommender: Recommender,
    task: PreparedTask,
    *,
    source: Path | None,
    seed: int = 0,
    surroundings: int = 0,
    roots: Sequence[Path] = (),
    thorough: bool = True,
) -> Trial:
    """Call ``method`` once.

    Args:
        source: The method's file, so that a fault can be told by its line.
        surroundings: Seed of Python's and NumPy's global generators, on which nothing may depend.
        roots: Folders in which nothing is to be opened.
        thorough: Look at the result as well; a second call for comparison needs its content alone.
    """
    request = task.request(seed)
    was, digest = fingerprint(recommender), _digest(request)
    progress = _Patience()
    began = time.perf_counter()
    with _surroundings(seed, surroundings), watched(roots) as seen:
        try:
            result = method.unlearn(recommender, request, progress)
        except Exception as fault:
            hint = fault.hint or "" if isinstance(fault, BenchError) else ""
            return Trial(fault=_told(fault, source), hint=hint, progress=progress, seen=seen)
    seconds = time.perf_counter() - began
    if not isinstance(result, Recommender):
        return Trial(
            fault=f"unlearn() returned {type(result).__name__}, not a recommender",
            hint="return the recommender that has forgotten",
            progress=progress,
            seen=seen,
        )
    after = fingerprint(result)
    faults: list[str] = []
    if thorough:
        with tempfile.TemporaryDirectory() as folder:
            faults = list(result_faults(was, result, Path(folder) / "model"))
    return Trial(
        original=tuple(difference(was, fingerprint(recommender))),
        result=tuple(faults),
        lists=tuple(list_faults(result, task.split.test, ROWS)) if thorough else (),
        content=after.content,
        changed=after.content != was.content,
        trained=after.weights != was.weights,
        request_changed=_digest(request) != digest,
        seconds=seconds,
        progress=progress,
        seen=seen,
    )


@contextlib.contextmanager
def _surroundings(seed: int, other: int) -> Iterator[None]:
    """Torch's generator as the runner sets it for a stage; Python's and NumPy's somewhere else each time."""
    # NumPy's global generator is what is meant here.
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(other)
    np.random.seed(other)  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            torch.manual_seed(derive(seed, "stage", "unlearned"))
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def difference(was: Fingerprint, now: Fingerprint) -> Iterator[str]:
    """What has become of the original, in an author's words."""
    if now.names != was.names:
        yield "parameters were added to it or taken away"
    elif now.weights != was.weights:
        yield "its weights were changed"
    if now.sids != was.sids:
        yield "its semantic IDs were changed"
    if now.serving != was.serving:
        yield "its serving rules were changed"
    if now.training != was.training:
        yield f"it was left in {'training' if now.training else 'evaluation'} mode"
    if now.names == was.names and now.trainable != was.trainable:
        yield "requires_grad of its parameters was changed"
    if now.hooks != was.hooks:
        yield f"{now.hooks - was.hooks} hooks were left on it"


def _told(fault: BaseException, source: Path | None) -> str:
    """The fault in one line, with the line of the method's own file where it came up."""
    frames = traceback.extract_tb(fault.__traceback__)
    own = [frame for frame in frames if source is not None and Path(frame.filename) == source]
    text = str(fault.what if isinstance(fault, BenchError) else fault).strip().splitlines()
    kind = "" if isinstance(fault, BenchError) else f"{type(fault).__name__}: "
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return f"{kind}{text[0] if text else 'no details'}{place}"


def _digest(content: object) -> str:
    """One digest over every array below a dataclass."""
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
