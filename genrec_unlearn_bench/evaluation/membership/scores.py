"""Membership scores of single examples. All are turned so that higher means: more likely a member.

Open-unlearning, whose attacks these are, labels forget examples 0 and holdout examples 1 and scores by loss; the AUC
is the same number as with members labelled 1 and scored by log-likelihood, as here: 1 where every member scores
above every non-member, .5 where it cannot be told. Scores that compress text (zlib) mean nothing for semantic IDs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray

__all__ = [
    "LOSS",
    "MIN_K",
    "MIN_K_PLUS_PLUS",
    "OLD",
    "OWN",
    "REFERENCE",
    "SCORES",
    "likelihood",
    "min_k",
    "min_k_plus_plus",
]

FloatArray = NDArray[np.float64]

LOSS, MIN_K, MIN_K_PLUS_PLUS, REFERENCE = "loss", "min-k", "min-k++", "reference"
SCORES = (LOSS, MIN_K, MIN_K_PLUS_PLUS, REFERENCE)

OWN, OLD = "own", "original-sids"
"""In which semantic IDs histories and targets are written: the model's own, or the original recommender's."""

LEAST_VARIANCE = 1e-6
"""Below it Min-K%++ would divide by nothing where the model is sure of one token."""


def likelihood(log_probs: FloatArray, real: BoolArray) -> FloatArray:
    """[n] mean log-probability of the real tokens of each target, i.e. minus its loss (Yeom et al. 2018).

    The mean, not the sum: with semantic IDs of different length a sum would tell short targets from long ones.

    Args:
        log_probs, real: [n, L].
    """
    return np.asarray(np.where(real, log_probs, 0.0).sum(axis=1) / np.maximum(real.sum(axis=1), 1))


def min_k(values: FloatArray, real: BoolArray, share: float) -> FloatArray:
    """[n] mean of the lowest ``share`` of each target's tokens, at least one (Min-K%, Shi et al. 2024,
    arXiv 2310.16789, eq. 1).

    At a share of .2, a semantic ID of three or four tokens is scored by its least likely token alone.

    Args:
        values, real: [n, L].
    """
    counts = np.maximum(1, (share * real.sum(axis=1)).astype(np.int64))
    lowest = np.sort(np.where(real, values, np.inf), axis=1)
    taken = np.arange(values.shape[1]) < counts[:, None]
    return np.asarray(np.where(taken, lowest, 0.0).sum(axis=1) / counts)


def min_k_plus_plus(
    log_probs: FloatArray, mean: FloatArray, sd: FloatArray, real: BoolArray, share: float
) -> FloatArray:
    """[n] Min-K% of the z-scores of the tokens' log-probabilities (Min-K%++, Zhang et al. 2024, arXiv 2404.02936,
    eq. 3 and 4).

    Args:
        log_probs, real: [n, L].
        mean, sd: [n, L] of log p(v) with v drawn from the model's own distribution at that position.
    """
    scale = np.sqrt(np.maximum(np.square(sd), LEAST_VARIANCE))
    return min_k((log_probs - mean) / scale, real, share)
