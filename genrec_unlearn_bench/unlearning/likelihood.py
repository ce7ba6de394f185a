"""Likelihoods and distributions of target tokens, as used in the methods' losses.

Three quantities, because the methods' definitions differ: the mean over tokens (comparable between L = 3 and L = 4),
the sum over a sequence (NPO, SimNPO, BLUR), and the distribution over the codes of one level (ELM, SCRUB, KL: over the
full vocabulary 32,000 unused text tokens would dominate).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.backbones.recommender import SidVocabulary, StepOutput


def token_nll(output: StepOutput) -> Tensor:
    """Scalar: mean negative log-likelihood over all real target tokens, softmax over the full vocabulary."""
    return -output.mean(output.token_log_probs())


def sequence_nll(output: StepOutput) -> Tensor:
    """[R] sum of the target tokens' negative log-likelihoods, in nats (SIDs have no EOS token)."""
    return -output.token_log_probs().sum(1)


def npo_loss(nll: Tensor, reference: Tensor, beta: float) -> Tensor:
    """Scalar, NPO's eq. 3 (Zhang et al. 2024, arXiv 2404.05868): −(2/β) mean log σ(−β log(p/p0)).

    It starts at 2 log 2 / β and approaches 0 as the answers become unlikely; its gradient is that of gradient ascent
    times 2σ(β log(p/p0)), so it vanishes for answers that are already unlikely.

    Args:
        nll: [R] sequence sums under the student, in nats (``sequence_nll``).
        reference: [R] the same under the original; no gradient.
        beta: Inverse temperature; gradient ascent in the limit 0.
    """
    return -2 / beta * F.logsigmoid(beta * (nll - reference)).mean()


def target_lengths(output: StepOutput) -> Tensor:
    """[R] number of real tokens of each target."""
    if output.mask is None:
        return output.labels.new_full((len(output.labels),), output.labels.shape[1])
    return output.mask.sum(1)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Scalar: mean of the values where ``mask`` is True; 0 where it is nowhere."""
    if bool(mask.all()):
        return values.mean() if values.numel() else values.new_zeros(())
    return (values * mask).sum() / mask.sum().clamp_min(1)


def level_log_probs(output: StepOutput, vocabulary: SidVocabulary, *, raw: bool = False) -> Tensor:
    """[R, L, K] log-softmax over the codes of each target position's own level; -inf beyond a smaller level's size.

    Args:
        raw: Logits instead, which are defined up to a constant per position.
    """
    widest = max(vocabulary.level_sizes)
    levels = []
    for level, (first, size) in enumerate(zip(vocabulary.offsets, vocabulary.level_sizes, strict=True)):
        values = output.logits[:, level, first : first + size]
        values = values if raw else values.log_softmax(-1)
        levels.append(F.pad(values, (0, widest - size), value=-torch.inf))
    return torch.stack(levels, 1)


def level_kl(teacher: Tensor, student: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Scalar: KL(teacher ‖ student) in nats, mean over real target positions.

    Args:
        teacher, student: [R, L, K] log-probabilities (``level_log_probs``); gradients flow through both.
        mask: [R, L] ``StepOutput.mask``.
    """
    legal = teacher > -torch.inf
    gap = teacher.masked_fill(~legal, 0.0) - student.masked_fill(~legal, 0.0)
    values = (teacher.exp() * gap).sum(-1)
    return values.mean() if mask is None else (values * mask).sum() / mask.sum().clamp_min(1)
