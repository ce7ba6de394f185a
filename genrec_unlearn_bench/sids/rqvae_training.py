"""Training of the RQ-VAE: k-means start, warm-up, dead codes restarted, best checkpoint kept."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, torch_generator
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.kmeans import residual_kmeans, worst_quantised
from genrec_unlearn_bench.sids.rqvae import Quantised, RqVae
from genrec_unlearn_bench.sids.table import nearest

_CLIP = 1.0
_CHECKS = 100
"""Checkpoints looked at over a training, at most."""
_CHECK_EVERY = 5
"""Epochs between them, at least."""
_CHUNK = 16_384


class ExtraTerms(nn.Module):
    """Further terms of the RQ-VAE's loss; none here. Parameters of a subclass are trained along."""

    def start_epoch(self, model: RqVae, epoch: int) -> None:
        """Called before every epoch, counted from 0."""

    def forward(self, model: RqVae, rows: Tensor, quantised: Quantised) -> Tensor:
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
    books = residual_kmeans(model.latents(rows), config, seed=start, progress=progress)
    with torch.no_grad():
        for parameter, book in zip(model.codebooks, books, strict=True):
            parameter.copy_(torch.from_numpy(book))
    inputs = model.standardise(rows)
    extra = (extra or ExtraTerms()).to(device)
    learned = [*model.parameters(), *extra.parameters()]
    optimiser = torch.optim.AdamW(learned, lr=config.lr, weight_decay=config.weight_decay)
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
            for group in optimiser.param_groups:
                group["lr"] = config.lr * min(1.0, done / config.warmup_epochs) if config.warmup_epochs else config.lr
            loss, quantised = model(inputs[batch], config.sinkhorn)
            optimiser.zero_grad(set_to_none=True)
            (loss.total + extra(model, batch, quantised)).backward()
            torch.nn.utils.clip_grad_norm_(learned, _CLIP)
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
        for level in range(codes.shape[1]):
            self.used[level, codes[:, level]] = True

    def end_epoch(self, model: RqVae, inputs: Tensor, optimiser: torch.optim.Optimizer) -> None:
        """Restart what was idle for too long; ``inputs`` are the standardised training rows."""
        self.idle = torch.where(self.used, 0, self.idle + 1)
        self.used = torch.zeros_like(self.used)
        if self.patience and bool((self.idle >= self.patience).any()):
            self._restart(model, inputs, optimiser)

    @torch.no_grad()
    def _restart(self, model: RqVae, inputs: Tensor, optimiser: torch.optim.Optimizer) -> None:
        residual = torch.cat([model.encoder(chunk) for chunk in torch.split(inputs, _CHUNK)]).double().cpu().numpy()
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
