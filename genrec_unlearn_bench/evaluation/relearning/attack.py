"""One attack on one model in one SID space: fine-tune, and look at held-out interactions now and then."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from genrec_unlearn_bench.backbones.batches import in_parts
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.snapshots import fingerprint
from genrec_unlearn_bench.backbones.training import NextItem
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.relearning.attack_sets import AttackSet, attack_set, batches
from genrec_unlearn_bench.evaluation.relearning.attacks import Space, part_of
from genrec_unlearn_bench.evaluation.relearning.config import RelearningConfig
from genrec_unlearn_bench.evaluation.relearning.division import divide
from genrec_unlearn_bench.evaluation.relearning.held_out import START, held_out_hits
from genrec_unlearn_bench.evaluation.relearning.resuming import Hits, Keeper
from genrec_unlearn_bench.evaluation.relearning.spaces import in_space
from genrec_unlearn_bench.evaluation.relearning.trace import PARTS, Trace
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.lora import LowRank, all_blocks, linear_names

__all__ = ["attacked", "measure_attack", "permitted"]

_LOG_EVERY = 20


def measure_attack(subject: Subject, part: str, config: RelearningConfig, progress: Progress) -> Measured:
    """Attack a copy of the subject; ``part`` is ``attack/space``.

    Raises:
        NotMeasurable: The original table says nothing to the model, there are too few interactions, the attack is
            longer than its data allows before it is first scored, or its loss is no longer finite.
    """
    attack, space = part_of(part)
    found = in_space(subject, space)
    division = divide(subject.split, subject.seed)
    data = attack_set(attack, division, config.batch_size, subject.seed)
    steps = permitted(data, config)
    start = {name: np.asarray(subject.pass_arrays[START.name][f"{space}.{name}"], dtype=np.bool_) for name in PARTS}
    held = {"train": division.train, "test": division.test}
    if _withheld(found, held):
        # Whatever the weights learn, it cannot come back: zeros without a step.
        hits = {name: torch.from_numpy(row)[None].repeat(len(steps), 1) for name, row in start.items()}
    else:
        model, seed = found.clone(), subject.seed
        hits = attacked(model, data, held, config, steps=steps, start=start, seed=seed, progress=progress, space=space)
    planned = np.asarray(config.steps, dtype=np.int64)
    passes = np.asarray([data.passes(step) for step in config.steps], dtype=np.float64)
    train, test = (np.asarray(hits[name].numpy(), dtype=np.bool_) for name in PARTS)
    return Trace(planned, passes, train, test, division.train.targets).measured(attack, space)


def _withheld(model: Recommender, held: Mapping[str, Examples]) -> bool:
    """Whether serving rules keep every scored item from being recommended."""
    blocked = model.serving.blocked
    return blocked is not None and all(bool(blocked[part.targets].all()) for part in held.values())


def permitted(data: AttackSet, config: RelearningConfig) -> tuple[int, ...]:
    """The planned steps that stay within the limit on passes. Raises NotMeasurable where 0 alone does."""
    steps = tuple(step for step in config.steps if data.passes(step) <= config.passes)
    if len(steps) < 2:
        first = config.steps[1]
        raise NotMeasurable(
            f"the attack is longer than its data: {first} steps are {data.passes(first):.0f} passes over its "
            f"{data.what}, and {config.passes:g} are allowed"
        )
    return steps


def attacked(
    model: Recommender,
    data: AttackSet,
    held: Mapping[str, Examples],
    config: RelearningConfig,
    *,
    steps: Sequence[int],
    start: Mapping[str, BoolArray],
    seed: int,
    progress: Progress,
    space: Space = Space.SERVED,
) -> Hits:
    """Fine-tune ``model`` in place up to the last of ``steps``, and score it at each of them.

    Cross-entropy of the next item's tokens over the full vocabulary, as in training; every weight that requires
    gradients, or adapters (``config.adapters``). The state is kept in ``progress.work`` at every scored step.

    Args:
        held: By part, the n interactions that are scored.
        start: By part, [n] hits before the attack, which are not decoded again.

    Returns:
        By part, [S, n] hits at the S steps.
    """
    model.module.train(config.dropout)
    tuning = _FineTuning.of(model, data, config, f"{data.attack}, {space}", seed)
    settings = f"{data.attack}/{space} {config.model_dump_json()} {list(steps)} {seed} {model.device.type}"
    arrays = [model.sids.codes, *(array for part in (data.examples, *held.values()) for array in _arrays(part))]
    weights = {str(number): parameter for number, parameter in enumerate(tuning.learned)}
    keeper = Keeper(progress.work, fingerprint(settings, arrays, weights), tuning.learned, tuning.optimizer)
    lengths, last = tuning.task.lengths, steps[-1]
    with _own_generators(model, seed):
        done, hits = keeper.take_up() or (0, {name: torch.from_numpy(found)[None] for name, found in start.items()})
        if done:
            progress.earlier_seconds += keeper.earlier
            progress.info(f"{tuning.label}: going on after step {done} of {last}")
        order = batches(data, lengths, seed=seed, first=done, total=last)
        for rows in progress.track(tuning.label, order, total=last - done):
            tuning.descend(rows, done, progress)
            done += 1
            if done in steps:
                new = {name: torch.from_numpy(held_out_hits(model, part)) for name, part in held.items()}
                hits = {name: torch.cat([hits[name], new[name][None]]) for name in hits}
                keeper.keep(done, hits)
    return hits


@dataclass(frozen=True, eq=False)
class _FineTuning:
    """The optimisation of one attack.

    Attributes:
        terms: [M] tokens of each example's target.
    """

    task: NextItem
    terms: NDArray[np.float64]
    learned: tuple[nn.Parameter, ...]
    optimizer: torch.optim.Optimizer
    config: RelearningConfig
    label: str

    @classmethod
    def of(cls, model: Recommender, data: AttackSet, config: RelearningConfig, label: str, seed: int) -> _FineTuning:
        task = NextItem(model, data.examples)
        if config.adapters and anatomy(model).causal:
            learned, lr = _adapters(model, config, seed), config.adapter_lr
        else:
            learned = tuple(parameter for parameter in model.module.parameters() if parameter.requires_grad)
            lr = config.lr
        optimizer = torch.optim.AdamW(learned, lr=lr, weight_decay=config.weight_decay, fused=True)
        return cls(task, task.terms, learned, optimizer, config, label)

    def descend(self, rows: IntArray, step: int, progress: Progress) -> None:
        """One step. Raises NotMeasurable where its loss or gradient is not finite."""
        self.optimizer.zero_grad()
        terms, total = self.terms[rows], 0.0
        for places in in_parts(np.arange(len(rows)), self.config.rows_at_once or len(rows)):
            loss = self.task.loss(rows[places]) * float(terms[places].sum() / terms.sum())
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        norm = float(nn.utils.clip_grad_norm_(self.learned, self.config.clip))
        if not math.isfinite(total) or not math.isfinite(norm):
            raise NotMeasurable(f"the loss or the gradient of the attack is not finite at step {step}")
        if step % _LOG_EVERY == 0:
            progress.log(self.label, step, {"loss": total})
        self.optimizer.step()


def _adapters(model: Recommender, config: RelearningConfig, seed: int) -> tuple[nn.Parameter, ...]:
    """New adapters in all linear layers of the blocks; decoding works them in."""
    return LowRank(
        model.module,
        linear_names(all_blocks(model)),
        rank=config.adapter_rank,
        scale=config.adapter_scale,
        seed=derive(seed, "relearning", "adapters"),
        adapter="relearning",
    ).parameters


@contextmanager
def _own_generators(model: Recommender, seed: int) -> Iterator[None]:
    """Torch's generators seeded for dropout, and as they were afterwards."""
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(derive(seed, "relearning", "dropout"))
        yield


def _arrays(part: Examples) -> tuple[IntArray, ...]:
    return part.users, part.targets, part.starts, part.ends, part.events
