"""The model as an attacker meets it: as it is served, or in the SID space from before unlearning."""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.backbones.recommender import Recommender, ServingRules
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.relearning.attacks import Space

__all__ = ["in_space", "readable", "spaces"]


def spaces(subject: Subject) -> tuple[Space, ...]:
    """The spaces that differ for this model; one where table and serving rules are the original's."""
    served = subject.recommender.serving
    plain = served.blocked is None and served.ignored is None
    return (Space.SERVED,) if plain and _same_codes(subject) else (Space.SERVED, Space.ORIGINAL)


def readable(subject: Subject) -> bool:
    """Whether the original table says anything to this model: its own is that table, or a reassignment of it.

    A tokenizer of its own (``retrain-full``) gives other codes under the same version: there they mean something else.
    """
    own, original = subject.recommender.sids, subject.original_sids
    return own.level_sizes == original.level_sizes and (_same_codes(subject) or own.version != original.version)


def in_space(subject: Subject, space: Space) -> Recommender:
    """The model in a space, with the same network. Raises NotMeasurable where the original table says nothing to it."""
    if space is Space.SERVED:
        return subject.recommender
    if not readable(subject):
        raise NotMeasurable("the model has a tokenizer of its own, so that the original SIDs mean nothing to it")
    return subject.recommender.with_sids(subject.original_sids).with_serving(ServingRules())


def _same_codes(subject: Subject) -> bool:
    return np.array_equal(subject.recommender.sids.codes, subject.original_sids.codes)
