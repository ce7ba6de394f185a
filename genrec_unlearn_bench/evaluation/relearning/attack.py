"""One attack on one model in one SID space: fine-tune, and score held-out interactions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn

from genrec_unlearn_bench.backbones.batches import in_parts
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.training import NextItem
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.relearning.attack_data import (
    AttackSet,
    attack_set,
    batches,
    held_out_hits,
    in_space,
    split_for_attacks,
)
from genrec_unlearn_bench.evaluation.relearning.measurement import (
    HELD_OUT,
    START,
    AttackTrace,
    RelearningConfig,
    Space,
    part_of,
)
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, torch_seeded
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.lora import LowRank, all_blocks, linear_names

_LOG_EVERY = 20


def measure_attack(subject: Subject, part: str, config: RelearningConfig, progress: Progress) -> Measured:
    """Attack a copy of the subject; ``part`` is ``attack/space``.

    Raises NotMeasurable where the original table means nothing to the model, there are too few interactions, the attack
    is longer than its data allows before it is first scored, or its loss is no longer finite.
    """
    attack, space = part_of(part)
    model = in_space(subject, space)
    sides = split_for_attacks(subject.split, subject.seed)
    data = attack_set(attack, sides, config.batch_size, subject.seed)
    steps = permitted(data, config)
    start = {name: np.asarray(subject.pass_arrays[START.name][f"{space}.{name}"], dtype=np.bool_) for name in HELD_OUT}
    held = {"train": sides.train, "test": sides.test}
    blocked = model.serving.blocked
    if blocked is not None and all(blocked[part.targets].all() for part in held.values()):
        # Blocked items cannot be hit however the weights change: zeros without a step.
        hits = {name: np.tile(row, (len(steps), 1)) for name, row in start.items()}
    else:
        hits = run_attack(
            model.clone(),
            data,
            held,
            config,
            steps=steps,
            start=start,
            seed=subject.seed,
            progress=progress,
            space=space,
        )
    planned = np.array(config.steps, dtype=np.int64)
    passes = np.array([data.passes(step) for step in config.steps], dtype=np.float64)
    train, test = (hits[name] for name in HELD_OUT)
    return AttackTrace(planned, passes, train, test, sides.train.targets).measured(attack.value, space.value)


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


def run_attack(
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
) -> dict[str, BoolArray]:
    """Fine-tune ``model`` in place up to the last of ``steps``, and score it at each of them: by part, [S, n] hits.

    Cross-entropy of the next item's tokens over the full vocabulary, as in training; every weight that requires
    gradients, or adapters (``config.adapters``). Raises NotMeasurable where a loss or gradient is not finite.

    Args:
        held: By part, the n interactions that are scored.
        start: By part, [n] hits before the attack, which are not decoded again.
    """
    model.module.train(config.dropout)
    task, label, last = NextItem(model, data.examples), f"{data.attack}, {space}", steps[-1]
    learned, lr = tuple(parameter for parameter in model.module.parameters() if parameter.requires_grad), config.lr
    if config.adapters and anatomy(model).causal:
        learned, lr = _adapters(model, config, seed), config.adapter_lr
    optimizer = torch.optim.AdamW(learned, lr=lr, weight_decay=config.weight_decay, fused=True)
    hits = {name: [found] for name, found in start.items()}
    with torch_seeded(derive(seed, "relearning", "dropout"), str(model.device)):
        order = batches(data, task.lengths, seed=seed, total=last)
        for step, rows in enumerate(progress.track(label, order, total=last)):
            optimizer.zero_grad()
            loss = _backward(task, rows, config)
            norm = float(nn.utils.clip_grad_norm_(learned, config.clip))
            if not math.isfinite(loss) or not math.isfinite(norm):
                raise NotMeasurable(f"the loss or the gradient of the attack is not finite at step {step}")
            if step % _LOG_EVERY == 0:
                progress.log(label, step, {"loss": loss})
            optimizer.step()
            if step + 1 in steps:
                for name, part in held.items():
                    hits[name].append(held_out_hits(model, part))
    return {name: np.stack(found) for name, found in hits.items()}


def _backward(task: NextItem, rows: IntArray, config: RelearningConfig) -> float:
    """Add the gradients of one batch, part by part; returns its loss."""
    terms, total = task.terms[rows], 0.0
    for places in in_parts(np.arange(len(rows)), config.rows_at_once or len(rows)):
        loss = task.loss(rows[places]) * float(terms[places].sum() / terms.sum())
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    return total


def _adapters(model: Recommender, config: RelearningConfig, seed: int) -> tuple[nn.Parameter, ...]:
    return LowRank(
        model.module,
        linear_names(all_blocks(model)),
        rank=config.adapter_rank,
        scale=config.adapter_scale,
        seed=derive(seed, "relearning", "adapters"),
        adapter="relearning",
    ).parameters
