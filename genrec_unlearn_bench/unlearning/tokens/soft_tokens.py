"""TRACER's soft tokenizer: distances, the learnable perturbation φ, its mask and its optimisers.

Numbers R1 … are choices where the paper is ambiguous, listed in docs/tracer.md; D[i,l,k] = ‖r_i^l − c_k^l‖².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import SoftSids
from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.sids.table import SidTable


def anneal(start: float, end: float, step: int, total: int) -> float:
    """Interpolate exponentially from ``start`` (step 0) to ``end`` (step total - 1)."""
    if total <= 1:
        return end
    return float(start * (end / start) ** (min(step, total - 1) / (total - 1)))


def distance_scale(table: SidTable) -> list[float]:
    """σ_l: median over all items of (second smallest − smallest) squared distance at level l (R1).

    The paper gives temperatures of 2.0, 0.1 and 0.005 without the scale of its latents; in units of σ_l a temperature
    means the same for every tokenizer.
    """
    out = []
    for level, measured in enumerate(table.distances(np.arange(len(table)))):
        own = table.quantised_codes[:, level] >= 0
        distances = measured[own] if own.any() else measured
        nearest = np.partition(distances, 1, axis=1)[:, :2] if distances.shape[1] > 1 else distances
        gap = float(np.median(nearest[:, -1] - nearest[:, 0]))
        out.append(gap if gap > 0 else max(float(np.mean(nearest)), 1e-12))
    return out


def scrubbed_latents(table: SidTable, features: ItemFeatures) -> SidTable:
    """Move a table's latents to those of the scrubbed texts, for tokenizers whose encoder is unavailable (R15).

    z_i + W (scrubbed_i − plain_i), with W the least-squares map from plain features to latents. Exact for residual
    k-means, whose latents are linear in the features; a first-order approximation for an RQ-VAE. Codes are unchanged.
    Raises ValueError for a table without latents.
    """
    if table.latents is None:
        raise ValueError("this table has no latents")
    ones = np.ones((len(table), 1), dtype=np.float64)
    design = np.concatenate([features.plain.astype(np.float64), ones], axis=1)
    solution, *_ = np.linalg.lstsq(design, table.latents.astype(np.float64), rcond=None)
    shift = (features.scrubbed - features.plain).astype(np.float64) @ solution[:-1]
    return replace(table, latents=(table.latents + shift).astype(np.float32))


def retain_frequencies(table: SidTable, retain_items: IntArray) -> list[Tensor]:
    """ρ_l(k): share of the given items (one entry per item or per interaction, R5) whose level-l code is k."""
    return [
        torch.from_numpy(np.bincount(column[column >= 0], minlength=size) / max(len(retain_items), 1))
        for column, size in zip(table.quantised_codes[retain_items].T, table.quantised_sizes, strict=True)
    ]


@dataclass(eq=False)
class SoftTokens:
    """q_φ(s_i^l = k) = softmax((−D[i,l,k] + φ[i,l,k]) / τ) for the n concept items (eq. 6).

    Attributes:
        items: [n] concept items.
        distances: Q tensors [n, K_l], squared distances along the original codes, divided by the distance scale.
        phi: Q leaf tensors [n, K_l], initially zero, the unperturbed tokenizer (R13).
        row_of_item: [N] row of each item, -1 for retain items.
    """

    items: IntArray
    distances: list[Tensor]
    phi: list[Tensor]
    row_of_item: Tensor

    @classmethod
    def start(cls, table: SidTable, concept: BoolArray, scale: Sequence[float], device: torch.device) -> SoftTokens:
        """φ = 0 on the concept items of ``table``, with distances divided by ``scale`` [Q]."""
        items = np.flatnonzero(concept).astype(np.int64)
        distances = [
            torch.from_numpy(level / unit).float().to(device)
            for level, unit in zip(table.distances(items), scale, strict=True)
        ]
        rows = torch.full((len(table),), -1, dtype=torch.long)
        rows[torch.from_numpy(items)] = torch.arange(len(items))
        phi = [torch.zeros_like(level, requires_grad=True) for level in distances]
        return cls(items, distances, phi, rows.to(device))

    def follow_codes(self, table: SidTable, scale: Sequence[float]) -> None:
        """Recompute each level's distances from residuals along the codes that φ now prefers (R11)."""
        if table.codebooks is None or table.latents is None:
            raise ValueError("this table has no codebooks")
        residual = torch.from_numpy(table.latents[self.items]).to(self.distances[0].device)
        for level, book in enumerate(table.codebooks):
            words = torch.from_numpy(book).to(residual.device)
            self.distances[level] = torch.cdist(residual, words).square() / scale[level]
            preferred = words[(self.phi[level].detach() - self.distances[level]).argmax(1)]
            ended = torch.from_numpy(table.quantised_codes[self.items, level] < 0).to(residual.device)
            residual = residual - preferred.masked_fill(ended[:, None], 0.0)

    def assignment_probs(self, temperature: float) -> tuple[Tensor, ...]:
        """q_φ: Q tensors [n, K_l], differentiable in φ."""
        return tuple(
            ((phi - distance) / temperature).softmax(-1) for phi, distance in zip(self.phi, self.distances, strict=True)
        )

    def soft_sids(self, assignment_probs: tuple[Tensor, ...]) -> SoftSids:
        """The assignment in the form that ``Recommender.encode`` takes."""
        return SoftSids(self.row_of_item, assignment_probs)

    def assignment_logits(self) -> list[Tensor]:
        """−D + φ: Q tensors [n, K_l], for discretisation."""
        return [(phi - distance).detach() for phi, distance in zip(self.phi, self.distances, strict=True)]

    def regulariser(self) -> Tensor:
        """L_reg (eq. 6) as mean |φ|: the paper's sum over |I_c|·L·K entries would dominate every other term (R12)."""
        return torch.cat([phi.abs().flatten() for phi in self.phi]).mean()


