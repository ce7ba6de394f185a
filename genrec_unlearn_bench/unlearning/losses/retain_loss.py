"""The retain term R of γF + αR, as in open-unlearning's GradDiff, NPO and SimNPO.

R is the NLL of the retain examples, or the KL from the original's distributions on them. Deviation: open-unlearning
sums that KL over all positions, padding included, and the whole vocabulary; here it is a mean over real target
positions, over the codes legal there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.descent import DescentConfig, PairedBatch, Terms, backward, descend
from genrec_unlearn_bench.unlearning.likelihood import forward, level_kl, level_log_probs, mean_nll, resting, token_nll
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.search import Search
from genrec_unlearn_bench.unlearning.validation import sample

RUINED = 3.0
"""A model is called ruined if its retain NLL exceeds this multiple of the original's (docs/methods.md, R3)."""

DAMAGE_ROWS = 512


class WeightedConfig(DescentConfig):
    """Weights of the two terms, and the kind of the retain term."""

    search = Search(gamma=(0.1, 0.3, 1.0))

    gamma: float = Field(default=1.0, ge=0)
    """Weight of the forget term."""
    alpha: float = Field(default=1.0, ge=0)
    """Weight of the retain term."""
    retain_loss: Literal["nll", "kl"] = "nll"
    """Retain term: NLL of the retain examples (nll), or KL from the original's distributions on them (kl)."""


def retain_term(model: Recommender, original: Recommender, retain: Examples, kind: Literal["nll", "kl"]) -> Tensor:
    """Scalar retain term in nats, differentiable in ``model``; ``kl`` needs a forward pass of the original."""
    output = forward(model, retain)
    if kind == "nll":
        return token_nll(output)
    with resting(original):
        teacher = level_log_probs(forward(original, retain), original.vocabulary)
    return level_kl(teacher, level_log_probs(output, model.vocabulary), mask=output.mask)


def descend_weighted(
    model: Recommender,
    original: Recommender,
    request: ForgetRequest,
    config: WeightedConfig,
    forget_term: Callable[[PairedBatch], tuple[Tensor, Terms]],
    progress: Progress,
) -> None:
    """Train ``model`` with γF + αR. ``forget_term`` gives F of a batch and terms for the log.

    Each term has its own backward pass, so that one graph is in memory at a time; R is left out where α is 0.
    """

    def step(batch: PairedBatch) -> Terms:
        forget, terms = forget_term(batch)
        backward(config.gamma * forget)
        if not config.alpha:
            return terms
        retain = retain_term(model, original, batch.retain, config.retain_loss)
        backward(config.alpha * retain)
        return {**terms, "retain": retain}

    descend(model, request, config, step, progress)


def note_damage(model: Recommender, original: Recommender, request: ForgetRequest, progress: Progress) -> None:
    """Note ``retain_nll_ratio`` to the original on (at most 512) retain validation examples, and ``ruined``: whether
    it exceeds ``RUINED`` or is NaN. For methods with an unbounded loss."""
    retain = sample(request.valid, DAMAGE_ROWS, request.seed).retain
    if not len(retain):
        return
    ratio = mean_nll(model, retain) / max(mean_nll(original, retain), 1e-6)
    progress.note("retain_nll_ratio", ratio)
    progress.note("ruined", not ratio <= RUINED)
