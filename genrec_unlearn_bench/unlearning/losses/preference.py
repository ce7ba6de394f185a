"""Preference losses with only a losing answer: NPO (also used by BLUR) and SimNPO."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


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


def simnpo_loss(nll: Tensor, lengths: Tensor, beta: float, delta: float) -> Tensor:
    """Scalar, SimNPO (Fan et al. 2024, arXiv 2410.07163): −(2/β) mean log σ(β(NLL/|y| − δ)).

    Args:
        nll: [R] sequence sums under the student, in nats.
        lengths: [R] |y|, real tokens of each answer.
        delta: Margin in nats per token (the paper's γ is βδ).
    """
    return -2 / beta * F.logsigmoid(beta * (nll / lengths - delta)).mean()
