"""The RQ-VAE: an autoencoder whose latent is quantised level by level (Lee et al. 2022, as used by TIGER).

Sizes, activations and losses follow the public recommenders built on it (MiniOneRec, LETTER): MLP with ReLU, no batch
norm, no dropout, mean squared errors over elements, losses averaged over levels. Two deviations, with reasons:

- Each residual keeps its gradient to the encoder (``r - sg(c)`` at every level, as in Lee et al.'s commitment loss).
  Both official codes subtract the straight-through codeword instead, which cancels the commitment term of every level
  but the first.
- Features are centred and divided by one number, their root mean square, so that the weights of the loss mean the same
  for every encoder, and a reconstruction error of 1 is that of predicting the mean.

Assignments may be balanced by entropic optimal transport (Sinkhorn; Cuturi 2013), as MiniOneRec and LETTER use it on
codes. Distances are centred and scaled to [-1, 1] per problem, so ``epsilon`` means the same at every level. With
epsilon 0.003 the kernel spans exp(+-333), which float32 cannot hold: plans are computed on logarithms, and codes, which
a tokenizer in training asks for at every step, by scaling a float64 kernel, which takes a thirtieth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.seeding import torch_generator
from genrec_unlearn_bench.sids.config import SidConfig

_CHUNK = 16_384
_SMALLEST = 0.003
"""Below this epsilon the kernel's range, squared, leaves float64 (exp(+-709))."""
_FLOOR = 1e-5
"""Added to the half range, as in both official codes: equal distances give a uniform plan instead of 0/0."""


@dataclass(frozen=True)
class Quantised:
    """One batch through the quantiser."""

    codes: Tensor
    """[B, L] int64."""
    residuals: Tensor
    """[B, L, D] r^l, with gradient to the encoder."""
    words: Tensor
    """[B, L, D] the chosen codewords, with gradient to the codebooks."""

    @property
    def straight_through(self) -> Tensor:
        """[B, D] the sum of the chosen codewords, with the identity's gradient to the encoder and none to them."""
        latents = self.residuals[:, 0]
        return latents + (self.words.sum(1) - latents).detach()


@dataclass(frozen=True)
class RqVaeLoss:
    """Scalars; ``total = reconstruction + codebook + beta * commitment``."""

    total: Tensor
    reconstruction: Tensor
    codebook: Tensor
    commitment: Tensor


