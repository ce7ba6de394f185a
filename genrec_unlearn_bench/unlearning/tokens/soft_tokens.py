"""TRACER's soft tokenizer and the training of its learnable perturbation φ: temperature, gradients, mask, step.

Numbers R1 … are choices where the paper is ambiguous, listed in docs/methods.md; D[i,l,k] = ‖r_i^l − c_k^l‖².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import SoftSids
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.likelihood import masked_mean
from genrec_unlearn_bench.unlearning.losses.suppression import Losses, UnlearningLossConfig
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.search import Search


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

    def assignment_logits(self) -> list[NDArray[np.float32]]:
        """−D + φ: Q arrays [n, K_l], for discretisation."""
        return [(phi - level).detach().cpu().numpy() for phi, level in zip(self.phi, self.distances, strict=True)]

    def regulariser(self, reduction: Literal["mean", "sum"] = "mean") -> Tensor:
        """L_reg (eq. 6): |φ| summed over levels and codes, then the mean over items or the paper's sum (R12).

        Not a mean over all entries: it would divide λ3 by L·K, and no φ would feel it.
        """
        total = torch.stack([phi.abs().sum() for phi in self.phi]).sum()
        return total if reduction == "sum" else total / max(len(self.items), 1)


def normalised_entropy(assignment_probs: Sequence[Tensor]) -> float:
    """Mean over items and levels of H(q) / log K, in [0, 1]."""
    levels = [-(q * q.clamp_min(1e-30).log()).sum(-1).mean() / np.log(q.shape[-1]) for q in assignment_probs]
    return float(torch.stack(levels).mean().detach())


def update_mask(
    assignment_probs: Sequence[Tensor], rho: Sequence[Tensor], forget_gradient: Sequence[Tensor], kind: str
) -> list[Tensor]:
    """M = 1[ρ_l(k) > E_q ρ_l] · 1[∂L_F/∂φ > 0] (eq. 11), as Q float tensors [n, K_l].

    ``kind`` is ``on``, or an ablation: ``off`` (all ones) or ``overlap-only`` (first factor alone).
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
        self._first, self._second, self._count = ([torch.zeros_like(p) for p in self.parameters] for _ in range(3))

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


class ReassignmentConfig(UnlearningLossConfig):
    """Training of φ. Defaults are the paper's unless a field says otherwise."""

    search = Search(phi_lr=(0.03, 0.1, 0.3, 1.0), lambda_reg=(0.008, 0.08, 0.8))

    phi_lr: float = Field(default=0.1, ge=0)
    """Learning rate of φ, in units of the distances: Adam moves a coordinate by about this much a step, and the nearest
    other codeword is at a median of 1 in units of the gap. The paper's 0.01 is for raw distances. 0 keeps φ at 0."""
    phi_optimizer: Literal["adam", "sgd"] = "adam"
    """Masked Adam (R6), or the masked gradient descent of the paper's lemma."""
    lambda_reg: float = Field(default=0.08, ge=0)
    """λ3, weight of |φ| (summed over levels and codes, mean over items); 0 is the ablation without it."""
    temperature_start: float = Field(default=2.0, gt=0)
    """Softmax temperature at the first step."""
    temperature_end: float = Field(default=0.1, gt=0)
    """Softmax temperature at the last step. The paper's other value, 0.005, is the variant tracer-raw-fixed."""
    temperature_units: Literal["gap", "raw"] = "gap"
    """Distances in units of σ_l (R1), or unscaled (temperatures as printed in the paper)."""
    entropy_gate: bool = True
    """Refuse to start if q is one-hot or uniform, so that φ would get no gradient (R1)."""
    mask: Literal["on", "off", "overlap-only"] = "on"
    """The mask of eq. 11; off and overlap-only are ablations (R7)."""
    forget_target: Literal["both", "orig", "soft"] = "both"
    """Forget losses of φ: soft targets (soft), the original SID through histories (orig), or both (R2)."""
    rho: Literal["items", "interactions"] = "items"
    """Overlap frequencies ρ over the retain catalogue, or weighted by interactions (R5)."""
    recompute_residuals: bool = False
    """Compute residuals of deeper levels along the codes φ prefers, not the original ones (R11)."""
    latents: Literal["original", "scrubbed"] = "original"
    """Latents for the distances: the tokenizer's own, or those of the scrubbed texts (R15)."""


