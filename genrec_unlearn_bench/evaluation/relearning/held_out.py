"""The model as an attacker meets it, in each SID space, and the held-out concept interactions it recommends."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.recommender import Recommender, ServingRules
from genrec_unlearn_bench.data.examples import BoolArray, Examples
from genrec_unlearn_bench.evaluation.decode import given_histories, is_reassignment
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.relearning.attack_data import split_for_attacks
from genrec_unlearn_bench.evaluation.relearning.specs import HELD_OUT, Space
from genrec_unlearn_bench.progress import Progress

__all__ = ["held_out_hits", "in_space", "read_start", "spaces"]

BEAM = 50
"""Beam width: the attack asks what can be got back at all, not what a narrow search happens to keep."""

PLACES = 10
"""k of HR@k."""


def spaces(subject: Subject) -> tuple[Space, ...]:
    """The spaces that differ for this model; one where table and serving rules are the original's."""
    served = subject.recommender.serving
    plain = served.blocked is None and served.ignored is None
    return (Space.SERVED,) if plain and _same_codes(subject) else (Space.SERVED, Space.ORIGINAL)


def readable(subject: Subject) -> bool:
    """Whether the model's table is the original one or a reassignment of it, so that it can read original SIDs."""
    own, original = subject.recommender.sids, subject.original_sids
    return is_reassignment(own, original) or (own.level_sizes == original.level_sizes and _same_codes(subject))


def in_space(subject: Subject, space: Space) -> Recommender:
    """The model in a space, with the same network. Raises NotMeasurable where it has its own tokenizer."""
    if space is Space.SERVED:
        return subject.recommender
    if not readable(subject):
        raise NotMeasurable("the model has a tokenizer of its own, so that the original SIDs mean nothing to it")
    return subject.recommender.with_sids(subject.original_sids).with_serving(ServingRules())


def _same_codes(subject: Subject) -> bool:
    return np.array_equal(subject.recommender.sids.codes, subject.original_sids.codes)


def held_out_hits(recommender: Recommender, examples: Examples) -> BoolArray:
    """[n] whether each target is among the first ten items, by constrained beam search with beam 50."""
    ranking = recommender.recommend(given_histories(recommender, examples), PLACES, beam=BEAM)
    return np.asarray(ranking.ranks(examples.targets) > 0, dtype=np.bool_)


def read_start(subject: Subject, progress: Progress) -> Mapping[str, NDArray[np.generic]]:
    """Hits before any attack, read once for all of them, by space and part.

    ``served.train`` [n], ``served.test`` [m], and the same of ``original`` where it is another space.
    """
    sides = split_for_attacks(subject.split, subject.seed)
    found: dict[str, NDArray[np.generic]] = {}
    for space in spaces(subject):
        if space is Space.ORIGINAL and not readable(subject):
            continue
        recommender = in_space(subject, space)
        for part in progress.track(f"held-out, {space}", HELD_OUT, total=2):
            found[f"{space}.{part}"] = held_out_hits(recommender, getattr(sides, part))
    return found
