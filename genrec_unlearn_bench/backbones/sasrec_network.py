"""SASRec's network, its loss over the whole catalogue, and its training.

Causal self-attention over a history's items (Kang and McAuley 2018, sec. 3.1 to 3.4). As in the paper: learned
positions, items embedded times sqrt(d), blocks ``x + Dropout(g(LayerNorm(x)))`` of attention and a two-layer
feed-forward network of width d with ReLU, a last layer norm, and one item embedding for input and output. Deviation:
histories are padded on the right and positions counted from the oldest item that is read, so that no padding mask is
needed and padding costs nothing.

Training joins next-item examples to sequences again, with a loss at every position, so that one pass learns many of
them; the best epoch on validation is kept.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from genrec_unlearn_bench.backbones.config import SasRecConfig
from genrec_unlearn_bench.backbones.training import bucketed_batches
from genrec_unlearn_bench.data.examples import PAD, Examples, IntArray
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator, torch_generator, torch_seeded

_INITIAL_STD = 0.02
"""Standard deviation of the initial weights (RecBole's)."""


class SasRecNetwork(nn.Module):
    """Hidden states of histories of up to T (``positions``) of N ``items``; scores are products with item embeddings.

    Weights are drawn from ``seed``; the global generator is left as it was.
    """

    def __init__(self, config: SasRecConfig, *, items: int, positions: int, seed: int) -> None:
        super().__init__()
        with torch_seeded(seed):
            self.items = nn.Embedding(items, config.dim)
            self.positions = nn.Embedding(positions, config.dim)
            self.blocks = nn.ModuleList(_AttentionBlock(config) for _ in range(config.layers))
            self.norm = nn.LayerNorm(config.dim)
            self.dropout = nn.Dropout(config.dropout)
            self.apply(_initialise)

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, T, D] states of item ids [B, T], negative ids being padding on the right.

        The state at t depends on items 0 … t alone. States of padding mean nothing.
        """
        dim = self.items.embedding_dim
        places = torch.arange(inputs.shape[1], device=inputs.device)
        states = self.items(inputs.clamp_min(0)) * math.sqrt(dim) + self.positions(places)
        states = self.dropout(states)
        for block in self.blocks:
            states = block(states)
        result: Tensor = self.norm(states)
        return result


class _AttentionBlock(nn.Module):
    """Attention and feed-forward network, normalised before, added after."""

    def __init__(self, config: SasRecConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.rate = config.dropout
        self.before = nn.LayerNorm(config.dim)
        self.project = nn.Linear(config.dim, 3 * config.dim)
        self.merge = nn.Linear(config.dim, config.dim)
        self.between = nn.LayerNorm(config.dim)
        self.widen = nn.Linear(config.dim, config.dim)
        self.narrow = nn.Linear(config.dim, config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor) -> Tensor:
        batch, length, dim = states.shape
        parts = self.project(self.before(states)).view(batch, length, 3, self.heads, dim // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        rate = self.rate if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=True)
        states = states + self.dropout(self.merge(mixed.transpose(1, 2).reshape(batch, length, dim)))
        inner = self.dropout(torch.relu(self.widen(self.between(states))))
        result: Tensor = states + self.dropout(self.narrow(inner))
        return result


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=_INITIAL_STD)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


_SCORES = 1_000_000
"""Scores held at once: 4 MB."""


def softmax_loss(states: Tensor, targets: Tensor, vectors: Tensor) -> Tensor:
    """Mean cross-entropy of targets [P] (rows of ``vectors`` [n, D]) after states [P, D], in nats.

    A batch has thousands of positions and a catalogue tens of thousands of items: as one matrix, scores and their
    gradient take gigabytes, and moving them costs more than computing them. Here both are computed chunk by chunk in
    one small buffer, and gradients are taken in the forward pass.
    """
    result: Tensor = _CatalogueSoftmax.apply(states, targets, vectors)  # type: ignore[no-untyped-call]
    return result


class _CatalogueSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, targets: Tensor, vectors: Tensor) -> Tensor:
        chunk = max(_SCORES // len(vectors), 1)
        buffer = states.new_empty(min(chunk, len(states)), len(vectors))
        by_state, by_vector = torch.empty_like(states), torch.zeros_like(vectors)
        total = states.new_zeros(())
        for start in range(0, len(states), chunk):
            rows, wanted = states[start : start + chunk], targets[start : start + chunk, None]
            scores = torch.mm(rows, vectors.T, out=buffer[: len(rows)])
            scores.sub_(scores.amax(1, keepdim=True))
            own = scores.gather(1, wanted)
            sums = scores.exp_().sum(1, keepdim=True)
            total += (sums.log() - own).sum()
            # What is left is the gradient by the scores: probabilities, less one at the target.
            scores.div_(sums).scatter_add_(1, wanted, scores.new_full((len(rows), 1), -1.0))
            torch.mm(scores, vectors, out=by_state[start : start + chunk])
            by_vector.addmm_(scores.T, rows)
        ctx.save_for_backward(by_state.div_(len(states)), by_vector.div_(len(states)))
        return total / len(states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor]:
        by_state, by_vector = ctx.saved_tensors
        return gradient * by_state, None, gradient * by_vector


_CLIP = 5.0
_REDRAWS = 20
_BETAS = (0.9, 0.98)
"""Adam's, as in the paper's own code."""


@dataclass(frozen=True, eq=False)
class TrainSequences:
    """S sequences of up to T positions."""

    inputs: IntArray
    """[S, T] item ids, ``PAD`` behind the last one."""
    targets: IntArray
    """[S, T] the item after position t, ``PAD`` where there is no loss."""

    def __len__(self) -> int:
        return len(self.inputs)


def train_sequences(train: Examples, limit: int) -> TrainSequences:
    """The examples as sequences in which each of them is the target of exactly one position.

    A row continues the user's row before it where its history ends in that row's history and target; such rows form a
    run, whose targets become the inputs that follow. Nothing else is a target: items in histories alone (a user's first
    item, or one whose own row belongs to valid or test) are inputs only.

    Where a source cuts its histories (MiniOneRec: ten items), a position sees the run's earlier items as well, up to
    ``limit``, T. A run longer than ``limit`` is cut into windows that overlap by half, so its later targets see between
    half of ``limit`` and all of it. Rows with an empty history are left out.
    """
    rows = np.flatnonzero(train.ends > train.starts)
    rows = rows[np.lexsort((train.ends[rows], train.users[rows]))]
    chosen = train.subset(rows)
    if not len(chosen):
        nothing = np.empty((0, limit), dtype=np.int64)
        return TrainSequences(nothing, nothing)
    return _windows(chosen, np.flatnonzero(~_continues(chosen, limit)), limit)


def _continues(rows: Examples, limit: int) -> NDArray[np.bool_]:
    """[M] whether a row's history is the end of the history and target of the row before it."""
    lengths = rows.history_lengths(limit)
    same = np.zeros(len(rows), dtype=np.bool_)
    same[1:] = rows.users[1:] == rows.users[:-1]
    for back in range(limit):  # Column by column: the histories as one matrix would be large.
        check = np.flatnonzero(same & (lengths > back))
        if not check.size:
            break
        item = rows.events[rows.ends[check] - 1 - back]
        if back == 0:
            before = rows.targets[check - 1]
        else:
            place = rows.ends[check - 1] - back
            before = np.where(place >= rows.starts[check - 1], rows.events[np.maximum(place, 0)], PAD)
        same[check] = item == before
    return same


