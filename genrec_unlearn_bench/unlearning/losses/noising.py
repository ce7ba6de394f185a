"""RepNoise's two terms on harmful answers: the MMD between their hidden states and noise, and the ascent loss A."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.backbones.recommender import StepOutput
from genrec_unlearn_bench.unlearning.anatomy import Anatomy

KERNELS = 5

CLOSED = -1e8
"""Below any logit that a network produces: tokens that a backbone masks out of a level's softmax."""


def mmd(one: Tensor, two: Tensor) -> Tensor:
    """Scalar: squared maximum mean discrepancy of samples [n, D] and [n, D], the biased V-statistic, in float32.

    Five Gaussian kernels exp(−‖x − y‖² / b) are summed, with b = b0 · {1, 2, 4, 8, 16} and b0 a quarter of the mean
    squared distance between different points of the pooled sample (no gradient through b0). For two samples of one
    distribution it is not 0 but, in many dimensions, about 6.19 / n (every point is at distance 0 from itself): 1.55 at
    n = 4, 0.05 at n = 128. That part is noise, so small batches measure little else.
    """
    pooled = torch.cat([one, two]).float()
    squares = pooled.square().sum(1)
    # By squares and products: differences would take [2n, 2n, D].
    distances = (squares[:, None] + squares[None] - 2 * pooled @ pooled.T).clamp_min(0)
    distances = distances * ~torch.eye(len(pooled), dtype=torch.bool, device=pooled.device)
    count = len(pooled)
    narrowest = distances.detach().sum() / (count**2 - count) / 2 ** (KERNELS // 2)
    # All points coincide if a mask leaves nothing; every kernel is 1 then, whatever the width.
    narrowest = narrowest.clamp_min(torch.finfo(distances.dtype).tiny)
    kernels = torch.stack([torch.exp(-distances / (narrowest * 2**power)) for power in range(KERNELS)]).sum(0)
    n = len(one)
    return kernels[:n, :n].mean() + kernels[n:, n:].mean() - kernels[:n, n:].mean() - kernels[n:, :n].mean()


def noise_distance(
    outputs: Sequence[Tensor], mask: Tensor, generator: torch.Generator, *, fitted: bool = False
) -> Tensor:
    """Scalar: mean over layers of the MMD between a batch's outputs and draws of N(0, 1).

    Args:
        outputs: Per layer [n, L, D]; the positions of a row are concatenated.
        mask: [n, L] bool; both samples are 0 elsewhere.
        fitted: Draw with the standard deviation of the layer's outputs in this batch.
    """
    distances = []
    for layer in outputs:
        noise = torch.randn(layer.shape, generator=generator).to(layer.device)
        if fitted:
            noise = noise * layer.detach()[mask].float().std()
        distances.append(mmd(*((values * mask[..., None]).flatten(1) for values in (layer, noise))))
    return torch.stack(distances).mean()


def adversarial(body: Anatomy, harmful: StepOutput, mask: Tensor) -> Tensor:
    """Scalar A = 1 + (CE + Σ_j CE_j) / (n + 1), CE_j through the logit lens at depth j, embeddings included.

    The last depth is the network's own output, so its loss counts twice.

    Args:
        harmful: R targets with their n + 1 hidden states.
        mask: [R, L] bool, positions that count.
    """
    final = masked_nll(harmful, mask)
    closed = harmful.logits.detach()[mask] < CLOSED
    losses = [final, final]
    for layer in harmful.hidden[:-1]:
        logits = body.lens(layer[mask]).float().masked_fill(closed, CLOSED)
        losses.append(F.cross_entropy(logits, harmful.labels[mask]))
    return 1 + torch.stack(losses).sum() / len(harmful.hidden)


def masked_nll(output: StepOutput, mask: Tensor) -> Tensor:
    """Scalar: mean negative log-likelihood of the target tokens in ``mask`` [R, L]."""
    return -output.token_log_probs()[mask].mean()
