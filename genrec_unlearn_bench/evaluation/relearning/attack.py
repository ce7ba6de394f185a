"""One attack on one model: what the attacker has, what is held out and scored, the fine-tuning, and the SID spaces.

After Deeb & Roger, "Do unlearning methods remove information from model weights?" (arXiv 2410.08827): the attacker
sees one part of the facts and is scored on the rest, as one scored on what it trained on teaches it anew (Feng et al.,
arXiv 2506.00688). Both items and users are halved, and what is scored shares neither with the attack. All data are
functions of the seed and the step alone, the same for every model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from genrec_unlearn_bench.backbones.recommender import Recommender, ServingRules
from genrec_unlearn_bench.backbones.training import NextItem, micro_batches
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit
from genrec_unlearn_bench.evaluation.decode import given_histories, is_reassignment
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.relearning.measurement import (
    CONCEPT_SHARE,
    HELD_OUT,
    START,
    SUBSETS,
    Attack,
    AttackTrace,
    RelearningConfig,
    Space,
    same_codes,
    spaces,
)
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.lora import LowRank, linear_names
from genrec_unlearn_bench.unlearning.sampling import all_examples, at_most

LEAST = 20
"""Fewest interactions that the attacker has, and fewest held out."""

MOST_HELD_OUT = 500
"""Most held-out interactions of each part that are scored; a fixed draw where there are more."""

BEAM = 50
"""Beam width: the attack asks what can be got back at all, not what a narrow search happens to keep."""

PLACES = 10
"""k of HR@k."""

_WINDOW = 50
"""Batches among which examples of similar length are brought together."""
_LOG_EVERY = 20


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
    start = [np.asarray(subject.pass_arrays[START.name][f"{space}.{name}"], dtype=np.bool_) for name in HELD_OUT]
    held, blocked = (sides.train, sides.test), found.serving.blocked
    if blocked is not None and all(blocked[part.targets].all() for part in held):
        # Blocked items cannot be hit however the weights change: zeros without a step.
        hits = [start] * len(steps)
    else:
        model = found.clone()

        def score() -> list[BoolArray]:
            return [held_out_hits(model, part) for part in held]

        hits = [start, *run_attack(model, data, config, steps[1:], score, subject.seed, progress, label=part)]
    train, test = (np.stack(rows) for rows in zip(*hits, strict=True))
    passes = np.array([data.passes(step) for step in config.steps], dtype=np.float64)
    trace = AttackTrace(np.array(config.steps, dtype=np.int64), passes, train, test, sides.train.targets)
    return Measured(trace.curve(attack.value, space.value), dict(vars(trace)))


def permitted(data: AttackSet, config: RelearningConfig) -> tuple[int, ...]:
    """The planned steps that stay within the limit on passes. Raises NotMeasurable where 0 alone does."""
    steps = tuple(step for step in config.steps if data.passes(step) <= config.passes)
    if len(steps) < 2:
        first, source = config.steps[1], data.sources[0]
        raise NotMeasurable(
            f"the attack is longer than its data: {first} steps are {data.passes(first):.0f} passes over its "
            f"{len(source.rows)} {source.name} interactions, and {config.passes:g} are allowed"
        )
    return steps


def run_attack(
    model: Recommender,
    data: AttackSet,
    config: RelearningConfig,
    steps: Sequence[int],
    score: Callable[[], list[BoolArray]],
    seed: int,
    progress: Progress,
    *,
    label: str,
) -> list[list[BoolArray]]:
    """Fine-tune ``model`` in place up to the last of ``steps``; returns what ``score`` gives after each of them.

    Cross-entropy of the next item's tokens over the full vocabulary, as in training; every weight that requires
    gradients, or adapters (``config.adapters``). Raises NotMeasurable where a loss or gradient is not finite.
    """
    model.module.eval()
    task, found = NextItem(model, data.examples), []
    learned, lr = tuple(each for each in model.module.parameters() if each.requires_grad), config.lr
    if config.adapters and anatomy(model).causal:
        names, drawn = linear_names(anatomy(model).blocks), derive(seed, "relearning", "adapters")
        rank, scale = config.adapter_rank, config.adapter_scale
        adapters = LowRank(model.module, names, rank=rank, scale=scale, seed=drawn, adapter="relearning")
        learned, lr = adapters.parameters, config.adapter_lr
    optimizer = torch.optim.AdamW(learned, lr=lr, weight_decay=config.weight_decay, fused=True)
    order = batches(data, task.lengths, seed=seed, total=steps[-1])
    for step, rows in enumerate(progress.track(label, order, total=steps[-1])):
        optimizer.zero_grad()
        total = 0.0
        for places, weight in micro_batches(rows, task, config.rows_at_once or len(rows)):
            loss = task.loss(places) * weight
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        norm = float(nn.utils.clip_grad_norm_(learned, config.clip))
        if not math.isfinite(total) or not math.isfinite(norm):
            raise NotMeasurable(f"the loss or the gradient of the attack is not finite at step {step}")
        if step % _LOG_EVERY == 0:
            progress.log(label, step, {"loss": total})
        optimizer.step()
        if step + 1 in steps:
            found.append(score())
    return found


@dataclass(frozen=True, eq=False)
class AttackSplit:
    """The two sides of one task, the same for every model of a seed.

    Attributes:
        users: [U] the attacker's users; the others are held out.
        items: [N] held-out concept items. No attack sees one, as a target or in a history.
        concept, retain: Forgotten and retain train interactions of the attacker's users, without held-out items.
        train: Forgotten train interactions of held-out users with held-out items, which are scored.
        test: The same of the test part. Empty for interaction requests, as deleted data has no future of its own, and
            where there are fewer than ``LEAST``.
    """

    users: BoolArray
    items: BoolArray
    concept: Examples
    retain: Examples
    train: Examples
    test: Examples


def split_for_attacks(split: ForgetSplit, seed: int) -> AttackSplit:
    """Halve the concept's items and all users, each by a draw that only the seed decides.

    Interaction requests mark no items: there the targets of the forgotten pairs are halved, and the attacker's retain
    interactions with held-out ones go as well, since nothing of what is scored may be seen; the retrained model is
    attacked with the same. Histories of held-out interactions stay as they are: nobody trains on them.

    Raises NotMeasurable for too few interactions on one of the sides.
    """
    forgotten = split.train.forget
    single = split.kind is ConceptKind.INTERACTION
    targets = np.unique(forgotten.targets) if single else np.flatnonzero(split.items)
    counts = np.bincount(forgotten.targets, minlength=len(split.items))[targets]
    away = halves(counts, numpy_generator(seed, "relearning", "items"))
    items = np.zeros(len(split.items), dtype=np.bool_)
    items[targets[away]] = True

    everyone = (split.train.forget, split.train.retain, split.test.forget)
    size = 1 + max(int(part.users.max(initial=-1)) for part in everyone)
    busy = np.bincount(forgotten.users, minlength=size)
    users = ~halves(busy, numpy_generator(seed, "relearning", "users"))

    def seen(part: Examples) -> Examples:
        kept = part.subset(users[part.users] & ~items[part.targets]).without_items(items)
        return kept.subset(kept.ends > kept.starts)

    def scored(part: Examples, name: str) -> Examples:
        held_out = part.subset(~users[part.users] & items[part.targets])
        return at_most(held_out, MOST_HELD_OUT, seed, "relearning", "held-out", name)

    test = scored(split.test.forget, "test")
    if single or len(test) < LEAST:
        test = test.subset(np.arange(0))
    sides = AttackSplit(users, items, seen(forgotten), seen(split.train.retain), scored(forgotten, "train"), test)
    for found, what in (
        (sides.concept, "forgotten interactions of the attacker's users with his half of the concept's items"),
        (sides.retain, "retain interactions of the attacker's users"),
        (sides.train, "held-out forgotten interactions, of users and items that the attack does not see"),
    ):
        if len(found) < LEAST:
            raise NotMeasurable(f"there are {len(found)} {what}, and an attack takes at least {LEAST}")
    return sides


def halves(counts: IntArray, generator: np.random.Generator) -> BoolArray:
    """[n] a random half of n things, True for one of every two neighbours in the order of ``counts`` [n].

    Popular things would otherwise decide by their luck how much one side holds.
    """
    order = np.lexsort((generator.random(len(counts)), counts))[::-1]
    coins = generator.random((len(counts) + 1) // 2) < 0.5
    out = np.zeros(len(counts), dtype=np.bool_)
    out[order] = np.repeat(coins, 2)[: len(counts)] ^ (np.arange(len(counts)) % 2 == 1)
    return out


@dataclass(frozen=True, eq=False)
class BatchSource:
    """A part of every batch: ``size`` of the examples at the places ``rows`` [n] in ``AttackSet.examples``."""

    name: str
    rows: IntArray
    size: int


@dataclass(frozen=True, eq=False)
class AttackSet:
    """The data of one attack; ``sources`` make up each batch, the concept's interactions first if there are some."""

    attack: Attack
    examples: Examples
    sources: tuple[BatchSource, ...]

    def passes(self, step: int) -> float:
        """Passes of so many steps over the concept's interactions (``benign``: over the retain interactions)."""
        first = self.sources[0]
        return step * first.size / len(first.rows)


