"""The shared pass ``likelihoods``: its arrays, and how measurements take a group out of them.

Four groups are scored: train and never-trained (holdout) interactions, on the forget and on the retain side. They are
scored on the whole vocabulary, without the trie: what the weights hold, not what is served. A recommender that only
blocks items (``filter``) therefore scores as the original does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.evaluation.measurement import FloatArray, SharedPass


class ExampleGroup(StrEnum):
    """Groups of examples that are scored."""

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
        mean, sd: [n, L] of log p(v) with v drawn from the model's own distribution at that position.
        wrong: [w, 5] log-probability of the whole SID of each wrong item, for the first w examples; NaN: there is none.
        wrong_lengths: [w, 5] tokens of each wrong item; 0 where there is none.
        old, old_real: [n, L] as ``log_probs`` and ``real``, with histories and targets in the original recommender's
            SIDs; None where the model's SIDs are no reassignment of those.
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


def scored(passes: Mapping[str, Mapping[str, NDArray[np.generic]]], group: ExampleGroup) -> Scored:
    """A group's scores from a subject's ``pass_arrays``."""
    prefix = f"{group}."
    arrays = passes[LIKELIHOODS.name]
    return Scored(**{name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)})  # type: ignore[arg-type]


LIKELIHOODS = SharedPass("likelihoods", "genrec_unlearn_bench.evaluation.likelihood_scoring:score_groups")
