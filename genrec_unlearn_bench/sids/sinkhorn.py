"""Balanced assignment by entropic optimal transport (Cuturi 2013), as MiniOneRec and LETTER use it on codes.

Distances are centred and scaled to [-1, 1] per problem, so ``epsilon`` means the same at every level. With epsilon
0.003 the kernel spans exp(+-333), which float32 cannot hold: plans are computed on logarithms, and codes, which a
tokenizer in training asks for at every step, by scaling a float64 kernel, which takes a thirtieth of the time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["centred", "log_plan", "sinkhorn_codes"]

_SMALLEST = 0.003
"""Below this epsilon the kernel's range, squared, leaves float64 (exp(+-709))."""
_FLOOR = 1e-5
"""Added to the half range, as in both official codes: equal distances give a uniform plan instead of 0/0."""


def centred(distances: Tensor) -> Tensor:
    """Distances [..., n, K] mapped to [-1, 1] by the smallest and largest of each problem."""
    high = distances.amax(dim=(-2, -1), keepdim=True)
    low = distances.amin(dim=(-2, -1), keepdim=True)
    middle = (high + low) / 2
    return (distances - middle) / (high - middle + _FLOOR)


def log_plan(distances: Tensor, *, epsilon: float, iterations: int) -> Tensor:
    """Logarithm of the plan [..., n, K] whose rows add to 1/n and whose columns add to 1/K.

    Each iteration scales columns first and rows last, so rows are exact and columns converge.
    """
    plan = -distances / epsilon
    rows, columns = plan.shape[-2:]
    for _ in range(iterations):
        plan = plan - torch.logsumexp(plan, dim=-2, keepdim=True) - math.log(columns)
        plan = plan - torch.logsumexp(plan, dim=-1, keepdim=True) - math.log(rows)
    return plan


def sinkhorn_codes(distances: Tensor, *, epsilon: float, iterations: int) -> Tensor:
    """Code of each row [..., n] under the balanced plan; ties go to the lower code."""
    with torch.no_grad():
        if epsilon < _SMALLEST:
            return log_plan(centred(distances), epsilon=epsilon, iterations=iterations).argmax(dim=-1)
        kernel = -centred(distances.double()) / epsilon
        # Rows are scaled last and alike for all columns, so the largest entry of a row hangs on the columns' scales.
        return (kernel + _column_scales(kernel.exp(), iterations).log()[..., None, :]).argmax(dim=-1)


def _column_scales(kernel: Tensor, iterations: int) -> Tensor:
    """[..., K] what the columns of a positive kernel [..., n, K] are multiplied by in its balanced plan.

    The largest one is set to 1 at every iteration, where they are between the square of the kernel's range and 1.
    """
    rows = kernel.new_ones(*kernel.shape[:-1], 1)
    columns = kernel.new_ones(*kernel.shape[:-2], kernel.shape[-1], 1)
    for _ in range(iterations):
        columns = 1 / (kernel.mT @ rows)
        columns = columns / columns.amax(dim=-2, keepdim=True)
        rows = 1 / (kernel @ columns)
    return columns.squeeze(-1)