def _windows(rows: Examples, first: IntArray, limit: int) -> TrainSequences:
    """Runs of rows, each beginning at one of ``first``, as windows of at most ``limit`` positions."""
    counts = np.diff(np.append(first, len(rows)))
    lead = rows.history_lengths(limit)[first]
    lengths = lead + counts - 1
    offsets = np.cumsum(lengths) - lengths
    inputs = np.full(int(lengths.sum()), PAD, dtype=np.int64)
    targets = inputs.copy()
    within, owner = _ranges(lead)
    inputs[offsets[owner] + within] = rows.events[rows.ends[first][owner] - lead[owner] + within]
    within, owner = _ranges(counts)
    place = offsets[owner] + lead[owner] - 1 + within
    targets[place] = rows.targets
    follows = within < counts[owner] - 1
    inputs[place[follows] + 1] = rows.targets[follows]

    stride = max(limit // 2, 1)
    number, run = _ranges(1 + np.maximum(-(-(lengths - limit) // stride), 0))
    columns = (number * stride)[:, None] + np.arange(limit)[None, :]
    real = columns < lengths[run][:, None]
    source = np.where(real, offsets[run][:, None] + columns, 0)
    # Behind the first window, the first half of each was learned in the window before it.
    fresh = real & ((number == 0)[:, None] | (np.arange(limit) >= limit - stride)[None, :])
    return TrainSequences(np.where(real, inputs[source], PAD), np.where(fresh, targets[source], PAD))


def _ranges(counts: IntArray) -> tuple[IntArray, IntArray]:
    """0 … count-1 for each count, end to end, and which count each belongs to."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts), owner


def binary_loss(states: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """Mean of -log s(h·v+) - log(1 - s(h·v-)) over P positions; all [P, D] (the paper's eq. 6)."""
    right, wrong = (states * positives).sum(-1), (states * negatives).sum(-1)
    return (functional.softplus(-right) + functional.softplus(wrong)).mean()


def sampled_negatives(own: Tensor, candidates: Tensor, generator: torch.Generator) -> Tensor:
    """One of ``candidates`` [n] for each of P positions, uniform over those not in the position's sequence.

    Draws that hit the sequence ``own`` [P, T + 1] are repeated up to twenty times; then the last one stays.
    """
    out = candidates[torch.randint(len(candidates), (len(own),), generator=generator)]
    for _ in range(_REDRAWS):
        bad = torch.nonzero((own == out[:, None]).any(1)).flatten()
        if not len(bad):
            break
        out[bad] = candidates[torch.randint(len(candidates), (len(bad),), generator=generator)]
    return out


def train_network(
    network: SasRecNetwork,
    config: SasRecConfig,
    sequences: TrainSequences,
    *,
    seen: Tensor,
    validate: Callable[[], float],
    seed: int,
    device: str,
    progress: Progress,
) -> None:
    """Train in place and leave the weights of the epoch with the best validation value (``validate``: NDCG@10).

    Items that do not occur in ``sequences``, unlike those of ``seen`` [n], are in no loss, not as negatives either, so
    their vectors keep their initial values.
    """
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.lr, weight_decay=config.weight_decay, betas=_BETAS)
    negatives = torch_generator(seed, "sasrec", "negatives")
    lengths = np.asarray((sequences.inputs != PAD).sum(axis=1), dtype=np.int64)
    best, stale, kept = -1.0, 0, copy.deepcopy(network.state_dict())
    with torch_seeded(derive(seed, "sasrec", "dropout"), device):
        for epoch in progress.track("sasrec", range(1, config.epochs + 1), total=config.epochs):
            network.train()
            total = 0.0
            for rows in bucketed_batches(lengths, config.batch_size, numpy_generator(seed, "sasrec", "epoch", epoch)):
                width = int(lengths[rows].max())
                inputs, targets = sequences.inputs[rows, :width], sequences.targets[rows, :width]
                loss = _loss(network, config.loss, inputs, targets, seen, negatives)
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
                optimiser.step()
                total += float(loss.detach()) * len(rows)
            score = validate()
            progress.log("sasrec", epoch, {"loss": total / len(sequences), "ndcg@10": score})
            if progress.diverged:
                break
            if score > best:
                best, stale, kept = score, 0, copy.deepcopy(network.state_dict())
                progress.note("sasrec.best_epoch", epoch)
            else:
                stale += 1
                if stale >= config.patience:
                    break
    network.load_state_dict(kept)
    network.eval()
    progress.note("sasrec.best_valid_ndcg@10", best)


def _loss(
    network: SasRecNetwork, kind: str, inputs: IntArray, wanted: IntArray, seen: Tensor, generator: torch.Generator
) -> Tensor:
    """Mean over the positions of ``inputs`` [B, T] that are followed by an item ``wanted`` [B, T]; ``seen`` ascends."""
    device = network.items.weight.device
    items, targets = torch.from_numpy(inputs), torch.from_numpy(wanted)
    learned = targets != PAD
    states, targets = network(items.to(device))[learned.to(device)], targets[learned]
    if kind == "ce":
        return softmax_loss(states, torch.searchsorted(seen, targets).to(device), network.items(seen.to(device)))
    own = torch.cat([items[learned.nonzero()[:, 0]], targets[:, None]], 1)
    negatives = sampled_negatives(own, seen, generator)
    return binary_loss(states, network.items(targets.to(device)), network.items(negatives.to(device)))
