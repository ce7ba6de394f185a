"""Ranks of the test targets, with all bits or fewer: what is measured on one model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.evaluation.group_lists import decode
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.quantisation.quantised import quantised
from genrec_unlearn_bench.evaluation.quantisation.rounding import rounding_of
from genrec_unlearn_bench.evaluation.quantisation.schemes import FULL
from genrec_unlearn_bench.evaluation.user_block import WIDE_BEAM
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.examples import Examples
    from genrec_unlearn_bench.evaluation.measurement import Subject
    from genrec_unlearn_bench.progress import Progress

__all__ = ["quantised_ranks", "sampled"]


def quantised_ranks(
    subject: Subject, scheme: str, *, retain_examples: int | None, progress: Progress
) -> Mapping[str, NDArray[np.int64]]:
    """Rank of every target in its list at beam 50 in the served SID space, 0 where it is not there.

    Returns:
        ``forget`` [F] for the whole forget test and ``retain`` [R] for a sample of the retain test, which is the same
        for every model of a seed, so that all differences are paired; and ``bits`` [1] of the blocks' weights.

    Raises:
        NotMeasurable: No network, no test examples, or no way to quantise like that here.
    """
    recommender = subject.recommender
    if not isinstance(recommender, Recommender):
        raise NotMeasurable("the ranker has no network whose weights could be quantised")
    test = subject.split.test
    if not len(test.forget) and not len(test.retain):
        raise NotMeasurable("there are no test examples")
    bits = next(recommender.module.parameters()).element_size() * 8
    if scheme != FULL:
        recommender = quantised(recommender, rounding_of(scheme))
        bits = 8 if scheme == "int8" else 4
    recommender.module.eval()
    groups = {
        Group.FORGET.value: test.forget,
        Group.RETAIN.value: sampled(test.retain, retain_examples, seed=subject.seed),
    }
    found = {name: _ranks(recommender, part, f"{name} test, {scheme}", progress) for name, part in groups.items()}
    return {**found, "bits": np.array([bits], dtype=np.int64)}


def sampled(examples: Examples, limit: int | None, *, seed: int) -> Examples:
    """At most ``limit`` of the examples, drawn without replacement, in their order."""
    if limit is None or len(examples) <= limit:
        return examples
    generator = numpy_generator(seed, "quantisation", "retain")
    return examples.subset(np.sort(generator.choice(len(examples), size=limit, replace=False)))


def _ranks(recommender: Recommender, examples: Examples, label: str, progress: Progress) -> NDArray[np.int64]:
    # A served model that drops items from histories is given the whole history, as it drops before it cuts.
    limit = recommender.history_limit if recommender.serving.ignored is None else None
    ranking = decode(recommender, examples.histories(limit), beam=WIDE_BEAM, label=label, progress=progress)
    return np.asarray(ranking.ranks(examples.targets), dtype=np.int64)
