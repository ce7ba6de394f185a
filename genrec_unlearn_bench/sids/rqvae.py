"""The RQ-VAE: an autoencoder whose latent is quantised level by level (Lee et al. 2022, as used by TIGER).

Sizes, activations and losses follow the public recommenders built on it (MiniOneRec, LETTER). Two deviations:

- Each residual keeps its gradient to the encoder (``r - sg(c)`` at every level, as in Lee et al.'s commitment loss).
  Both official codes subtract the straight-through codeword instead, which cancels the commitment term of every level
  but the first.
- Features are centred and divided by one number, their root mean square, so that the weights of the loss mean the same
  for every encoder, and a reconstruction error of 1 is that of predicting the mean.

Assignments may be balanced by entropic optimal transport (Sinkhorn; Cuturi 2013), as in MiniOneRec and LETTER.
Distances are centred and scaled to [-1, 1] per problem, so ``epsilon`` means the same at every level. With epsilon
0.003 the kernel spans exp(+-333), which float32 cannot hold: plans are computed on logarithms, and training's codes,
needed at every step, by scaling a float64 kernel, which takes a thirtieth of the time. So too on a GPU, as in both
official codes: 0.1 GFLOP a step of 1,024 items and 256 codes are fewer than starting the 250 kernels costs, even where
float64 runs at a 64th of float32's rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, torch_generator
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.kmeans import residual_kmeans, worst_quantised
from genrec_unlearn_bench.sids.table import nearest

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
        plan: dict[str, Any] = {"epsilon": self.config.sinkhorn_epsilon, "iterations": self.config.sinkhorn_iterations}
        for level, book in enumerate(self.codebooks):
            balanced = sinkhorn == "all" or (sinkhorn == "last" and level == self.config.levels - 1)
            distances = code_distances(residual.detach(), book.detach())
            code = sinkhorn_codes(distances, **plan) if balanced else distances.argmin(dim=1)
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
    def latents(self, inputs: Tensor) -> Tensor:
        """[N, D] encoder outputs z_i of standardised inputs [N, D_in], in chunks."""
        return torch.cat([self.encoder(chunk) for chunk in torch.split(inputs, _CHUNK)])

    def books(self) -> tuple[NDArray[np.float32], ...]:
        """The codebooks, L arrays [K, D]."""
        return tuple(book.detach().float().cpu().numpy().copy() for book in self.codebooks)

    def outcome(self, features: Tensor) -> tuple[NDArray[np.float32], tuple[NDArray[np.float32], ...]]:
        """Latents [N, D] of raw features [N, D_in] and the codebooks; raises BenchError where training diverged."""
        latents: NDArray[np.float32] = self.latents(self.standardise(features)).float().cpu().numpy()
        books = self.books()
        if not all(np.isfinite(found).all() for found in (latents, *books)):
            hint = "lower the rate `lr` (ETEGRec: also joint.lr_tokenizer)"
            raise BenchError("the RQ-VAE diverged: its latents are not finite", where="sids", hint=hint)
        return latents, books


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
    inputs: int, outputs: int, generator: torch.Generator, initialise: Callable[..., Tensor] = nn.init.xavier_normal_
) -> nn.Linear:
    """A linear layer with random weights and zero biases."""
    # By way of the meta device, because the default initialisation draws from the global generator.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    initialise(layer.weight, generator=generator)
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


@torch.no_grad()
def sinkhorn_codes(distances: Tensor, *, epsilon: float, iterations: int) -> Tensor:
    """Assign each row [..., n] a code by the balanced plan; ties go to the lower code."""
    if epsilon < _SMALLEST:
        return log_plan(centred(distances), epsilon=epsilon, iterations=iterations).argmax(dim=-1)
    logits = -centred(distances.double()) / epsilon
    kernel = logits.exp()
    rows = columns = kernel.new_ones(*kernel.shape[:-1], 1)
    for _ in range(iterations):
        columns = 1 / (kernel.mT @ rows)
        # The largest scale is 1, so that all are between the square of the kernel's range and 1.
        columns = columns / columns.amax(dim=-2, keepdim=True)
        rows = 1 / (kernel @ columns)
    # Rows are scaled last and alike for all columns, so the largest entry of a row hangs on the columns' scales.
    return (logits + columns.log().mT).argmax(dim=-1)


_CLIP = 1.0
_CHECKS = 100
"""Checkpoints looked at over a training, at most."""
_CHECK_EVERY = 5
"""Epochs between them, at least."""


class ExtraTerms:
    """Further terms of the RQ-VAE's loss, without parameters; none here."""

    def start_epoch(self, model: RqVae, epoch: int) -> None:
        """Called before every epoch, counted from 0."""

    def loss(self, model: RqVae, rows: Tensor, quantised: Quantised) -> Tensor:
        """Scalar that is added to the loss of one batch; ``rows`` [B] are its places among the training rows."""
        return quantised.words.new_zeros(())