class PhiTrainer:
    """φ of all concept items with its mask and optimiser."""

    def __init__(
        self,
        config: ReassignmentConfig,
        request: ForgetRequest,
        table: SidTable,
        offsets: Sequence[int],
        device: torch.device,
    ) -> None:
        self.config, self._offsets = config, tuple(offsets)
        self._table = scrubbed_latents(table, request.features) if config.latents == "scrubbed" else table
        gap = config.temperature_units == "gap"
        self._scale = distance_scale(self._table) if gap else [1.0] * table.quantised_levels
        self.tokens = SoftTokens.start(self._table, request.items, self._scale, device)
        self._content = torch.from_numpy(table.quantised_codes >= 0)
        self._forget_size = len(request.train.forget)
        interactions = config.rho == "interactions"
        retain = request.train.retain.targets if interactions else np.flatnonzero(~request.items)
        self._rho = [rho.float().to(device) for rho in retain_frequencies(table, retain)]
        make = MaskedAdam if config.phi_optimizer == "adam" else MaskedSgd
        self._optimizer = make(self.tokens.phi, config.phi_lr)
        self._gradients: list[Tensor] = []
        self._masks: list[Tensor] = []

    def assignment_probs(self, step: int, total: int, progress: Progress) -> tuple[Tensor, ...]:
        """q_φ at the step's temperature. Step 0 notes the entropy; raises BenchError if q is one-hot or uniform."""
        config = self.config
        if config.recompute_residuals and step:
            self.tokens.follow_codes(self._table, self._scale)
        temperature = anneal(config.temperature_start, config.temperature_end, step, total)
        probs = self.tokens.assignment_probs(temperature)
        if step == 0:
            entropy = normalised_entropy(probs)
            progress.note("entropy_at_start", entropy)
            if config.entropy_gate and not 1e-3 <= entropy <= 0.98:
                raise BenchError(
                    f"the soft tokens are {'one-hot' if entropy < 0.5 else 'uniform'} at the start "
                    f"(normalised entropy {entropy:.4f}): φ would get no gradient",
                    where=f"temperature_start={config.temperature_start} in {config.temperature_units} units",
                    hint="use temperature_units=gap, another temperature_start, or entropy_gate=false to run it anyway",
                )
        return probs

    def backward(self, losses: Losses, forget: Examples, probs: tuple[Tensor, ...]) -> dict[str, float]:
        """Compute the gradients of network and φ and the mask; returns values for the log."""
        config, phi = self.config, self.tokens.phi
        soft = self._phi_forget_loss(losses, forget, probs)
        grad_via_history = _gradients(losses.forget, phi)
        grad_via_target = _gradients(soft, phi)
        for level in phi:
            level.grad = None
        penalty = self.tokens.regulariser(config.reduction)
        (losses.total(config) + config.lambda_reg * penalty).backward()  # type: ignore[no-untyped-call]
        # The network's loss already contains λ1 L_F through the histories; `forget_target` adds the path through the
        # target, or removes the one through the histories.
        history, target = config.forget_target in ("both", "orig"), config.forget_target in ("both", "soft")
        self._gradients, forget_gradient = [], []
        for level, h, t in zip(phi, grad_via_history, grad_via_target, strict=True):
            whole = torch.zeros_like(level) if level.grad is None else level.grad
            self._gradients.append(whole + config.lambda_forget * (target * t - (not history) * h))
            forget_gradient.append(history * h + target * t)
        self._masks = update_mask(probs, self._rho, forget_gradient, config.mask)
        return {
            "soft_forget": float(soft.detach()),
            "phi": float(penalty.detach()),
            "phi_gradient": float(torch.cat([g.flatten() for g in self._gradients]).norm()),
            "mask_on": float(torch.cat([m.flatten() for m in self._masks]).mean()),
            "entropy": normalised_entropy(probs),
        }

    def _phi_forget_loss(self, losses: Losses, forget: Examples, probs: tuple[Tensor, ...]) -> Tensor:
        """Forget loss of φ: mean_l Σ_k q[i,l,k] · sg[log p(k | H_f, s_i^<l)], the network detached (R2)."""
        output = losses.forget_output
        log_probs = output.logits.detach().log_softmax(-1)
        rows = self.tokens.row_of_item[torch.from_numpy(forget.targets).to(log_probs.device)]
        terms = []
        for level, (q, start) in enumerate(zip(probs, self._offsets, strict=False)):
            terms.append((q[rows] * log_probs[:, level, start : start + q.shape[1]]).sum(-1))
        content = self._content[torch.from_numpy(forget.targets)].to(log_probs.device)
        values = torch.stack(terms, dim=1)
        if self.config.reduction == "sum":
            return (values * content).sum() * self._forget_size / len(forget)
        return masked_mean(values, content)

    def step(self) -> None:
        self._optimizer.step(self._gradients, self._masks)


def _gradients(loss: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """∂loss/∂φ; zeros if the loss does not depend on φ (no concept items in the batch's histories)."""
    if not loss.requires_grad:
        return [torch.zeros_like(p) for p in parameters]
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
