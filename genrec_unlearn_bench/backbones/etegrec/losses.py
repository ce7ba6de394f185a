"""ETEGRec's two alignment losses (Liu et al. 2025, arXiv 2409.05546, sec. 3.3).

Sequence-item alignment (SIA, eq. 15) asks the tokenizer to give a user's encoded history and the item chosen next the
same distribution over codes; preference-semantic alignment (PSA, eq. 16) draws the decoder's first state to the
reconstruction of that item, and away from the others of the batch.

Where the paper and the official code differ: the paper prints SIA with a minus sign, which would drive the
distributions apart, and sums over levels; the code adds it, as a mean over levels and items. The code's weights belong
to the mean, so it is taken here. The sign of the distances is a choice (``compat_sign``). The paper's PSA sums both
directions, and so does the code.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from genrec_unlearn_bench.data.examples import IntArray

__all__ = ["code_log_probs", "first_occurrences", "info_nce", "symmetric_kl"]


def code_log_probs(residuals: Tensor, codebooks: Iterable[Tensor], *, compat_sign: bool) -> Tensor:
    """[n, Q, K] log-probability of every code at every level (eq. 6): softmax over -||r^l - c_k^l||^2.

    Args:
        residuals: [n, Q, D].
        codebooks: Q tensors [K, D].
        compat_sign: Softmax over +||r^l - c_k^l||^2, as in the official code.
    """
    levels = []
    for level, book in enumerate(codebooks):
        residual = residuals[:, level]
        squared = (residual**2).sum(1, keepdim=True) - 2 * residual @ book.T + (book**2).sum(1)
        levels.append((squared if compat_sign else -squared).log_softmax(-1))
    return torch.stack(levels, dim=1)


def symmetric_kl(a: Tensor, b: Tensor) -> Tensor:
    """KL(a || b) + KL(b || a) of log-probabilities [n, Q, K], in nats: the mean over n and Q."""
    return ((a.exp() - b.exp()) * (a - b)).sum(-1).mean()


def info_nce(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """InfoNCE of n pairs [n, D] by cosine similarity, in nats: a among all b plus b among all a, each a mean."""
    similarity = functional.normalize(a, dim=-1) @ functional.normalize(b, dim=-1).T / temperature
    own = torch.arange(len(a), device=a.device)
    return functional.cross_entropy(similarity, own) + functional.cross_entropy(similarity.T, own)


def first_occurrences(targets: IntArray) -> IntArray:
    """Where each distinct target of a batch [B] stands first, by ascending target: no item is its own negative."""
    return np.unique(targets, return_index=True)[1].astype(np.int64)
