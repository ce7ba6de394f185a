"""LETTER's tokenizer (Wang et al. 2024, "Learnable item tokenization for generative recommendation", arXiv 2405.07314).

An RQ-VAE over text features whose loss has two terms more: alignment with frozen collaborative vectors, and diversity
of codes. Sinkhorn balances the last level in training, and colliding items are re-encoded afterwards.

Deviations from the official code, beyond those of ``sids.rqvae``: codebooks start from k-means that leaves no codeword
empty, not from size-constrained k-means; gradients are clipped; another member of a codeword's cluster is drawn in one
step, not by trying; re-encoding takes the nearest free codeword (``sids.collisions.resolve``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import LetterSidConfig
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["letter_sids"]


def letter_sids(
    features: NDArray[np.float32],
    collaborative: NDArray[np.float32],
    config: LetterSidConfig,
    *,
    seed: int,
    device: str,
    progress: Progress,
    fit_rows: NDArray[np.bool_],
) -> SidTable:
    """The semantic IDs of N items, with codebooks and latents.

    Args:
        features: [N, D] of the items' texts, finite.
        collaborative: [N, C] item vectors of a recommender trained on train interactions alone, finite.
        fit_rows: [N] rows the tokenizer is fitted on, in both its inputs; all rows are encoded, from their features.

    Raises:
        DataFault: Vectors or features that are not finite, or fewer than two rows to fit on.
        BenchError: The training diverged.
    """
    import torch

    from genrec_unlearn_bench.sids.letter_terms import LetterTerms

    if len(collaborative) != len(features):
        raise ValueError(f"{len(collaborative)} collaborative vectors for {len(features)} items")
    fitted = np.ascontiguousarray(collaborative[fit_rows], dtype=np.float32)
    if not np.isfinite(fitted).all():
        raise DataFault("the collaborative vectors are not finite numbers", hint="lower the recommender's rate `lr`")
    terms = LetterTerms(torch.from_numpy(fitted), config, seed=seed, progress=progress)
    table = quantise(features, config, seed=seed, device=device, progress=progress, fit_rows=fit_rows, extra=terms)
    progress.note("sids_alignment_loss", terms.last["alignment"])
    progress.note("sids_diversity_loss", terms.last["diversity"])
    return table
