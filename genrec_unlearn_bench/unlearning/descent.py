"""The training loop of all gradient methods.

One epoch is one pass over the forget examples, each batch paired with as many random retain examples. A method supplies
a function that computes the gradients of one batch; AdamW, clipping, warm-up, the ceiling on the retain loss, and the
detection of divergence are here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.likelihood import mean_nll
from genrec_unlearn_bench.unlearning.method import MethodConfig
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import PairedBatch, at_most, paired_batches, steps_per_epoch
from genrec_unlearn_bench.unlearning.search import EPOCHS, LEARNING_RATES, Search

__all__ = ["DescentConfig", "PairedBatch", "Phase", "Search", "Step", "Terms", "backward", "descend", "planned_steps"]

Terms = Mapping[str, Tensor | float]
"""Loss terms of a step by name, for the log."""

Step = Callable[[PairedBatch], Terms]
"""Adds the gradients of one batch to ``.grad`` (empty before)."""

STAGE = "unlearn"
CEILING_ROWS = 512
CEILING = "the ceiling on the retain loss"


class DescentConfig(MethodConfig):
    """Optimiser and length of training; methods change defaults and add fields."""

    search = Search(lr=LEARNING_RATES, epochs=EPOCHS)

    lr: float = Field(default=1e-4, gt=0)
    """AdamW learning rate."""
    batch_size: int = Field(default=128, ge=1)
    """Forget examples per step, paired with as many retain examples; a smaller forget set makes one smaller batch."""
    epochs: int = Field(default=10, ge=0)
    """Passes over the forget set. The default, open-unlearning's, is the same budget for all methods."""
    max_steps: int | None = Field(default=None, ge=1)
    """Largest number of optimiser steps; null sets no limit."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW weight decay."""
    warmup: float = Field(default=0.0, ge=0, le=1)
    """Share of the planned steps in which the learning rate rises linearly from 0; constant afterwards."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""
    dropout: bool = False
    """Train with dropout; off by default, so that the student starts exactly at the original model."""
    retain_ceiling: float | None = Field(default=None, gt=1)
    """Stop once the NLL of (at most 512) retain validation examples exceeds this multiple of the original's, and return
    the weights of the last check that did not; null never checks."""
    check_every: int = Field(default=10, ge=1)
    """Steps between two checks of the ceiling."""


@dataclass(frozen=True)
class Phase:
    """A part of a training that has several, or that ends for a reason of its own.

    Warm-up and ceiling are those of one phase; the limit on steps holds for all of them together.
    """

    stage: str = STAGE
    """Name in the log and in notes, by which the batches are drawn."""
    epochs: int | None = None
    """Passes over the forget set; None for those of the configuration."""
    optimizer: torch.optim.Optimizer | None = None
    """The optimiser of an earlier phase, with its state; None makes an AdamW."""
    steps_before: int = 0
    after_step: Callable[[], None] = lambda: None
    """Called after each step, for what a second optimiser trains."""
    stop: Callable[[Mapping[str, float]], str] = lambda terms: ""
    """Gives the reason to stop after the step with these terms; empty to go on."""


WHOLE = Phase()
"""A training of one phase."""


def planned_steps(config: DescentConfig, request: ForgetRequest, phase: Phase = WHOLE) -> int:
    """Number of optimiser steps unless training stops early."""
    epochs = config.epochs if phase.epochs is None else phase.epochs
    steps = epochs * steps_per_epoch(request.train, config.batch_size)
    return steps if config.max_steps is None else min(steps, max(config.max_steps - phase.steps_before, 0))


def backward(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def descend(
    model: Recommender,
    request: ForgetRequest,
    config: DescentConfig,
    step: Step,
    progress: Progress,
    *,
    parameters: Iterable[nn.Parameter] | None = None,
    batches: Callable[[int], Iterable[PairedBatch]] | None = None,
    phase: Phase = WHOLE,
) -> int:
    """Train ``model`` in place; returns the number of optimiser steps, which ``progress`` counts as well.

    A step whose terms or gradients are not finite is not taken: the run is marked as diverged and ends with the
    weights it had. Notes ``<stage>.stopped_at`` and ``<stage>.stopped_for`` if it ends early.

    Args:
        parameters: Parameters to train, while all others are frozen; None means all that require gradients.
        batches: Batches of an epoch, by its index; None means ``paired_batches`` of the request's train part.
    """

    def paired(epoch: int) -> Iterator[PairedBatch]:
        return paired_batches(request.train, config.batch_size, numpy_generator(request.seed, phase.stage, epoch))

    trained = [p for p in (model.module.parameters() if parameters is None else parameters) if p.requires_grad]
    with _only(model.module, trained):
        taken = _descend(model, request, config, step, progress, trained, batches or paired, phase)
    model.module.zero_grad(set_to_none=True)
    model.module.eval()
    progress.optimiser_steps = (progress.optimiser_steps or 0) + taken
    return taken


def _descend(
    model: Recommender,
    request: ForgetRequest,
    config: DescentConfig,
    step: Step,
    progress: Progress,
    trained: list[nn.Parameter],
    batches: Callable[[int], Iterable[PairedBatch]],
    phase: Phase,
) -> int:
    optimizer = phase.optimizer or torch.optim.AdamW(trained, lr=config.lr, weight_decay=config.weight_decay)
    total = planned_steps(config, request, phase)
    ceiling = _RetainCeiling(model, request, config, trained) if config.retain_ceiling is not None else None
    model.module.train(config.dropout)
    epochs = config.epochs if phase.epochs is None else phase.epochs
    done, warm = 0, max(1, math.ceil(config.warmup * total))

    def stopped(reason: str, kept: int) -> int:
        progress.note(f"{phase.stage}.stopped_at", kept)
        progress.note(f"{phase.stage}.stopped_for", reason)
        return done

    for epoch in progress.track(phase.stage, range(epochs), total=epochs):
        for batch in batches(epoch):
            if done >= total:
                break
            for group in optimizer.param_groups:
                group["lr"] = config.lr * min(1.0, (done + 1) / warm)
            model.module.zero_grad(set_to_none=True)
            found = step(batch)
            terms = {name: float(term.detach() if isinstance(term, Tensor) else term) for name, term in found.items()}
            norm = float(torch.nn.utils.clip_grad_norm_(trained, config.clip))
            progress.log(phase.stage, done, {**terms, "gradient_norm": norm})
            if progress.diverged:
                return stopped("a loss or gradient that is not finite", done)
            optimizer.step()
            phase.after_step()
            done += 1
            if ceiling is not None and done % config.check_every == 0 and ceiling.exceeded():
                return stopped(CEILING, ceiling.steps_kept(done))
            if reason := phase.stop(terms):
                return stopped(reason, done)
    if ceiling is not None and done % config.check_every and ceiling.exceeded():
        return stopped(CEILING, ceiling.steps_kept(done))
    return done


@contextmanager
def _only(module: nn.Module, parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Let only ``parameters`` of ``module`` require gradients inside the block, so backward passes end at them."""
    chosen = {id(parameter) for parameter in parameters}
    before = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    try:
        for parameter, _ in before:
            parameter.requires_grad_(id(parameter) in chosen)
        yield
    finally:
        for parameter, required in before:
            parameter.requires_grad_(required)


class _RetainCeiling:
    """Checks the NLL of retain validation examples and keeps the last weights below the ceiling."""

    def __init__(
        self, model: Recommender, request: ForgetRequest, config: DescentConfig, parameters: list[nn.Parameter]
    ) -> None:
        self._model, self._parameters, self._every = model, parameters, config.check_every
        self._examples = at_most(request.valid.retain, CEILING_ROWS, request.seed, "ceiling")
        self._limit = (config.retain_ceiling or math.inf) * self._nll()
        self._kept = self._copy()

    def exceeded(self) -> bool:
        """True, after restoring the kept weights, if the ceiling is exceeded."""
        if not self._nll() <= self._limit:
            with torch.no_grad():
                for parameter, kept in zip(self._parameters, self._kept, strict=True):
                    parameter.copy_(kept)
            return True
        self._kept = self._copy()
        return False

    def steps_kept(self, done: int) -> int:
        """Number of steps behind the restored weights."""
        return (done - 1) // self._every * self._every

    def _nll(self) -> float:
        return mean_nll(self._model, self._examples) if len(self._examples) else 0.0

    def _copy(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self._parameters]
