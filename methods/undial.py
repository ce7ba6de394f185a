"""UNDIAL: self-distillation with adjusted logits (Dong et al. 2024, arXiv 2402.10052).

L = γF + αR, F = CE(q, p) on the forget targets' tokens, with q = softmax(z0 − β · onehot(y)): the original's own
distribution with the forgotten token demoted. F is at least the entropy of q, so it cannot diverge; its minimiser has
p_y = p0_y e^−β / (1 − p0_y + p0_y e^−β). The gradient is in proportion to p0_y: weakly predicted targets hardly move.
Updates all parameters (the paper also trains adapters).

The official code averages F over prompt and padding positions as well, most of which repeat the original: a hidden
retain term, with α = 0. A SID has no prompt positions, so α = 1 with the CE of as many random retain examples is the
default, and α = 0 the variant ``undial-alone``. Adaptation to SIDs: distributions are over the codes of a level, and F
is computed as KL(q ‖ p), which has the same gradient and is 0 at its minimum; ordinals and ends of trees keep the
original's distribution. β = 10 (official) removes the token at every level, the first code that retain items share
too, so β is searched from 1 and 3 is the default.

``undial-trie`` (ours) demotes codes by what is below them: q_v ∝ p0_v (1 − ρ_v + ρ_v e^−β), ρ_v being the share of
concept items among the items below code v. For β → ∞ it removes exactly what a filter removes: concept items and
prefixes that lead to nothing else. It needs concept items, so it refuses requests for single interactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.descent import PairedBatch, Search, Terms
from genrec_unlearn_bench.unlearning.likelihood import (
    content_positions,
    forward,
    level_kl,
    level_log_probs,
    reference_log_probs,
)
from genrec_unlearn_bench.unlearning.losses.retain_loss import WeightedConfig, descend_weighted
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants


class UndialConfig(WeightedConfig):
    """The weights, and how far a token is demoted."""

    search = Search(beta=(1.0, 3.0, 10.0))

    beta: float = Field(default=3.0, ge=0)
    """β, taken off the forgotten token's logit; at 3, a probability of .9 becomes .31."""
    trie: bool = False
    """Demote codes by the share of concept items below them, instead of the target's codes."""


class Undial(UnlearningMethod[UndialConfig]):
    """Self-distillation from the original with the forgotten tokens demoted."""

    name = "undial"
    Config = UndialConfig
    variants: ClassVar[Variants] = {"undial-alone": {"alpha": 0.0}, "undial-trie": {"trie": True}}
    variant_search: ClassVar[Mapping[str, Search]] = {"undial-alone": Search(gamma=None)}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        if self.config.trie and request.kind is ConceptKind.INTERACTION:
            fault = "undial-trie demotes concept items, and a request for single interactions names none"
            raise UsageError(fault, hint="run undial")
        model = recommender.clone()
        teacher = self.targets(recommender, request.train.forget, request.items)

        def forget_term(batch: PairedBatch) -> tuple[Tensor, Terms]:
            output = forward(model, batch.forget)
            wanted = teacher[torch.from_numpy(batch.forget_rows)].to(model.device)
            loss = level_kl(wanted, level_log_probs(output, model.vocabulary), mask=output.mask)
            return loss, {"forget": loss}

        descend_weighted(model, recommender, request, self.config, forget_term, progress)
        return model

    def targets(self, original: Recommender, forget: Examples, concept: BoolArray) -> Tensor:
        """[M, L, K] log q for every forget example, on the CPU."""
        log_probs = reference_log_probs(original, forget)
        if self.config.trie:
            return demoted(log_probs, concept_shares(original.sids, forget.targets, concept), self.config.beta)
        codes = torch.from_numpy(original.sids.codes[forget.targets])
        penalty = torch.zeros_like(log_probs).scatter(-1, codes.clamp_min(0)[..., None], 1.0)
        return demoted(log_probs, penalty * content_positions(original, forget)[..., None], self.config.beta)


def demoted(log_probs: Tensor, shares: Tensor, beta: float) -> Tensor:
    """[..., K] log of p0_v (1 − ρ_v + ρ_v e^−β), normalised over v; ρ in [0, 1] is ``shares``, 1 for one code and 0 for
    the others in UNDIAL's own target."""
    return (log_probs + torch.log1p(shares * float(np.expm1(-beta)))).log_softmax(-1)


def concept_shares(table: SidTable, targets: IntArray, concept: BoolArray) -> Tensor:
    """[M, L, K] share of concept items among the items below each code, given the target's codes before it.

    Codes with nothing below them count as 1: a filter leaves nothing there either.
    """
    distinct, row = np.unique(targets, return_inverse=True)
    shares = np.ones((len(distinct), table.levels, max(table.level_sizes)), dtype=np.float32)
    for place, target in enumerate(distinct):
        below = np.arange(len(table))
        for level, size in enumerate(table.level_sizes):
            codes = table.codes[below, level]
            below, codes = below[codes >= 0], codes[codes >= 0]
            total = np.bincount(codes, minlength=size)
            marked = np.bincount(codes[concept[below]], minlength=size)
            np.divide(marked, total, out=shares[place, level, :size], where=total > 0)
            below = below[codes == table.codes[target, level]]
    return torch.from_numpy(shares)[torch.from_numpy(row.ravel())]
