"""Training TRACER's φ: temperature, forget gradient, mask, step; and the report of what was moved."""

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
from genrec_unlearn_bench.unlearning.losses.suppression import Losses, SuppressionConfig, masked_mean
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.tokens.discretise import Reassignment
from genrec_unlearn_bench.unlearning.tokens.latents import scrubbed_latents
from genrec_unlearn_bench.unlearning.tokens.soft_tokens import (
    MaskedAdam,
    MaskedSgd,
    SoftTokens,
    anneal,
    gap_units,
    normalised_entropy,
    retain_frequencies,
    update_mask,
)

__all__ = ["PhiTrainer", "ReassignmentConfig", "note_reassignment"]


class ReassignmentConfig(SuppressionConfig):
    """How φ is trained. Defaults are the paper's unless a field says otherwise."""

    phi_lr: float = Field(default=1e-2, gt=0, json_schema_extra={"search": [1e-2, 3e-2, 1e-1]})
    """Learning rate of φ, in the units of the distances."""
    phi_optimizer: Literal["adam", "sgd"] = "adam"
    """Masked Adam, or the plain masked descent of the paper's lemma."""
    lambda_reg: float = Field(default=0.08, ge=0)
    """λ3, weight of mean |φ|; 0 is the ablation without it."""
    temperature_start: float = Field(default=2.0, gt=0)
    """Softmax temperature at the first step."""
    temperature_end: float = Field(default=0.1, gt=0)
    """Softmax temperature at the last step. The paper's other value is the ablation temperature_units=raw,
    temperature_start=temperature_end=0.005."""
    temperature_units: Literal["gap", "raw"] = "gap"
    """Distances in units of σ_l (R1), or as they are (the temperatures as printed)."""
    entropy_gate: bool = True
    """Refuse to start where q is one-hot or uniform and φ would get no signal (R1)."""
    mask: Literal["on", "off", "overlap-only"] = "on"
    """Eq. 9; off and overlap-only are ablations (R7)."""
    forget_target: Literal["both", "orig", "soft"] = "both"
    """What φ learns from: soft targets, the original SID through histories, or both (R2)."""
    rho: Literal["items", "interactions"] = "items"
    """Overlap frequencies over the retain catalogue, or weighted by interactions (R5)."""
    recompute_residuals: bool = False
    """Measure deeper levels along the codes φ prefers, not the original ones (R11)."""
    latents: Literal["original", "scrubbed"] = "original"
    """Latents behind the distances: the tokenizer's own, or moved to the scrubbed texts (R15)."""


