"""One attack on one model in one SID space: fine-tune, score held-out interactions, go on after a kill.

The state (weights, moments, generators and hits) is kept at every scored step (``backbones.snapshots``): on a CPU an
attack that was killed ends with the same bits as one that was not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.snapshots import Snapshots, TrainingPosition
from genrec_unlearn_bench.backbones.training import NextItem, in_parts
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
    Attack,
    AttackTrace,
    RelearningConfig,
    Space,
)
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, torch_seeded
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.lora import LowRank, linear_names

_LOG_EVERY = 20
_FINGERPRINTED = ("users", "targets", "starts", "ends", "events")

Hits = dict[str, Tensor]
"""By part, [S, n] bool: the hits at the steps scored so far."""


def measure_attack(subject: Subject, part: str, config: RelearningConfig, progress: Progress) -> Measured:
    """Attack a copy of the subject; ``part`` is ``attack/space``.

    Raises NotMeasurable where the original table means nothing to the model, there are too few interactions, the attack
    is longer than its data allows before it is first scored, or its loss is no longer finite.
    """
    named, _, place = part.partition("/")
    attack, space = Attack(named), Space(place)
    found = in_space(subject, space)
    sides = split_for_attacks(subject.split, subject.seed)
    data = attack_set(attack, sides, config.batch_size, subject.seed)
    steps = permitted(data, config)
    start = {name: np.asarray(subject.pass_arrays[START.name][f"{space}.{name}"], dtype=np.bool_) for name in HELD_OUT}
    held = {"train": sides.train, "test": sides.test}
    blocked = found.serving.blocked
    if blocked is not None and all(blocked[part.targets].all() for part in held.values()):
        # Blocked items cannot be hit however the weights change: zeros without a step.
        hits = {name: torch.from_numpy(row)[None].repeat(len(steps), 1) for name, row in start.items()}
    else:
        given: dict[str, Any] = {"steps": steps, "start": start, "seed": subject.seed, "progress": progress}
        hits = run_attack(found.clone(), data, held, config, space=space, **given)
    planned = np.array(config.steps, dtype=np.int64)
    passes = np.array([data.passes(step) for step in config.steps], dtype=np.float64)
    train, test = (np.asarray(hits[name].numpy(), dtype=np.bool_) for name in HELD_OUT)
    trace = AttackTrace(planned, passes, train, test, sides.train.targets)
    return Measured(trace.curve(attack.value, space.value), dict(vars(trace)))


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
) -> Hits:
    """Fine-tune ``model`` in place up to the last of ``steps``, and score it at each of them: by part, [S, n] hits.

    Cross-entropy of the next item's tokens over the full vocabulary, as in training; every weight that requires
    gradients, or adapters (``config.adapters``). The state is kept in ``progress.work`` at every scored step. ``held``
    and ``start`` are the n interactions that are scored and their hits before the attack, by part.
    """
    model.module.train(config.dropout)
    tuning = _FineTuning(model, data, config, f"{data.attack}, {space}", seed)
    settings = f"{data.attack}/{space} {config.model_dump_json()} {list(steps)} {seed} {model.device.type}"
    arrays = [
        model.sids.codes,
        *(getattr(part, name) for part in (data.examples, *held.values()) for name in _FINGERPRINTED),
    ]
    weights = {str(number): parameter for number, parameter in enumerate(tuning.learned)}
    snapshots = Snapshots(progress.work, settings, arrays, weights, tuning.optimizer) if progress.work else None
    lengths, last = tuning.task.lengths, steps[-1]
    with torch_seeded(derive(seed, "relearning", "dropout"), str(model.device)):
        done, hits = 0, {name: torch.from_numpy(found)[None] for name, found in start.items()}
        restored = snapshots.restore() if snapshots else None
        if restored is not None:
            done, hits = restored[0].step, restored[1]
            progress.earlier_seconds += restored[0].seconds
            progress.info(f"{tuning.label}: going on after step {done} of {last}")
        order = batches(data, lengths, seed=seed, first=done, total=last)
        for rows in progress.track(tuning.label, order, total=last - done):
            tuning.descend(rows, done, progress)
            done += 1
            if done in steps:
                new = {name: torch.from_numpy(held_out_hits(model, part)) for name, part in held.items()}
                hits = {name: torch.cat([hits[name], new[name][None]]) for name in hits}
                if snapshots:
                    snapshots.write(TrainingPosition(step=done), hits)
    return hits


class _FineTuning:
    def __init__(self, model: Recommender, data: AttackSet, config: RelearningConfig, label: str, seed: int) -> None:
        self.task, self.config, self.label = NextItem(model, data.examples), config, label
        self.terms = self.task.terms
        if config.adapters and anatomy(model).causal:
            names, seed = linear_names(anatomy(model).blocks), derive(seed, "relearning", "adapters")
            shape: dict[str, Any] = {"rank": config.adapter_rank, "scale": config.adapter_scale, "seed": seed}
            self.learned, lr = LowRank(model.module, names, adapter="relearning", **shape).parameters, config.adapter_lr
        else:
            self.learned = tuple(parameter for parameter in model.module.parameters() if parameter.requires_grad)
            lr = config.lr
        self.optimizer = torch.optim.AdamW(self.learned, lr=lr, weight_decay=config.weight_decay, fused=True)

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