def fit_rqvae(
    features: NDArray[np.float32],
    config: SidConfig,
    *,
    fit: NDArray[np.bool_],
    seed: int,
    device: str,
    progress: Progress,
    extra: ExtraTerms | None = None,
) -> RqVae:
    """Train an RQ-VAE on the marked rows of features [N, D_in]; it is returned in evaluation mode.

    AdamW, linear warm-up, gradients clipped at norm 1. The checkpoint with the fewest collisions is kept (MiniOneRec,
    LETTER), then the lowest reconstruction error; only the second half of training is looked at, because k-means on
    an untrained encoder collides little and means little. ``extra`` are further terms of the loss (LETTER's).
    """
    rows = torch.from_numpy(np.ascontiguousarray(features[fit])).to(device)
    shift = rows.mean(0)
    scale = float((rows - shift).square().mean().sqrt())
    model = RqVae(shift.cpu(), scale if scale > 0 else 1.0, config, seed=seed).to(device)
    start = derive(seed, "sids", "rqvae", "start")
    inputs = model.standardise(rows)
    books = residual_kmeans(model.latents(inputs).float().cpu().numpy(), config, seed=start, progress=progress)
    with torch.no_grad():
        for parameter, book in zip(model.codebooks, books, strict=True):
            parameter.copy_(torch.from_numpy(book))
    extra = extra or ExtraTerms()
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    dead = DeadCodes(model, config)
    shuffler = torch_generator(seed, "sids", "rqvae", "order")
    every = max(_CHECK_EVERY, math.ceil(config.epochs / _CHECKS))
    steps = math.ceil(len(inputs) / config.batch_size)
    best = _Best()
    for epoch in progress.track("RQ-VAE", range(config.epochs), total=config.epochs):
        extra.start_epoch(model, epoch)
        order = torch.randperm(len(inputs), generator=shuffler).to(device)
        for index, batch in enumerate(torch.split(order, config.batch_size)):
            done = (epoch * steps + index + 1) / steps
            rate = config.lr * min(1.0, done / config.warmup_epochs) if config.warmup_epochs else config.lr
            if config.linear_decay and done > config.warmup_epochs:
                rate *= (config.epochs + 1 / steps - done) / max(config.epochs - config.warmup_epochs, 1)
            for group in optimiser.param_groups:
                group["lr"] = rate
            loss, quantised = model(inputs[batch], config.sinkhorn)
            optimiser.zero_grad(set_to_none=True)
            (loss.total + extra.loss(model, batch, quantised)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
            optimiser.step()
            dead.count(quantised.codes)
        dead.end_epoch(model, inputs, optimiser)
        final = epoch + 1 == config.epochs
        if final or ((epoch + 1) % every == 0 and epoch + 1 >= config.epochs / 2):
            best.look(model, inputs, epoch + 1, progress)
    if best.state is not None:
        model.load_state_dict(best.state)
    progress.note("sids_best_epoch", best.epoch)
    progress.note("sids_reconstruction_error", best.reconstruction)
    progress.note("sids_codes_restarted", dead.restarted)
    return model.eval()


class DeadCodes:
    """Watches which codewords are used, and restarts those that were not for ``config.dead_code_epochs`` epochs.

    A restarted codeword is put on one of the residuals that its level quantises worst, and forgets its moments.
    """

    def __init__(self, model: RqVae, config: SidConfig) -> None:
        self.patience, self.restarted = config.dead_code_epochs, 0
        self.idle = torch.zeros(config.levels, config.codes, dtype=torch.int64, device=model.shift.device)
        self.used = torch.zeros_like(self.idle, dtype=torch.bool)

    def count(self, codes: Tensor) -> None:
        self.used[torch.arange(codes.shape[1], device=codes.device), codes] = True

    def end_epoch(self, model: RqVae, inputs: Tensor, optimiser: torch.optim.Optimizer) -> None:
        """Restart what was idle for too long; ``inputs`` are the standardised training rows."""
        self.idle = torch.where(self.used, 0, self.idle + 1)
        self.used = torch.zeros_like(self.used)
        if self.patience and bool((self.idle >= self.patience).any()):
            self._restart(model, inputs, optimiser)

    @torch.no_grad()
    def _restart(self, model: RqVae, inputs: Tensor, optimiser: torch.optim.Optimizer) -> None:
        residual = model.latents(inputs).double().cpu().numpy()
        for level, book in enumerate(model.codebooks):
            gone = torch.nonzero(self.idle[level] >= self.patience).flatten()
            words = book.detach().double().cpu().numpy()
            if len(gone):
                errors = ((residual - words[nearest(residual, words)]) ** 2).sum(1)
                chosen = worst_quantised(residual, errors, len(gone))
                rows = gone[: len(chosen)]
                book[rows] = torch.from_numpy(residual[chosen]).to(book)
                for moment in ("exp_avg", "exp_avg_sq"):
                    if moment in optimiser.state.get(book, {}):
                        optimiser.state[book][moment][rows] = 0
                self.idle[level, gone] = 0
                self.restarted += len(rows)
                words = book.detach().double().cpu().numpy()
            residual = residual - words[nearest(residual, words)]


@dataclass
class _Best:
    """The checkpoint with the fewest collisions so far, then the lowest reconstruction error."""

    collisions: float = math.inf
    reconstruction: float = math.inf
    epoch: int = 0
    state: dict[str, Tensor] | None = None

    @torch.no_grad()
    def look(self, model: RqVae, inputs: Tensor, epoch: int, progress: Progress) -> None:
        squares, codes = 0.0, []
        for chunk in torch.split(inputs, _CHUNK):
            loss, quantised = model(chunk)
            squares += float(loss.reconstruction) * len(chunk)
            codes.append(quantised.codes)
        error = squares / len(inputs)
        collisions = 1 - len(torch.unique(torch.cat(codes), dim=0)) / len(inputs)
        progress.log("sids.rqvae", epoch, {"reconstruction": error, "collisions": collisions})
        if (collisions, error) < (self.collisions, self.reconstruction):
            self.collisions, self.reconstruction, self.epoch = collisions, error, epoch
            self.state = {name: value.clone() for name, value in model.state_dict().items()}
