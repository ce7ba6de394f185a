"""LETTER's tokenizer (Wang et al. 2024, "Learnable item tokenization for generative recommendation", arXiv 2405.07314).

An RQ-VAE over text features whose loss has two terms more (sec. 3.2). Collaborative regularisation draws an item's
quantised vector to its frozen collaborative vector; diversity regularisation draws codewords of one cluster together,
so that no codeword is left alone and codes are used evenly. Deviations beyond those of ``sids.rqvae``: codebooks start
from k-means that leaves no codeword empty, not from size-constrained k-means; gradients are clipped; another member of
a codeword's cluster is drawn in one step, not by trying; re-encoding as ``sids.quantise.resolve_collisions`` says."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator, torch_generator
from genrec_unlearn_bench.sids.config import LetterSidConfig
from genrec_unlearn_bench.sids.kmeans import balanced_clusters
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.rqvae import ExtraTerms, Quantised, RqVae
from genrec_unlearn_bench.sids.table import SidTable

_ITERATIONS = 10
"""Lloyd steps of a clustering: a codebook has a few hundred points, and moves on before the next clustering."""


def alignment_loss(quantised: Tensor, collaborative: Tensor) -> Tensor:
    """InfoNCE over a batch: each quantised vector [B, D] should score its own item's collaborative vector [B, D] best.

    Plain dot products, as in the official code: no temperature, no normalisation. Nats, mean over the batch.
    """
    own = torch.arange(len(quantised), device=quantised.device)
    return functional.cross_entropy(quantised @ collaborative.T, own)


def diversity_loss(words: Tensor, codes: Tensor, book: Tensor, positives: Tensor) -> Tensor:
    """Cross-entropy of a codeword of the same cluster among all codewords but the item's own; nats, mean.

    ``words`` [B, D] are the codewords ``codes`` [B] of ``book`` [K, D]; ``positives`` [B] are others of their clusters.
    """
    scores = (words @ book.T).scatter(1, codes[:, None], -torch.inf)
    return functional.cross_entropy(scores, positives)


class CodeClusters:
    """Codewords by cluster (``labels`` [K]; every cluster has two or more), laid out so that another member of a code's
    cluster is drawn without a loop."""

    def __init__(self, labels: Tensor) -> None:
        sizes = torch.bincount(labels)
        self.order = torch.argsort(labels, stable=True)
        self.first = (torch.cumsum(sizes, 0) - sizes)[labels]
        self.size = sizes[labels]
        place = torch.empty_like(labels)
        place[self.order] = torch.arange(len(labels), device=labels.device)
        self.rank = place - self.first

    def others(self, codes: Tensor, generator: torch.Generator) -> Tensor:
        """[B] for each code [B] a uniform draw from its cluster without itself."""
        chance = torch.rand(len(codes), generator=generator, dtype=torch.float64).to(codes.device)
        drawn = (chance * (self.size[codes] - 1)).long()
        return self.order[self.first[codes] + drawn + (drawn >= self.rank[codes]).long()]


class LetterTerms(ExtraTerms):
    """``alpha`` times the alignment and ``beta_diversity`` times the mean diversity loss of the levels.

    The collaborative vectors [n, D] of the training rows, as wide as the latent, stay as they are.
    """

    def __init__(self, collaborative: Tensor, config: LetterSidConfig, *, seed: int, progress: Progress) -> None:
        self.collaborative, self.config, self.seed, self.progress = collaborative, config, seed, progress
        self.clusters: list[CodeClusters] = []
        self.generator = torch_generator(derive(seed, "sids", "letter"), "positives")
        self.last = {"alignment": 0.0, "diversity": 0.0}

    def start_epoch(self, model: RqVae, epoch: int) -> None:
        """Cluster the codebooks anew every ``recluster_epochs`` epochs."""
        if epoch % self.config.recluster_epochs:
            return
        if epoch:
            self.progress.log("sids.letter", epoch, self.last)
        lower, upper = self.config.cluster_bounds
        shape = {"lower": lower, "upper": upper, "iterations": _ITERATIONS}
        self.clusters = []
        for level, book in enumerate(model.books()):
            rng = numpy_generator(self.seed, "sids", "letter", "clusters", epoch, level)
            labels = balanced_clusters(book, self.config.clusters, rng=rng, **shape)
            self.clusters.append(CodeClusters(torch.from_numpy(labels).to(model.shift.device)))

    def loss(self, model: RqVae, rows: Tensor, quantised: Quantised) -> Tensor:
        alignment = alignment_loss(quantised.straight_through, self.collaborative[rows])
        levels = []
        for level, book in enumerate(model.codebooks):
            codes = quantised.codes[:, level]
            positives = self.clusters[level].others(codes, self.generator)
            levels.append(diversity_loss(quantised.words[:, level], codes, book, positives))
        diversity = torch.stack(levels).mean()
        self.last = {"alignment": float(alignment.detach()), "diversity": float(diversity.detach())}
        return self.config.alpha * alignment + self.config.beta_diversity * diversity


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
    """Fit the tokenizer and give N items their semantic IDs, with codebooks and latents. Raises as ``quantise``.

    Args:
        features: [N, D] of the items' texts, finite.
        collaborative: [N, ``dim``] item vectors of a recommender trained on train interactions alone, finite.
        fit_rows: [N] rows the tokenizer is fitted on, in both its inputs; all rows are encoded, from their features.
    """
    fitted = np.ascontiguousarray(collaborative[fit_rows], dtype=np.float32)
    if not np.isfinite(fitted).all():
        raise DataFault("the collaborative vectors are not finite numbers", hint="lower the recommender's rate `lr`")
    terms = LetterTerms(torch.from_numpy(fitted).to(device), config, seed=seed, progress=progress)
    table = quantise(features, config, seed=seed, device=device, progress=progress, fit_rows=fit_rows, extra=terms)
    progress.note("sids_alignment_loss", terms.last["alignment"])
    progress.note("sids_diversity_loss", terms.last["diversity"])
    return table