def attack_set(attack: Attack, sides: AttackSplit, batch_size: int, seed: int) -> AttackSet:
    """Put the data of one attack together. Smaller forget-only attacks use a part of what larger ones use."""
    concept, retain = sides.concept, sides.retain
    if attack is Attack.BENIGN:
        rows = np.arange(len(retain), dtype=np.int64)
        return AttackSet(attack, retain, (BatchSource("retain", rows, min(batch_size, len(rows))),))
    if attack is Attack.MIXED:
        of_concept = max(1, round(CONCEPT_SHARE * batch_size))
        first = np.arange(len(concept), dtype=np.int64)
        second = np.arange(len(retain), dtype=np.int64) + len(concept)
        sources = (BatchSource("concept", first, of_concept), BatchSource("retain", second, batch_size - of_concept))
        return AttackSet(attack, all_examples(concept, retain), sources)
    order = numpy_generator(seed, "relearning", "subset").permutation(len(concept))
    rows = np.sort(order[: max(1, math.ceil(SUBSETS[attack] * len(concept)))]).astype(np.int64)
    return AttackSet(attack, concept, (BatchSource("concept", rows, min(batch_size, len(rows))),))


def batches(data: AttackSet, lengths: IntArray, *, seed: int, total: int) -> Iterator[IntArray]:
    """Rows of ``data.examples``, whose histories have ``lengths`` [M], for ``total`` steps.

    Every source goes through its examples pass by pass, each in a new order, and gives equally many to each batch.
    Within windows of 50 batches, examples of similar length come together: there is little to pad.
    """
    for step in range(total):
        window, place = divmod(step, _WINDOW)
        if place == 0:
            order = numpy_generator(seed, "relearning", data.attack, "order", window).permutation(_WINDOW)
            parts = [_window(source, lengths, data.attack, seed, window) for source in data.sources]
            rows = np.concatenate(parts, axis=1)[order]
        yield rows[place]


