"""Likelihoods of targets and wrong items by teacher forcing: which examples, which wrong items, which SID spaces.

Histories are encoded once for all targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, StepOutput, length_batches
from genrec_unlearn_bench.data.examples import BoolArray, Examples, Histories, IntArray
from genrec_unlearn_bench.evaluation.decode import given_histories, is_reassignment
from genrec_unlearn_bench.evaluation.likelihoods import ExampleGroup, Scored
from genrec_unlearn_bench.evaluation.measurement import Subject
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.likelihood import resting
from genrec_unlearn_bench.unlearning.sampling import positive_set

MOST = 2000
"""Most examples of a group."""
WRONG = 5
"""Wrong items of an example; TOFU has five perturbed answers a question."""
CHUNK = 4096
"""Histories searched at a time."""
WITH_WRONG: Mapping[ExampleGroup, int] = {ExampleGroup.FORGET_TRAIN: 800, ExampleGroup.RETAIN_TRAIN: 400}
"""Examples of a group that are scored with wrong items as well; the forget side in two independent halves."""
ROWS = 256
"""Most histories of a batch."""
LOGITS = 2**25
"""Most logits of a batch: those of a language model's vocabulary would not fit otherwise."""


def score_groups(subject: Subject, progress: Progress) -> Mapping[str, NDArray[np.generic]]:
    """All four groups under the model, in its own SIDs and in the original ones, as arrays by name for ``scored``."""
    groups = {
        ExampleGroup.FORGET_TRAIN: subject.split.train.forget,
        ExampleGroup.FORGET_HOLDOUT: subject.holdout.forget,
        ExampleGroup.RETAIN_TRAIN: subject.split.train.retain,
        ExampleGroup.RETAIN_HOLDOUT: subject.holdout.retain,
    }
    model, original = subject.recommender, subject.original_sids
    out: dict[str, NDArray[np.generic]] = {}
    for group, examples in groups.items():
        chosen = drawn(examples, group, subject.seed)
        histories = given_histories(model, chosen)
        with_wrong = chosen.targets[: WITH_WRONG.get(group, 0)]
        wrong = wrong_items(subject.features, original, with_wrong, subject.split.items)
        found = score(model, histories, chosen.targets, wrong, label=f"likelihoods, {group}", progress=progress)
        if np.array_equal(model.sids.codes, original.codes):
            found = replace(found, old=found.log_probs, old_real=found.real)
        elif is_reassignment(model.sids, original):
            label = f"likelihoods, {group}, original SIDs"
            none = np.zeros((0, 0), dtype=np.int64)
            old = score(model.with_sids(original), histories, chosen.targets, none, label=label, progress=progress)
            found = replace(found, old=old.log_probs, old_real=old.real)
        out |= {f"{group}.{name}": array for name, array in vars(found).items() if array is not None}
    return out


def drawn(examples: Examples, group: ExampleGroup, seed: int) -> Examples:
    """At most ``MOST`` examples in random order, the same for every model of a seed.

    Without those whose history, as far as it goes back, holds the target already: there are none among the holdout,
    whose pairs are taken out of all histories, so that a model which only repeats histories would seem to know its
    members.
    """
    repeated = np.zeros(len(examples), dtype=np.bool_)
    for first in range(0, len(examples), CHUNK):
        rows = np.arange(first, min(first + CHUNK, len(examples)))
        repeated[rows] = (examples.histories(rows=rows).items == examples.targets[rows, None]).any(axis=1)
    fresh = examples.subset(~repeated)
    return fresh.subset(numpy_generator(seed, "likelihoods", group.value).permutation(len(fresh))[:MOST])


def wrong_items(features: ItemFeatures, table: SidTable, targets: IntArray, concept: BoolArray) -> IntArray:
    """[len(targets), 5] wrong answers: the neighbours P(i) of each target in the original table, the same for every
    model; -1 where the catalogue has fewer. Only where the concept leaves fewer than five are concept items let in."""
    distinct, row = np.unique(targets, return_inverse=True)
    found = positive_set(features, table, distinct, concept, WRONG)
    short = (found < 0).any(axis=1)
    if short.any():
        found[short] = positive_set(features, table, distinct[short], np.zeros_like(concept), WRONG)
    return np.asarray(found[row], dtype=np.int64)


def score(
    recommender: Recommender,
    histories: Histories,
    targets: IntArray,
    wrong: IntArray,
    *,
    label: str,
    progress: Progress,
) -> Scored:
    """Score n targets [n] and the wrong items [w, k] of the first w histories (-1 where there is none).

    Softmax over the full vocabulary in fp32, in evaluation mode; targets and wrong items share one encoded history.
    """
    n, levels = len(targets), recommender.sids.levels
    log_probs, mean, sd = (np.zeros((n, levels)) for _ in range(3))
    others = np.full((n, wrong.shape[1]), -1, dtype=np.int64)
    others[: len(wrong)] = wrong
    sums = np.full(others.shape, np.nan)
    for rows in _batches(recommender, histories.lengths, 1 + wrong.shape[1], label, progress):
        pairs = np.argwhere(others[rows] >= 0)
        step = _decode(recommender, histories.rows(rows), targets[rows], pairs[:, 0], others[rows][*pairs.T])
        tokens = step.token_log_probs().cpu().double().numpy()
        log_probs[rows] = tokens[: len(rows)]
        sums[rows[pairs[:, 0]], pairs[:, 1]] = tokens[len(rows) :].sum(axis=1)
        mean[rows], sd[rows] = (part.cpu().double().numpy() for part in own_moments(step.logits[: len(rows)]))
    lengths = (recommender.sids.codes >= 0).sum(axis=1)
    return Scored(
        log_probs=log_probs,
        real=recommender.sids.codes[targets] >= 0,
        mean=mean,
        sd=sd,
        wrong=sums[: len(wrong)],
        wrong_lengths=np.where(wrong >= 0, lengths[wrong], 0),
    )


def own_moments(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of log p(v), v drawn from p itself: [..., V] logits to two tensors [...].

    Min-K%++ (Zhang et al. 2024, arXiv 2404.02936, eq. 4). A token that cannot come has no part in either.
    """
    log_p = logits.float().log_softmax(-1)
    p = log_p.exp()
    finite = log_p.masked_fill(p == 0, 0.0)
    mean = (p * finite).sum(-1)
    variance = (p * (finite - mean[..., None]).square()).sum(-1)
    return mean, variance.sqrt()


def _batches(
    recommender: Recommender, lengths: IntArray, targets: int, label: str, progress: Progress
) -> Iterator[IntArray]:
    """Rows of similar length, as many as their logits allow with so many targets a history."""
    size = recommender.sids.levels * recommender.vocabulary.size * targets
    found = list(length_batches(lengths, max(1, min(ROWS, LOGITS // size))))
    yield from progress.track(label, found, total=len(found))


def _decode(
    recommender: Recommender, histories: Histories, targets: IntArray, owners: IntArray, items: IntArray
) -> StepOutput:
    """B targets, one a history, and behind them ``items`` [P] on the histories ``owners`` [P]; logits in fp32."""
    with resting(recommender):
        codes = recommender.codes_of(np.concatenate([targets, items]))
        rows = torch.from_numpy(np.concatenate([np.arange(len(targets)), owners])).to(codes.device)
        step = recommender.decode(recommender.encode(histories), codes, rows=rows if len(items) else None)
    return StepOutput(step.logits.float(), step.labels, mask=step.mask)