def normalised_entropy(assignment_probs: Sequence[Tensor]) -> float:
    """Mean over items and levels of H(q) / log K, in [0, 1]."""
    levels = [-(q * q.clamp_min(1e-30).log()).sum(-1).mean() / np.log(q.shape[-1]) for q in assignment_probs]
    return float(torch.stack(levels).mean().detach())


def update_mask(
    assignment_probs: Sequence[Tensor], rho: Sequence[Tensor], forget_gradient: Sequence[Tensor], kind: str
) -> list[Tensor]:
    """M = 1[ρ_l(k) > E_q ρ_l] · 1[∂L_F/∂φ > 0] (eq. 11), as Q float tensors [n, K_l].

    Args:
        kind: ``on``, or an ablation: ``off`` (all ones) or ``overlap-only`` (first factor alone).
    """
    if kind == "off":
        return [torch.ones_like(q) for q in assignment_probs]
    overlap = [
        (r[None] > (q.detach() * r[None]).sum(-1, keepdim=True)).to(q.dtype)
        for q, r in zip(assignment_probs, rho, strict=True)
    ]
    if kind == "overlap-only":
        return overlap
    return [m * (g > 0) for m, g in zip(overlap, forget_gradient, strict=True)]


class MaskedSgd:
    """Masked gradient descent, φ ← φ − η M ⊙ g: the step of the paper's lemma."""

    def __init__(self, parameters: Sequence[Tensor], lr: float) -> None:
        self.parameters, self.lr = list(parameters), lr

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], masks: Sequence[Tensor]) -> None:
        for parameter, gradient, mask in zip(self.parameters, gradients, masks, strict=True):
            parameter.sub_(self.lr * mask * gradient)


class MaskedAdam:
    """Adam (betas 0.9 and 0.999) whose masked coordinates do not move and keep their moments (R6).

    With ordinary Adam, momentum would keep moving a coordinate whose mask is now 0, which the lemma excludes. Every
    coordinate counts its own steps for the bias correction.
    """

    def __init__(self, parameters: Sequence[Tensor], lr: float) -> None:
        self.parameters, self.lr = list(parameters), lr
        self._first = [torch.zeros_like(p) for p in self.parameters]
        self._second = [torch.zeros_like(p) for p in self.parameters]
        self._count = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], masks: Sequence[Tensor]) -> None:
        slow, fast = 0.9, 0.999
        for index, (parameter, gradient, mask) in enumerate(zip(self.parameters, gradients, masks, strict=True)):
            on = mask != 0
            first, second, count = self._first[index], self._second[index], self._count[index]
            count[on] += 1
            first[on] = slow * first[on] + (1 - slow) * gradient[on]
            second[on] = fast * second[on] + (1 - fast) * gradient[on].square()
            scale = (second[on] / (1 - fast ** count[on])).sqrt() + 1e-8
            direction = (first[on] / (1 - slow ** count[on])) / scale
            parameter[on] -= self.lr * direction
