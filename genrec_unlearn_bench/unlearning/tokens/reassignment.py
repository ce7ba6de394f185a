"""Training of TRACER's φ (temperature, gradients, mask, step) and the notes on reassigned items.

Numbers R1 … are choices where the paper is ambiguous, listed in docs/tracer.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.data.examples import BoolArray, Examples
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.overlap import overlap
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.likelihood import masked_mean
from genrec_unlearn_bench.unlearning.losses.suppression import Losses, UnlearningLossConfig
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.tokens.discretise import Reassignment
from genrec_unlearn_bench.unlearning.tokens.soft_tokens import (
    MaskedAdam,
    MaskedSgd,
    SoftTokens,
    anneal,
    distance_scale,
    normalised_entropy,
    retain_frequencies,
    scrubbed_latents,
    update_mask,
)


class ReassignmentConfig(UnlearningLossConfig):
    """Training of φ. Defaults are the paper's unless a field says otherwise."""

    phi_lr: float = Field(default=1e-2, gt=0, json_schema_extra={"search": [1e-2, 3e-2, 1e-1]})
    """Learning rate of φ, in units of the scaled distances."""
    phi_optimizer: Literal["adam", "sgd"] = "adam"
    """Masked Adam (R6), or the masked gradient descent of the paper's lemma."""
    lambda_reg: float = Field(default=0.08, ge=0)
    """λ3, weight of mean |φ|; 0 is the ablation without it."""
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
        retain = np.flatnonzero(~request.items)
        if config.rho == "interactions":
            retain = request.train.retain.targets
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
        (losses.total(config) + config.lambda_reg * self.tokens.regulariser()).backward()  # type: ignore[no-untyped-call]
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
            "phi": float(self.tokens.regulariser().detach()),
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
        for level, q in enumerate(probs):
            start = self._offsets[level]
            terms.append((q[rows] * log_probs[:, level, start : start + q.shape[1]]).sum(-1))
        content = self._content[torch.from_numpy(forget.targets)].to(log_probs.device)
        return masked_mean(torch.stack(terms, dim=1), content)

    def step(self) -> None:
        self._optimizer.step(self._gradients, self._masks)

    def assignment_logits(self) -> list[NDArray[np.float32]]:
        """−D + φ: Q arrays [n, K_l]."""
        return [level.cpu().numpy() for level in self.tokens.assignment_logits()]


def note_reassignment(progress: Progress, before: SidTable, outcome: Reassignment, concept: BoolArray) -> None:
    """Note how many items moved and collided, and the token overlap Ω before and after."""
    progress.note("items_moved", outcome.moved)
    progress.note("items_moved_share", outcome.moved / max(int(concept.sum()), 1))
    progress.note("items_moved_by_level", list(outcome.moved_by_level))
    progress.note("collisions_avoided", outcome.collisions)
    progress.note("candidates_exhausted", outcome.fallback_items)
    progress.note("overlap_before", overlap(before, concept).quantised)
    progress.note("overlap_after", overlap(outcome.table, concept).quantised)


def _gradients(loss: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """∂loss/∂φ; zeros if the loss does not depend on φ (no concept items in the batch's histories)."""
    if not loss.requires_grad:
        return [torch.zeros_like(p) for p in parameters]
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
