"""Which examples the reading takes, what counts as a wrong item of theirs, and in which SID spaces they are scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import BoolArray, Examples, Histories, IntArray
from genrec_unlearn_bench.evaluation.likelihoods.reading import Part, Scored, arrays_of
from genrec_unlearn_bench.evaluation.likelihoods.scoring import score, target_tokens
from genrec_unlearn_bench.evaluation.measurement import Subject
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.losses.positives import positive_set

__all__ = ["MOST", "WRONG", "drawn", "in_original_space", "read_groups", "wrong_items"]

MOST = 2000
"""Most examples of a group."""
WRONG = 5
"""Wrong items of an example; TOFU has five perturbed answers a question."""
CHUNK = 4096
"""Histories looked through at a time."""
WITH_WRONG: Mapping[Part, int] = {Part.FORGET_TRAIN: 800, Part.RETAIN_TRAIN: 400}
"""How many of a group's examples are scored with wrong items as well; the forget side in two independent halves."""


def read_likelihoods(subject: Subject, progress: Progress) -> Mapping[str, NDArray[np.generic]]:
    """All groups as arrays by name, for ``scored``."""
    return {
        name: array
        for part, found in read_groups(subject, progress).items()
        for name, array in arrays_of(part, found).items()
    }


def read_groups(subject: Subject, progress: Progress) -> dict[Part, Scored]:
    """All four groups under the model, in its own SIDs and in the original ones. A group may be empty."""
    groups = {
        Part.FORGET_TRAIN: subject.split.train.forget,
        Part.FORGET_HOLDOUT: subject.holdout.forget,
        Part.RETAIN_TRAIN: subject.split.train.retain,
        Part.RETAIN_HOLDOUT: subject.holdout.retain,
    }
    model, original = subject.recommender, subject.original_sids
    out = {}
    for part, examples in groups.items():
        chosen = drawn(examples, part, subject.seed)
        histories = _histories(model, chosen)
        with_wrong = chosen.targets[: WITH_WRONG.get(part, 0)]
        wrong = wrong_items(subject.features, original, with_wrong, subject.split.items)
        found = score(model, histories, chosen.targets, wrong, label=f"likelihoods, {part}", progress=progress)
        if np.array_equal(model.sids.codes, original.codes):
            found = replace(found, old=found.log_probs, old_real=found.real)
        elif in_original_space(model.sids, original):
            label = f"likelihoods, {part}, original SIDs"
            old = target_tokens(model.with_sids(original), histories, chosen.targets, label=label, progress=progress)
            found = replace(found, old=old, old_real=original.codes[chosen.targets] >= 0)
        out[part] = found
    return out


def drawn(examples: Examples, part: Part, seed: int) -> Examples:
    """At most ``MOST`` examples in random order, the same for every model of a seed.

    Without those whose history holds the target already: there are none among the holdout, whose pairs are taken out of
    all histories, so that a model which only repeats histories would seem to know its members.
    """
    fresh = examples.subset(~_repeated(examples))
    return fresh.subset(numpy_generator(seed, "likelihoods", part.value).permutation(len(fresh))[:MOST])


def _repeated(examples: Examples) -> BoolArray:
    """[M] whether the history, as far as it goes back, holds the target."""
    out = np.zeros(len(examples), dtype=np.bool_)
    for first in range(0, len(examples), CHUNK):
        rows = np.arange(first, min(first + CHUNK, len(examples)))
        out[rows] = (examples.histories(rows=rows).items == examples.targets[rows, None]).any(axis=1)
    return out


def wrong_items(features: ItemFeatures, table: SidTable, targets: IntArray, concept: BoolArray) -> IntArray:
    """[len(targets), 5] wrong answers: the semantic neighbours P(i) of each target, -1 where the catalogue has fewer.

    Neighbours are those of ``positive_set`` (retain items; none that carries the target's codes), in the original
    table, so that they are the same for every model. Only where the concept leaves fewer than five are concept items
    let in.
    """
    distinct, row = np.unique(targets, return_inverse=True)
    found = positive_set(features, table, distinct, concept, WRONG)
    short = (found < 0).any(axis=1)
    if short.any():
        found[short] = positive_set(features, table, distinct[short], np.zeros_like(concept), WRONG)
    return np.asarray(found[row], dtype=np.int64)


def in_original_space(own: SidTable, original: SidTable) -> bool:
    """Whether ``own`` is a reassignment of the original table, so that the model still knows what old codes mean.

    A tokenizer trained anew (``retrain-full``) has codes of the same sizes that stand for something else.
    """
    return own.version != original.version and own.level_sizes == original.level_sizes


def _histories(model: Recommender, examples: Examples) -> Histories:
    # A served model that drops items from histories is given the whole history, as it drops before it cuts.
    return examples.histories(model.history_limit if model.serving.ignored is None else None)
