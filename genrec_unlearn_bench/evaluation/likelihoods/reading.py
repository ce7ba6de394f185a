"""The shared reading ``likelihoods``: what is in it, and how measurements take a group out of it.

Four groups are read: train and never-trained (holdout) interactions, on the forget and on the retain side. They are
scored on the whole vocabulary, without the trie: what the weights say, not what is served. A recommender that only
blocks items (``filter``) therefore scores as the original does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.evaluation.measurement import SharedPass

__all__ = ["LIKELIHOODS", "Part", "Scored", "arrays_of", "scored"]

FloatArray = NDArray[np.float64]


class Part(StrEnum):
    """The groups of examples that are read."""

    FORGET_TRAIN = "forget-train"
    """Train interactions that are to be forgotten: the original saw them, retraining did not."""
    FORGET_HOLDOUT = "forget-holdout"
    """Interactions of the same concept that no model was ever trained on."""
    RETAIN_TRAIN = "retain-train"
    RETAIN_HOLDOUT = "retain-holdout"


@dataclass(frozen=True, eq=False)
class Scored:
    """One group under one model: n examples with targets of at most L tokens, w of which were scored further.

    Attributes:
        log_probs: [n, L] log-probability of each target token under teacher forcing, in nats.
        real: [n, L] False behind the end of a target that is shorter than L.
        mean, sd: [n, L] mean and standard deviation of log p(v) with v drawn from the model's own distribution at that
            position.
        wrong: [w, 5] log-probability of the whole SID of each wrong item, for the first w examples; NaN where the
            catalogue has fewer of them.
        wrong_lengths: [w, 5] tokens of each wrong item; 0 where there is none.
        old: [n, L] as ``log_probs``, with histories and targets written in the original recommender's SIDs; None where
            the model's SIDs are no reassignment of those.
        old_real: [n, L] as ``real``, for ``old``.
    """

    log_probs: FloatArray
    real: BoolArray
    mean: FloatArray
    sd: FloatArray
    wrong: FloatArray
    wrong_lengths: IntArray
    old: FloatArray | None = None
    old_real: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.log_probs)


def arrays_of(part: Part, found: Scored) -> dict[str, NDArray[np.generic]]:
    """A group as the arrays of a reading."""
    return {f"{part}.{name}": array for name, array in vars(found).items() if array is not None}


def scored(passes: Mapping[str, Mapping[str, NDArray[np.generic]]], part: Part) -> Scored:
    """The inverse of ``arrays_of``, from a subject's ``pass_arrays``."""
    prefix = f"{part}."
    arrays = passes[LIKELIHOODS.name]
    return Scored(**{name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)})  # type: ignore[arg-type]


LIKELIHOODS = SharedPass("likelihoods", "genrec_unlearn_bench.evaluation.likelihoods.groups:read_likelihoods")
