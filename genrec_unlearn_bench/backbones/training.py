"""Training a recommender: one loop for every backbone, and the tasks it minimises.

AdamW with linear warm-up and one of four schedules, batches of similar length, clipping at norm 1, early stopping on
validation NDCG@10 (beam 10), best checkpoint returned. The order of the samples is a function of the seed and the step
alone, so that a training can be resumed.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.backbones.config import TrainingConfig
from genrec_unlearn_bench.backbones.cpu_kernels import bfloat16_products
from genrec_unlearn_bench.backbones.distributed import Processes, Shards, clip_gradients, is_split, sharding_wanted
from genrec_unlearn_bench.backbones.early_stopping import EarlyStopping, learned, validation_sample
from genrec_unlearn_bench.backbones.recommender import Recommender, StepOutput
from genrec_unlearn_bench.backbones.snapshots import Snapshots, TrainingPosition
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.errors import DataFault, UsageError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator, torch_seeded
from genrec_unlearn_bench.sids.table import SidTable


def bucketed_batches(lengths: IntArray, batch_size: int, generator: np.random.Generator) -> Iterator[IntArray]:
    """One shuffled pass in batches of similar length.

    Rows are shuffled, sorted by length within windows of fifty batches, cut, and the batches shuffled again:
    almost no padding, and batches differ from epoch to epoch.
    """
    order = generator.permutation(len(lengths))
    batches, window = [], 50 * batch_size
    for first in range(0, len(order), window):
        part = order[first : first + window]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
    for index in generator.permutation(len(batches)):
        yield np.asarray(batches[index], dtype=np.int64)


def training_batches(
    lengths: IntArray, batch_size: int, *, seed: int, total: int, first: int = 0
) -> Iterator[IntArray]:
    """The batches of steps ``first`` to ``total`` - 1, over as many passes as these take."""
    per_epoch = math.ceil(len(lengths) / batch_size)
    for step in range(first, total):
        epoch, place = divmod(step, per_epoch)
        if step == first or place == 0:
            batches = list(bucketed_batches(lengths, batch_size, numpy_generator(seed, "epoch", epoch)))
        yield batches[place]


CPU_ITEMS = 400
"""Items of padded histories that a CPU computes at once. T5 of paper size on Industrial, batch 256, processor time of
four steps: 4.4 s at 256 or 512 items, 4.8 s at 1024, 5.9 s all at once (the activations leave the caches)."""

SECONDS_BETWEEN, WRITING = 60.0, 20
"""A snapshot is written every minute, or after twenty times as long as the last one took to write."""

_IGNORED = -100
_ARRAYS = ("users", "targets", "starts", "ends", "events")


class TrainingTask(ABC):
    """M samples and their loss; a step takes some of them.

    A loss may depend on the rows, the weights and torch's global generator only: a snapshot holds nothing else.

    Attributes:
        lengths: [M] input lengths, so that batches hold samples of similar length.
        terms: [M] terms of the loss's mean that each sample has, so that means over parts become that of the whole.
        kinds: [M] samples of one kind take one pass over the network together. Sharded processes have to pass alike.
    """

    lengths: IntArray
    terms: NDArray[np.float64]
    kinds: IntArray

    @abstractmethod
    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all terms of the chosen samples, differentiable."""


class NextItem(TrainingTask):
    """Cross-entropy of the next item's tokens, one sample an example."""

    def __init__(self, recommender: Recommender, examples: Examples, temperature: float = 1.0) -> None:
        self.recommender, self.examples, self.temperature = recommender, examples, temperature
        self.lengths = examples.history_lengths(recommender.history_limit)
        self.terms = sid_terms(recommender.sids, examples.targets)
        self.kinds = np.zeros(len(examples), dtype=np.int64)

    def loss(self, rows: IntArray) -> Tensor:
        histories = self.examples.histories(self.recommender.history_limit, rows)
        return cross_entropy(self.recommender.forward(histories, self.examples.targets[rows]), self.temperature)


