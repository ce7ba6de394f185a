"""Training a recommender from scratch: one loop that reads top to bottom, for every backbone.

AdamW with linear warm-up and cosine decay, batches of similar length, clipping at norm 1, early stopping on
validation NDCG@10 (beam 10), best checkpoint returned. Public reproductions of TIGER differ by a factor of two at equal
architecture: warm-up, learning rate and best-on-validation decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, StepOutput
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = [
    "NextItem",
    "TrainingConfig",
    "TrainingTask",
    "bucketed_batches",
    "cross_entropy",
    "train_recommender",
    "validation_ndcg",
]


_IGNORED = -100


class TrainingConfig(StrictModel):
    """How a recommender is trained."""

    lr: float = Field(default=1e-3, gt=0)
    """Peak learning rate of AdamW."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of AdamW."""
    batch_size: int = Field(default=256, ge=1)
    """Examples per step, over all processes."""
    epochs: int = Field(default=100, ge=1)
    """Most passes over the train examples."""
    max_steps: int | None = Field(default=None, ge=1)
    """Most steps, where that comes first."""
    warmup_steps: int = Field(default=200, ge=0)
    """Steps of linear warm-up (at most a tenth of all steps is used)."""
    schedule: Literal["cosine", "inverse-sqrt", "constant"] = "cosine"
    """Learning rate after the warm-up; inverse-sqrt is TIGER's own."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""
    evaluations: int = Field(default=10, ge=1)
    """How often validation NDCG@10 is measured over the whole training."""
    patience: int = Field(default=3, ge=1)
    """Evaluations without a better value before training stops."""
    temperature: float = Field(default=1.0, gt=0)
    """Logits are divided by it in the loss: LETTER's ranking temperature; 1 is plain cross-entropy."""
    valid_rows: int = Field(default=1000, ge=1)
    """Validation examples used for early stopping (a seeded sample)."""


class TrainingTask(Protocol):
    """What is learned: M samples, some of them a step. Backbones with more than next-item samples bring their own."""

    @property
    def lengths(self) -> IntArray:
        """[M] input lengths, so that batches hold samples of similar length."""

    def loss(self, rows: IntArray) -> Tensor:
        """Scalar loss of the chosen samples, differentiable."""


@dataclass(frozen=True, eq=False)
class NextItem:
    """Cross-entropy of the next item's tokens."""

    recommender: Recommender
    examples: Examples
    temperature: float = 1.0

    @property
    def lengths(self) -> IntArray:
        """[M] history lengths."""
        return self.examples.history_lengths(self.recommender.history_limit)

    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all target tokens."""
        histories = self.examples.histories(self.recommender.history_limit, rows)
        return cross_entropy(self.recommender.forward(histories, self.examples.targets[rows]), self.temperature)


@dataclass(frozen=True)
class Schedule:
    """Learning-rate factor by step."""

    kind: str
    warmup: int
    total: int

    def factor(self, step: int) -> float:
        """Share of the peak learning rate at a 0-based step."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.kind == "constant":
            return 1.0
        if self.kind == "inverse-sqrt":
            return math.sqrt(max(self.warmup, 1) / (step + 1))
        done = (step - self.warmup) / max(self.total - self.warmup, 1)
        return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def bucketed_batches(
    lengths: IntArray, batch_size: int, generator: np.random.Generator, *, window: int = 50
) -> Iterator[IntArray]:
    """One shuffled pass in batches of similar length.

    Rows are shuffled, sorted by length within windows of ``window`` batches, cut, and the batches shuffled again:
    almost no padding, and still every batch differs from epoch to epoch.
    """
    order = generator.permutation(len(lengths))
    batches = []
    for first in range(0, len(order), batch_size * window):
        part = order[first : first + batch_size * window]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
    for index in generator.permutation(len(batches)):
        yield np.asarray(batches[index], dtype=np.int64)


def validation_ndcg(recommender: Recommender, valid: Examples, *, beam: int = 10) -> float:
    """Mean NDCG@10 over the examples, one relevant item each."""
    ranks = recommender.recommend(valid.histories(recommender.history_limit), 10, beam=beam).ranks(valid.targets)
    return float(np.where(ranks > 0, 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0).mean())


