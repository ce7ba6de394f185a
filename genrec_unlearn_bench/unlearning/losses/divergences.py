"""f-divergences in variational form, for FLAT's loss −g(P_g) + f*(g(P_u)) (arXiv 2410.11143).

For convex f, D_f(P ‖ Q) = sup_g E_P[g] − E_Q[f*(g)], f*(t) = sup_u ut − f(u). FLAT puts the probability v of an answer
through the activation g that f-GAN (arXiv 1606.00709, tables 2 and 6) pairs with f, so that f*(g(v)) is finite:

    name               f(u)                         g(v)                    f*(t)              f*(g(v))
    total-variation    |u − 1| / 2                  tanh(v) / 2             t                  tanh(v) / 2
    kl                 u log u                      v                       exp(t − 1)         exp(v − 1)
    reverse-kl         −log u                       −exp(−v)                −1 − log(−t)       v − 1
    jensen-shannon     u log u − (u+1) log (u+1)/2  log 2 − log(1+exp(−v))  −log(2 − exp t)    v + log (1+exp(−v))/2
    pearson            (u − 1)²                     v                       t²/4 + t           v²/4 + v
    neyman             (u − 1)² / u                 1 − exp(−v)             2 − 2√(1 − t)      2 − 2 exp(−v/2)
    squared-hellinger  (√u − 1)²                    1 − exp(−v)             t / (1 − t)        exp(v) − 1
    jeffrey            (u − 1) log u                v                       W + 1/W + t − 2    W = W0(exp(1 − t))

Every g and f*(g) increases with v, so the loss falls when the good answer becomes likelier and the forgotten one less
likely. Deviations from FLAT's repository: it has g = −exp(v) for reverse KL and 1 − exp(v) for Neyman and squared
Hellinger, a sign error against f-GAN that pushes the good answer down (and, except for Neyman, the forgotten one up).
Its Jeffrey uses a cubic expansion of f*; here f* is solved for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

NEWTON_STEPS = 12


@dataclass(frozen=True)
class Divergence:
    """One row of the table, g and f*; both are elementwise."""

    activation: Callable[[Tensor], Tensor]
    conjugate: Callable[[Tensor], Tensor]

    def loss(self, good: Tensor, forgotten: Tensor) -> Tensor:
        """Scalar: mean of −g(P_g) + f*(g(P_u)) over pairs of probabilities [R]."""
        return (self.conjugate(self.activation(forgotten)) - self.activation(good)).mean()


def _jeffrey_conjugate(t: Tensor) -> Tensor:
    """f*(t) = ut − (u − 1) log u where f'(u) = log u + 1 − 1/u = t; u is also its derivative (envelope theorem)."""
    with torch.no_grad():
        u = torch.ones_like(t)
        for _ in range(NEWTON_STEPS):
            # u = 1 is left of the root for t >= 0 and f' is concave, so Newton increases to the root monotonically.
            u = u + (t - u.log() - 1 + 1 / u) / (1 / u + 1 / u**2)
    return u * t - (u - 1) * u.log()


def _identity(v: Tensor) -> Tensor:
    return v


DIVERGENCES: Mapping[str, Divergence] = {
    "total-variation": Divergence(lambda v: v.tanh() / 2, _identity),
    "kl": Divergence(_identity, lambda t: (t - 1).exp()),
    "reverse-kl": Divergence(lambda v: -(-v).exp(), lambda t: -1 - (-t).log()),
    "jensen-shannon": Divergence(lambda v: math.log(2) - F.softplus(-v), lambda t: -(2 - t.exp()).log()),
    "pearson": Divergence(_identity, lambda t: t**2 / 4 + t),
    "neyman": Divergence(lambda v: 1 - (-v).exp(), lambda t: 2 - 2 * (1 - t).sqrt()),
    "squared-hellinger": Divergence(lambda v: 1 - (-v).exp(), lambda t: t / (1 - t)),
    "jeffrey": Divergence(_identity, _jeffrey_conjugate),
}