class PhiTrainer:
    """φ of all concept items, its mask and its optimiser."""

    def __init__(
        self,
        config: ReassignmentConfig,
        request: ForgetRequest,
        table: SidTable,
        offsets: Sequence[int],
        device: torch.device,
    ) -> None:
        self.config = config
        self._offsets = tuple(offsets)
        self._table = scrubbed_latents(table, request.features) if config.latents == "scrubbed" else table
        gap = config.temperature_units == "gap"
        self._units = gap_units(self._table) if gap else [1.0] * table.quantised_levels
        self.tokens = SoftTokens.start(self._table, request.items, self._units, device)
        self._content = torch.from_numpy(table.quantised_codes >= 0)
        retain = np.flatnonzero(~request.items)
        if config.rho == "interactions":
            retain = request.train.retain.targets
        self._rho = [rho.float().to(device) for rho in retain_frequencies(table, retain)]
        make = MaskedAdam if config.phi_optimizer == "adam" else MaskedSgd
        self._optimizer = make(self.tokens.phi, config.phi_lr)
        self._gradients: list[Tensor] = []
        self._masks: list[Tensor] = []

    def weights(self, step: int, total: int, progress: Progress) -> tuple[Tensor, ...]:
        """q_φ at the step's temperature; at step 0 the entropy gate.

        Raises:
            BenchError: q is one-hot or uniform at the start, so that φ could not learn.
        """
        config = self.config
        if config.recompute_residuals and step:
            self.tokens.follow_codes(self._table, self._units)
        weights = self.tokens.assignment(anneal(config.temperature_start, config.temperature_end, step, total))
        if step == 0:
            entropy = normalised_entropy(weights)
            progress.note("entropy_at_start", entropy)
            if config.entropy_gate and not 1e-3 <= entropy <= 0.98:
                raise BenchError(
                    f"the soft tokens are {'one-hot' if entropy < 0.5 else 'uniform'} at the start "
                    f"(normalised entropy {entropy:.4f}): φ would get no signal",
                    where=f"temperature_start={config.temperature_start} in {config.temperature_units} units",
                    hint="use temperature_units=gap, another temperature_start, or entropy_gate=false to run it anyway",
                )
        return weights

    def backward(self, losses: Losses, forget: Examples, weights: tuple[Tensor, ...]) -> dict[str, float]:
        """Gradients of network and φ, and the mask; returns what is worth logging."""
        config, phi = self.config, self.tokens.phi
        soft = self._soft_forget(losses, forget, weights)
        through_history = _gradients(losses.forget, phi)
        through_target = _gradients(soft, phi)
        for level in phi:
            level.grad = None
        (losses.total(config) + config.lambda_reg * self.tokens.regulariser()).backward()  # type: ignore[no-untyped-call]
        # The network's own loss already carries λ1 L_F through the histories; the other path is added, or that one
        # taken away, as `forget_target` asks.
        history, target = config.forget_target in ("both", "orig"), config.forget_target in ("both", "soft")
        self._gradients, forget_gradient = [], []
        for level, h, t in zip(phi, through_history, through_target, strict=True):
            whole = torch.zeros_like(level) if level.grad is None else level.grad
            self._gradients.append(whole + config.lambda_forget * (target * t - (not history) * h))
            forget_gradient.append(history * h + target * t)
        self._masks = update_mask(weights, self._rho, forget_gradient, config.mask)
        return {
            "soft_forget": float(soft.detach()),
            "phi": float(self.tokens.regulariser().detach()),
            "phi_gradient": float(torch.cat([g.flatten() for g in self._gradients]).norm()),
            "mask_on": float(torch.cat([m.flatten() for m in self._masks]).mean()),
            "entropy": normalised_entropy(weights),
        }

    def _soft_forget(self, losses: Losses, forget: Examples, weights: tuple[Tensor, ...]) -> Tensor:
        """mean_l Σ_k q[i,l,k] · sg[log p(k | H_f, s_i^<l)]: φ's own forget loss, network detached (R2)."""
        output = losses.forget_output
        log_probs = output.logits.detach().log_softmax(-1)
        rows = self.tokens.row_of_item[torch.from_numpy(forget.targets).to(log_probs.device)]
        terms = []
        for level, q in enumerate(weights):
            start = self._offsets[level]
            terms.append((q[rows] * log_probs[:, level, start : start + q.shape[1]]).sum(-1))
        content = self._content[torch.from_numpy(forget.targets)].to(log_probs.device)
        return masked_mean(torch.stack(terms, dim=1), content)

    def step(self) -> None:
        """The masked update of φ."""
        self._optimizer.step(self._gradients, self._masks)

    def final_scores(self) -> list[NDArray[np.float32]]:
        """−D + φ by level, [n, K_l]."""
        return [level.cpu().numpy() for level in self.tokens.scores()]


def note_reassignment(progress: Progress, before: SidTable, outcome: Reassignment, concept: BoolArray) -> None:
    """Write what the reassignment did into the run's report."""
    progress.note("items_moved", outcome.moved)
    progress.note("items_moved_share", outcome.moved / max(int(concept.sum()), 1))
    progress.note("items_moved_by_level", list(outcome.moved_by_level))
    progress.note("collisions_avoided", outcome.collisions)
    progress.note("candidates_exhausted", outcome.exhausted)
    progress.note("overlap_before", overlap(before, concept).quantised)
    progress.note("overlap_after", overlap(outcome.table, concept).quantised)


def _gradients(loss: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """∂loss/∂φ, zeros where the loss does not depend on it (a batch without concept items in its histories)."""
    if not loss.requires_grad:
        return [torch.zeros_like(p) for p in parameters]
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
