"""The truth ratio of an example: how likely wrong answers are beside the right one, by token.

TOFU (Maini et al. 2024, arXiv 2401.06121, eq. 1) divides the mean over five perturbed answers of P(answer)^(1/tokens)
by that of a paraphrase of the right answer. An item has no paraphrase, so the right answer itself stands there; the
perturbed answers are the five semantic neighbours P(i). The mean is arithmetic, as in the paper; its code takes the
geometric one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.likelihoods.reading import Scored

__all__ = ["forget_aggregate", "log_truth_ratios", "retain_aggregate"]

FloatArray = NDArray[np.float64]


def log_truth_ratios(part: Scored) -> FloatArray:
    """[w] natural logarithm of the truth ratio of the first w examples; NaN for one without any wrong item.

    Lengths are those under the model's own semantic IDs: a truth ratio is defined in one SID space alone, so that
    after a reassignment the run and the retrained model are each scored under their own.
    """
    w = len(part.wrong)
    there = part.wrong_lengths > 0
    wrong = np.where(there, part.wrong / np.maximum(part.wrong_lengths, 1), -np.inf)
    count = there.sum(axis=1)
    right = part.log_probs[:w].sum(axis=1) / np.maximum(part.real[:w].sum(axis=1), 1)
    mean = np.logaddexp.reduce(wrong, axis=1, initial=-np.inf) - np.log(np.maximum(count, 1))
    return np.asarray(np.where(count > 0, mean - right, np.nan))


def forget_aggregate(log_ratios: FloatArray) -> FloatArray:
    """[w] min(TR, 1/TR): 1 where right and wrong answers are equally likely, 0 where either is certain."""
    return np.asarray(np.exp(-np.abs(log_ratios)))


def retain_aggregate(log_ratios: FloatArray) -> FloatArray:
    """[w] max(0, 1 - TR): 1 where the right answer is certain, 0 where wrong ones are at least as likely."""
    return np.asarray(np.maximum(0.0, -np.expm1(np.minimum(log_ratios, 0.0))))
