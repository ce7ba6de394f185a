"""LETTER's tokenizer (Wang et al. 2024, "Learnable item tokenization for generative recommendation", arXiv 2405.07314).

An RQ-VAE over text features whose loss has two terms more (sec. 3.2). Collaborative regularisation draws an item's
quantised vector to its frozen collaborative vector; diversity regularisation draws codewords of one cluster together,
so that no codeword is left alone and codes are used evenly. Deviations beyond those of ``sids.rqvae``: codebooks start
from k-means that leaves no codeword empty, not from size-constrained k-means; gradients are clipped; another member of
a codeword's cluster is drawn in one step, not by trying; re-encoding as ``sids.quantise.resolve_collisions`` says;
with ``clustering="batched"`` the assignments of a clustering are within its bounds but not quite the cheapest."""

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
_RUNS = 10


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


def batched_clusters(
    books: Tensor, clusters: int, *, lower: int, upper: int, iterations: int, generator: torch.Generator
) -> Tensor:
    """[L, K] clusters of ``lower`` to ``upper`` codewords of each of L codebooks [L, K, D], worked out where they are.

    K-means from k-means++ seeds for all codebooks and ten runs at once (as many as officially); of the runs each
    codebook keeps the one with the least sum of squared distances. ``generator`` is the CPU's.
    """
    noise = torch.empty(_RUNS, *books.shape[:2], clusters).exponential_(generator=generator).to(books.device)
    points, races = books.float().repeat(_RUNS, 1, 1), noise.flatten(0, 1)
    every = torch.arange(len(points), device=points.device)[:, None]
    seeds = races[..., :1].argmin(1)
    for step in range(1, clusters):
        weights = torch.cdist(points, points[every, seeds]).amin(2).square()
        # A point has the least ratio of exponential noise to weight with a chance in proportion to its weight.
        seeds = torch.cat([seeds, (races[..., step] / weights).argmin(1, keepdim=True)], 1)
    centres = points[every, seeds]
    for _ in range(iterations):
        distances = torch.cdist(points, centres).square()
        labels = bounded_assignment(distances, lower=lower, upper=upper)
        member = members(labels, clusters).to(points)
        centres = member.mT @ points / member.sum(1)[..., None]
    best = distances.take_along_dim(labels[..., None], 2).sum((1, 2)).view(_RUNS, -1).argmin(0)
    return labels.view(noise.shape[:3])[best, torch.arange(len(books), device=best.device)]


def members(labels: Tensor, columns: int) -> Tensor:
    """[B, n, C] whether each row is in each of so many columns, from the rows' columns [B, n]."""
    return labels[..., None] == torch.arange(columns, device=labels.device)


def bounded_assignment(distances: Tensor, *, lower: int, upper: int) -> Tensor:
    """[B, n] column of each row of B matrices [B, n, C]: the nearest, but each column gets ``lower`` to ``upper`` rows.

    A column with too many keeps the rows whose next choice is the worst for them and is closed to the others, which
    choose again; then one with too few takes the rows that cost least to move from those that can spare them. Either
    ends after C rounds at most.
    """

    def places(labels: Tensor, merits: Tensor) -> Tensor:
        """[B, n] place from 0 of each row in its column, the largest merit first."""
        order = merits.argsort(dim=1, descending=True, stable=True)
        order = order.gather(1, labels.gather(1, order).argsort(dim=1, stable=True))
        sizes = members(labels, distances.shape[2]).sum(1)
        return order.argsort(dim=1) - (sizes.cumsum(1) - sizes).gather(1, labels)

    costs, labels = distances, distances.argmin(2)
    while bool((member := members(labels, distances.shape[2])).sum(1).amax() > upper):
        gains = costs.masked_fill(member, torch.inf).amin(2) - costs.take_along_dim(labels[..., None], 2)[..., 0]
        kept = member & (places(labels, gains) < upper)[..., None]
        costs = costs.masked_fill((member & ~kept).any(1, keepdim=True) & ~kept, torch.inf)
        labels = costs.argmin(2)
    while bool((sizes := members(labels, distances.shape[2]).sum(1)).amin() < lower):
        least, column = sizes.min(1, keepdim=True)
        losses = distances.take_along_dim(column[..., None], 2) - distances.take_along_dim(labels[..., None], 2)
        spare = places(labels, -losses[..., 0]) < (sizes - lower).gather(1, labels)
        order = losses[..., 0].masked_fill(~spare, torch.inf).argsort(dim=1, stable=True)
        labels = torch.where(order.argsort(dim=1) < lower - least, column, labels)
    return labels


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
        self._last = (torch.zeros(()), torch.zeros(()))

    @property
    def last(self) -> dict[str, float]:
        """The two terms of the last step; a GPU is waited for when they are read, not at each step."""
        alignment, diversity = map(float, self._last)
        return {"alignment": alignment, "diversity": diversity}

    def start_epoch(self, model: RqVae, epoch: int) -> None:
        """Cluster the codebooks anew every ``recluster_epochs`` epochs."""
        if epoch % self.config.recluster_epochs:
            return
        if epoch:
            self.progress.log("sids.letter", epoch, self.last)
        lower, upper = self.config.cluster_bounds
        shape = {"lower": lower, "upper": upper, "iterations": _ITERATIONS}
        if self.config.clustering == "batched":
            books = torch.stack([book.detach() for book in model.codebooks])
            generator = torch_generator(self.seed, "sids", "letter", "clusters", epoch)
            found = batched_clusters(books, self.config.clusters, generator=generator, **shape)
            self.clusters = [CodeClusters(labels) for labels in found]
            return
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
        self._last = alignment.detach(), diversity.detach()
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