class RqVae(nn.Module):
    """Encoder, L codebooks, decoder, with weights from ``seed``; the global generator is left alone.

    ``shift`` [D_in] is the features' mean, ``scale`` their root mean square around it.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, shift: Tensor, scale: float, config: SidConfig, *, seed: int) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("shift", shift)
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.float32))
        widths = [len(shift), *config.hidden, config.dim]
        generator = torch_generator(seed, "sids", "rqvae", "weights")
        self.encoder = _mlp(widths, generator)
        self.decoder = _mlp(widths[::-1], generator)
        self.codebooks = nn.ParameterList(
            nn.Parameter(torch.zeros(config.codes, config.dim)) for _ in range(config.levels)
        )

    def standardise(self, features: Tensor) -> Tensor:
        """The encoder's input, and what the decoder has to give back: [B, D_in]."""
        return (features - self.shift) / self.scale

    def quantise(self, latents: Tensor, sinkhorn: Literal["off", "last", "all"] = "off") -> Quantised:
        """Codes, residuals and codewords of latents [B, D]; ``sinkhorn`` balances assignments over the batch."""
        residual, codes, residuals, words = latents, [], [], []
        last = self.config.levels - 1
        for level, book in enumerate(self.codebooks):
            balanced = sinkhorn == "all" or (sinkhorn == "last" and level == last)
            distances = code_distances(residual.detach(), book.detach())
            code = self._balanced(distances) if balanced else distances.argmin(dim=1)
            word = functional.embedding(code, book)
            codes.append(code)
            residuals.append(residual)
            words.append(word)
            residual = residual - word.detach()
        return Quantised(torch.stack(codes, 1), torch.stack(residuals, 1), torch.stack(words, 1))

    def forward(self, inputs: Tensor, sinkhorn: Literal["off", "last", "all"] = "off") -> tuple[RqVaeLoss, Quantised]:
        """Losses and assignments of standardised inputs [B, D_in]."""
        latents = self.encoder(inputs)
        quantised = self.quantise(latents, sinkhorn)
        # The decoder sees the codewords, the encoder gets the decoder's gradient.
        output = self.decoder(quantised.straight_through)
        return rqvae_loss(inputs, output, quantised, self.config.beta), quantised

    @torch.no_grad()
    def latents(self, features: Tensor) -> NDArray[np.float32]:
        """[N, D] encoder outputs z_i of raw features [N, D_in], in chunks."""
        parts = [self.encoder(self.standardise(chunk)).float().cpu() for chunk in torch.split(features, _CHUNK)]
        return cast("NDArray[np.float32]", torch.cat(parts).numpy())

    def books(self) -> tuple[NDArray[np.float32], ...]:
        """The codebooks, L arrays [K, D]."""
        return tuple(book.detach().float().cpu().numpy().copy() for book in self.codebooks)

    def outcome(self, features: Tensor) -> tuple[NDArray[np.float32], tuple[NDArray[np.float32], ...]]:
        """Latents [N, D] of raw features [N, D_in] and the codebooks; raises BenchError where training diverged."""
        latents, books = self.latents(features), self.books()
        if not all(np.isfinite(found).all() for found in (latents, *books)):
            hint = "lower the rate `lr` (ETEGRec: also joint.lr_tokenizer)"
            raise BenchError("the RQ-VAE diverged: its latents are not finite", where="sids", hint=hint)
        return latents, books

    def _balanced(self, distances: Tensor) -> Tensor:
        config = self.config
        return sinkhorn_codes(distances, epsilon=config.sinkhorn_epsilon, iterations=config.sinkhorn_iterations)


def code_distances(residual: Tensor, book: Tensor) -> Tensor:
    """||r_i - c_k||^2 [n, K] of residuals [n, D] to a codebook [K, D], differentiable in both."""
    return (residual**2).sum(1, keepdim=True) - 2 * residual @ book.T + (book**2).sum(1)


def rqvae_loss(inputs: Tensor, output: Tensor, quantised: Quantised, beta: float) -> RqVaeLoss:
    """Mean squared reconstruction error plus the codebook and commitment terms, averaged over levels.

    Every level has as many elements as the next, so one mean over [B, L, D] is the mean over levels.
    """
    reconstruction = functional.mse_loss(output, inputs)
    codebook = functional.mse_loss(quantised.words, quantised.residuals.detach())
    commitment = functional.mse_loss(quantised.residuals, quantised.words.detach())
    return RqVaeLoss(reconstruction + codebook + beta * commitment, reconstruction, codebook, commitment)


def _mlp(widths: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers = [(nn.ReLU(), linear(inputs, outputs, generator)) for inputs, outputs in pairwise(widths)]
    return nn.Sequential(*list(chain.from_iterable(layers))[1:])


def linear(
    inputs: int,
    outputs: int,
    generator: torch.Generator,
    *,
    bias: bool = True,
    initialise: Callable[..., Tensor] = nn.init.xavier_normal_,
) -> nn.Linear:
    """A linear layer with random weights and zero biases."""
    # By way of the meta device, because the default initialisation draws from the global generator.
    layer = nn.Linear(inputs, outputs, bias=bias, device="meta").to_empty(device="cpu")
    initialise(layer.weight, generator=generator)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def centred(distances: Tensor) -> Tensor:
    """Map distances [..., n, K] to [-1, 1] by the smallest and largest of each problem."""
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
    """Assign each row [..., n] a code by the balanced plan; ties go to the lower code."""
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