def train_recommender(
    recommender: Recommender,
    config: TrainingConfig,
    *,
    train: Examples,
    valid: Examples,
    seed: int,
    device: str,
    progress: Progress,
    stage: str = "train",
    task: TrainingTask | None = None,
) -> Recommender:
    """Train ``recommender`` in place and return it with its best weights. Only parameters that require gradients move.

    Args:
        train, valid: Examples; rows without history are used as they are.
        seed: Order of the batches, dropout and the validation sample depend on it alone.
        device: ``cpu``, ``cuda`` … ; bf16 autocast on CUDA, fp32 elsewhere.
        task: What is learned; the next items of ``train`` where none is given.

    Raises:
        DataFault: No train or no validation examples.
    """
    from accelerate import Accelerator

    if not len(train) or not len(valid):
        raise DataFault("there is nothing to train on", where=f"{len(train)} train, {len(valid)} validation examples")
    on_cuda = torch.device(device).type == "cuda"
    accelerator = Accelerator(cpu=not on_cuda, mixed_precision="bf16" if on_cuda else "no")
    task = task or NextItem(recommender, train, config.temperature)
    lengths = task.lengths
    per_epoch = math.ceil(len(lengths) / config.batch_size)
    total = min(config.epochs * per_epoch, config.max_steps or config.epochs * per_epoch)
    schedule = Schedule(config.schedule, min(config.warmup_steps, max(total // 10, 1)), total)
    module = recommender.module
    learned = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer = accelerator.prepare(torch.optim.AdamW(learned, lr=config.lr, weight_decay=config.weight_decay))
    sample = numpy_generator(seed, "valid-sample").permutation(len(valid))[: config.valid_rows]
    best = _Best(recommender, valid.subset(np.sort(sample)), config.patience, stage, progress)
    every = math.ceil(total / config.evaluations)
    step = 0
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if on_cuda else []):
        torch.manual_seed(derive(seed, "dropout"))
        for rows in progress.track(stage, _rows(lengths, config, seed, total), total=total):
            for group in optimizer.param_groups:
                group["lr"] = config.lr * schedule.factor(step)
            module.train()
            part = rows[accelerator.process_index :: accelerator.num_processes]
            with accelerator.autocast():
                loss = task.loss(part)
            optimizer.zero_grad()
            accelerator.backward(loss)
            _average_gradients(module, accelerator)
            accelerator.clip_grad_norm_(learned, config.clip)
            optimizer.step()
            if step % 20 == 0:
                progress.log(stage, step, {"loss": float(loss.detach())})
            step += 1
            if progress.diverged or ((step % every == 0 or step == total) and best.stop_after(step)):
                break
    best.restore(step)
    return recommender


class _Best:
    """Early stopping: the best weights by validation NDCG@10, and when to give up."""

    def __init__(
        self, recommender: Recommender, valid: Examples, patience: int, stage: str, progress: Progress
    ) -> None:
        self.recommender, self.valid, self.patience = recommender, valid, patience
        self.stage, self.progress = stage, progress
        self.score, self.stale = -1.0, 0
        self._weights = self._copy()

    def stop_after(self, step: int) -> bool:
        """Measure; keep the weights if they are the best so far; True once patience has run out."""
        score = validation_ndcg(self.recommender, self.valid)
        self.progress.log(f"{self.stage}.valid", step, {"ndcg@10": score})
        self.progress.say(f"{self.stage}: step {step}, validation NDCG@10 {score:.4f}")
        if score > self.score:
            self.score, self._weights, self.stale = score, self._copy(), 0
        else:
            self.stale += 1
        return self.stale >= self.patience

    def restore(self, steps: int) -> None:
        """Put the best weights back, and note what was reached."""
        with torch.no_grad():
            for name, parameter in self._learned():
                parameter.copy_(self._weights[name])
        self.recommender.module.eval()
        self.progress.note(f"{self.stage}.best_valid_ndcg@10", self.score)
        self.progress.note(f"{self.stage}.steps", steps)

    def _copy(self) -> dict[str, Tensor]:
        return {name: parameter.detach().clone() for name, parameter in self._learned()}

    def _learned(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [pair for pair in self.recommender.module.named_parameters() if pair[1].requires_grad]


def cross_entropy(output: StepOutput, temperature: float = 1.0) -> Tensor:
    """Mean negative log-likelihood over all target tokens, in nats; logits divided by ``temperature`` (LETTER's τ)."""
    labels = output.labels if output.mask is None else output.labels.masked_fill(~output.mask, _IGNORED)
    logits = output.logits.flatten(0, 1).float() / temperature
    return torch.nn.functional.cross_entropy(logits, labels.flatten(), ignore_index=_IGNORED)


def _rows(lengths: IntArray, config: TrainingConfig, seed: int, total: int) -> Iterator[IntArray]:
    """Batches over as many epochs as it takes to make ``total`` steps."""
    step = epoch = 0
    while step < total:
        for rows in bucketed_batches(lengths, config.batch_size, numpy_generator(seed, "epoch", epoch)):
            yield rows
            step += 1
            if step == total:
                return
        epoch += 1


def _average_gradients(module: torch.nn.Module, accelerator: Accelerator) -> None:
    """Several processes: the adapter calls parts of the network, so a DDP wrapper's own hooks would not run."""
    if accelerator.num_processes > 1:
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.grad = accelerator.reduce(parameter.grad, reduction="mean")
