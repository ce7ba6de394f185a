"""ELM's training targets from expert and novice distributions, and their loss (arXiv 2410.02760, sec. 4)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import SidVocabulary, StepOutput


def tempered(log_probs: Tensor, temperature: float) -> Tensor:
    """[..., K] log-probabilities at another temperature, in float64 as ELM computes its targets."""
    return (log_probs.double() / temperature).log_softmax(-1)


def guided_targets(
    base: Tensor, expert: Tensor, novice: Tensor, forgotten: Tensor, *, eta: float, top: int, floor: float = 0.0
) -> Tensor:
    """[..., K] softmax over the ``top`` largest of log p0 - eta (log p+ - log p-).

    Args:
        base, expert, novice: [..., K] log-probabilities; -inf where ``base`` has no code.
        forgotten: [...] long, the forget target's code (negative if it has none).
        floor: Codes less likely under ``base`` than this share of the likeliest code other than ``forgotten`` are
            excluded; 0 excludes none. ``forgotten`` does not set the threshold: a model that is sure of it would leave
            no other code, and the target would be the code to forget.
    """
    legal = base > -torch.inf
    contrast = expert.masked_fill(~legal, 0.0) - novice.masked_fill(~legal, 0.0)
    scores = base - eta * contrast
    if floor:
        others = base.scatter(-1, forgotten.clamp_min(0)[..., None], -torch.inf)
        likely = base >= others.amax(-1, keepdim=True) + math.log(floor)
        scores = scores.masked_fill(~likely, -torch.inf)
    best = scores.topk(min(top, scores.shape[-1]), dim=-1)
    kept = torch.full_like(scores, -torch.inf).scatter(-1, best.indices, best.values)
    return kept.softmax(-1)


def soft_cross_entropy(output: StepOutput, targets: Tensor, vocabulary: SidVocabulary) -> Tensor:
    """Scalar: cross-entropy with ``targets`` [R, L, K] over each level's codes, mean over positions with a target.

    The model's distribution is over the full vocabulary, so mass outside the level is penalised.
    """
    values = []
    for level, (first, size) in enumerate(zip(vocabulary.offsets, vocabulary.level_sizes, strict=True)):
        logits = output.logits[:, level].float()
        gap = logits.logsumexp(-1, keepdim=True) - logits[:, first : first + size]
        values.append((targets[:, level, :size].to(gap.dtype) * gap).sum(-1))
    return torch.stack(values).sum() / (targets.sum(-1) > 0).sum().clamp_min(1)