def _window(source: BatchSource, lengths: IntArray, attack: Attack, seed: int, window: int) -> IntArray:
    """[50, size] the source's rows in one window of batches, the shortest histories first."""
    count = _WINDOW * source.size
    places = np.arange(window * count, (window + 1) * count)
    passes, within = np.divmod(places, len(source.rows))
    drawn = np.empty(count, dtype=np.int64)
    for number in np.unique(passes):
        order = numpy_generator(seed, "relearning", attack, source.name, int(number)).permutation(len(source.rows))
        drawn[passes == number] = source.rows[order[within[passes == number]]]
    return drawn[np.argsort(lengths[drawn], kind="stable")].reshape(_WINDOW, source.size)


def in_space(subject: Subject, space: Space) -> Recommender:
    """The model in a space, with the same network. Raises NotMeasurable where it has its own tokenizer."""
    if space is Space.SERVED:
        return subject.recommender
    own, original = subject.recommender.sids, subject.original_sids
    if not is_reassignment(own, original) and not (own.level_sizes == original.level_sizes and same_codes(subject)):
        raise NotMeasurable("the model has a tokenizer of its own, so that the original SIDs mean nothing to it")
    return subject.recommender.with_sids(original).with_serving(ServingRules())


def held_out_hits(recommender: Recommender, examples: Examples) -> BoolArray:
    """[n] whether each target is among the first ten items, by constrained beam search with beam 50."""
    ranking = recommender.recommend(given_histories(recommender, examples), PLACES, beam=BEAM)
    return np.asarray(ranking.ranks(examples.targets) > 0, dtype=np.bool_)


def read_start(subject: Subject, progress: Progress) -> Mapping[str, NDArray[np.generic]]:
    """Hits before any attack, read once for all of them: ``served.train`` [n], ``served.test`` [m], and the same of
    ``original`` where it is another space."""
    sides = split_for_attacks(subject.split, subject.seed)
    found: dict[str, NDArray[np.generic]] = {}
    for space in spaces(subject):
        try:
            recommender = in_space(subject, space)
        except NotMeasurable:
            continue
        for part in progress.track(f"held-out, {space}", HELD_OUT, total=2):
            found[f"{space}.{part}"] = held_out_hits(recommender, getattr(sides, part))
    return found