def micro_batches(
    rows: IntArray, task: TrainingTask, size: int, index: int = 0, processes: int = 1
) -> list[tuple[IntArray, float]]:
    """Split a step's samples: the micro-batches of process ``index``, of 1 to ``size`` samples each.

    With each comes the factor of its mean loss in the step's loss: the mean over processes of their weighted losses is
    the mean over all terms of ``rows``, however they are split. Processes get equally many parts of each kind, since a
    sharded block waits in every pass for the others; a process with no sample left computes one with weight 0.
    """
    terms, kinds = task.terms, task.kinds
    whole = float(terms[rows].sum())
    if processes == 1:
        even = np.array_split(rows, max(1, math.ceil(len(rows) / size)))
        return [(part, float(terms[part].sum()) / whole) for part in even]
    parts: list[tuple[IntArray, float]] = []
    for kind in np.unique(kinds[rows]):
        of_kind = rows[kinds[rows] == kind]
        largest = -(-len(of_kind) // processes)
        for part in np.array_split(of_kind[index::processes], -(-largest // size)):
            weight = processes * float(terms[part].sum()) / whole if len(part) else 0.0
            parts.append((part if len(part) else of_kind[:1], weight))
    return parts


def sid_terms(sids: SidTable, items: IntArray) -> NDArray[np.float64]:
    """[len(items)] tokens of each item's SID."""
    return np.asarray((sids.codes[items] >= 0).sum(1), dtype=np.float64)


def cross_entropy(output: StepOutput, temperature: float = 1.0) -> Tensor:
    """Mean negative log-likelihood over all target tokens, in nats; logits divided by ``temperature`` (LETTER's τ)."""
    labels = output.labels if output.mask is None else output.labels.masked_fill(~output.mask, _IGNORED)
    logits = output.logits.flatten(0, 1).float() / temperature
    return torch.nn.functional.cross_entropy(logits, labels.flatten(), ignore_index=_IGNORED)


@dataclass(frozen=True)
class Outcome:
    """How far a training got."""

    steps: int
    """Steps done."""
    total: int
    """Most steps there may be."""
    finished: bool
    """False where ``minutes`` were up before the end; the same call then resumes."""
    best: float
    """Best validation NDCG@10; -1 before the first evaluation."""
    seconds: float
    """Wall-clock of all calls together."""


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
    work: Path | None = None,
    minutes: float | None = None,
) -> Outcome:
    """Train ``recommender`` in place; it ends with its best weights. Only parameters that require gradients move.

    Args:
        device: ``cpu``, ``cuda`` … ; bf16 autocast on CUDA, fp32 elsewhere.
        task: Samples and loss; the next items of ``train`` where none is given.
        work: Folder of snapshots, written every minute, from which the same call resumes after a kill
            (``progress.work`` where none is given; none without either). On a CPU it ends with the same bits.
        minutes: Stop after so much time, with a snapshot in ``work``, and leave the rest to a later call.

    Under ``accelerate launch`` or ``torchrun`` all processes call it with the same arguments and end with the same
    weights: those of one process, where there is no dropout. Only a training in one process keeps snapshots.

    Raises:
        DataFault: No train or no validation examples.
        UsageError: Sharding is configured, and the recommender has no blocks to split.
        StorageError: The state could not be written.
    """
    check_training(recommender, train, valid)
    processes = Processes(device)
    module = recommender.module
    shards = Shards(module, recommender.blocks) if sharding_wanted() and processes.number > 1 else None
    task = task or NextItem(recommender, train, config.temperature)
    optimizer = _optimizer(recommender, config, processes, shards)
    held = validation_sample(valid, config.valid_rows, numpy_generator(seed, "valid-sample"))
    best = EarlyStopping(recommender, held, config.patience, stage, progress, processes, shards)
    snapshots, folder = None, work or progress.work
    if folder and processes.number == 1:
        # Without defaults: a field that is added later leaves the snapshots of unfinished trainings valid.
        chosen = config.model_dump_json(exclude_defaults=True)
        settings = f"{stage} {chosen} {seed} {torch.device(device).type} {type(task).__qualname__}"
        arrays = [getattr(part, name) for part in (train, valid) for name in _ARRAYS]
        stored = module.state_dict()
        moving = learned(module) | {name: value for name, value in module.named_buffers() if name in stored}
        snapshots = Snapshots(folder, settings, [task.lengths, *arrays], moving, optimizer)
    loop = _Loop(config, task, optimizer, best, snapshots)
    with torch_seeded(derive(seed, "dropout", *([processes.index] if processes.index else [])), device):
        return loop.run(seed, minutes)


def _optimizer(recommender: Recommender, config: TrainingConfig, processes: Processes, shards: Shards | None) -> Any:
    parameters = list(learned(recommender.module).values())
    adamw = partial(torch.optim.AdamW, lr=config.lr, weight_decay=config.weight_decay, eps=config.epsilon, fused=True)
    if shards is None:
        return processes.accelerator.prepare(adamw(parameters))
    # A fused step takes tensors of one kind; accelerate would want a network that it has wrapped itself.
    kinds = [[value for value in parameters if is_split(value) == split] for split in (True, False)]
    groups = [{"params": kind} for kind in kinds if kind]
    return adamw(groups)


@dataclass(frozen=True, eq=False)
class _Loop:
    """The steps of one call, from the last snapshot to the end or until the time is up."""

    config: TrainingConfig
    task: TrainingTask
    optimizer: Any
    best: EarlyStopping
    snapshots: Snapshots | None

    def run(self, seed: int, minutes: float | None) -> Outcome:
        config, best, snapshots = self.config, self.best, self.snapshots
        stage, progress, processes = best.stage, best.progress, best.processes
        total = config.steps(len(self.task.lengths))
        schedule = config.rates(total)
        every = config.evaluation_steps(len(self.task.lengths))
        progress.info(f"{stage}: {config.budget(len(self.task.lengths))}")
        logged, began, cost = len(progress.steps), time.monotonic(), 0.0
        written = began
        place = self._resumed(total)
        first, step, finished = place.step, place.step, place.finished
        batches = training_batches(self.task.lengths, config.batch_size, seed=seed, total=total, first=first)
        for rows in progress.track(stage, () if finished else batches, total=total - first):
            for group in self.optimizer.param_groups:
                group["lr"] = config.lr * schedule.factor(step)
            loss = self._descend(rows)
            if step % 20 == 0:
                progress.log(stage, step, {"loss": float(processes.accelerator.reduce(loss, "mean"))})
            step += 1
            stopped = progress.diverged
            over = progress.until < math.inf and processes.agree(progress.late)
            if not stopped and (step % every == 0 or step == total or over):
                stopped = best.stop_after(step)
            if over and not stopped and step < total:
                progress.end_early(stage, f"after step {step} of {total}")
            finished, now = stopped or over or step == total, time.monotonic()
            late = minutes is not None and now - began >= 60 * minutes
            # The end itself needs a snapshot only where the caller trains in several calls.
            due = minutes is not None if finished else now - written >= max(SECONDS_BETWEEN, WRITING * cost)
            if snapshots and not progress.diverged and (late or due):
                reported = tuple(progress.steps[logged:])
                place = TrainingPosition(
                    step=step, score=best.score, stale=best.stale, finished=finished, reported=reported
                )
                snapshots.write(place, best.weights)
                written = time.monotonic()
                cost = written - now
            if finished or late:
                break
        best.restore(step)
        if best.shards:
            best.shards.undo()
        if processes.number > 1:
            progress.note(f"{stage}.processes", processes.number)
        seconds = snapshots.seconds if snapshots else time.monotonic() - began
        return Outcome(step, total, finished, best.score, seconds)

    def _resumed(self, total: int) -> TrainingPosition:
        """Where the training begins, once the last snapshot is restored."""
        found = self.snapshots.restore() if self.snapshots else None
        if found is None:
            return TrainingPosition()
        place, weights = found
        best, progress = self.best, self.best.progress
        best.score, best.stale = place.score, place.stale
        best.weights = {name: weights[name].to(tensor.device) for name, tensor in best.weights.items()}
        for line in place.reported:
            progress.log(line.stage, line.step, line.losses)
        progress.earlier_seconds += place.seconds
        progress.info(f"{best.stage}: going on after step {place.step} of {total}")
        return place

    def _descend(self, rows: IntArray) -> Tensor:
        """One step; each process takes its share of the rows."""
        processes, accelerator = self.best.processes, self.best.processes.accelerator
        self.best.recommender.module.train()
        self.optimizer.zero_grad()
        total = torch.zeros((), device=accelerator.device)
        for part, weight in micro_batches(rows, self.task, self._at_once(rows), processes.index, processes.number):
            with bfloat16_products(self.config.precision == "bfloat16"):
                with accelerator.autocast():
                    loss = self.task.loss(part) * weight
                accelerator.backward(loss)
            total += loss.detach()
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        processes.average_gradients(parameters)
        clip = clip_gradients if self.best.shards else accelerator.clip_grad_norm_
        clip(parameters, self.config.clip)
        self.optimizer.step()
        return total

    def _at_once(self, rows: IntArray) -> int:
        if self.config.rows_at_once is not None:
            return self.config.rows_at_once
        # A mean over parts is the mean over all only where every target has the same number of tokens.
        task = self.task
        splits = type(task) is NextItem and bool((task.recommender.sids.codes >= 0).all())
        if not splits or self.best.processes.accelerator.device.type != "cpu":
            return max(len(rows), 1)
        return max(8, CPU_ITEMS // max(int(task.lengths[rows].max(initial=1)), 1))


def check_training(recommender: Recommender, train: Examples, valid: Examples) -> None:
    """Raise UsageError or DataFault where this training cannot begin (see ``train_recommender``)."""
    if sharding_wanted() and not recommender.blocks:
        raise UsageError(
            f"the recommender {recommender.name!r} is not split over processes (FSDP)",
            where="accelerate launch",
            hint="start it without FSDP; only the blocks of `mor` are split",
        )
    if not len(train) or not len(valid):
        raise DataFault("there is nothing to train on", where=f"{len(train)} train, {len(valid)} validation examples")
