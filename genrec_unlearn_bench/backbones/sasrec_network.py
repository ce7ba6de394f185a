"""SASRec's network, its loss over the whole catalogue, and its training (Kang and McAuley 2018, sec. 3.1 to 3.4).

As in the paper: learned positions, items embedded times sqrt(d), blocks ``x + Dropout(g(LayerNorm(x)))`` of attention
and a two-layer feed-forward network of width d with ReLU, a last layer norm, and one item embedding for input and
output. Deviation: histories are padded on the right and positions counted from the oldest item that is read, so that no
padding mask is needed. Training joins next-item examples to sequences again, with a loss at every position."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from genrec_unlearn_bench.backbones.config import SasRecConfig
from genrec_unlearn_bench.backbones.training import bucketed_batches
from genrec_unlearn_bench.data.examples import PAD, Examples, IntArray
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator, torch_seeded

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


class _CatalogueSoftmax(torch.autograd.Function):
    """Mean cross-entropy of targets [P] (rows of ``vectors`` [n, D]) after states [P, D], in nats.

    As one matrix, the scores of thousands of positions and tens of thousands of items take gigabytes. Here they and
    their gradient are computed chunk by chunk in one small buffer, in the forward pass.
    """

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


softmax_loss: Callable[[Tensor, Tensor, Tensor], Tensor] = _CatalogueSoftmax.apply


_CLIP = 5.0
_BETAS = (0.9, 0.98)
"""Adam's, as in the paper's own code."""


def train_sequences(train: Examples, limit: int) -> tuple[IntArray, IntArray]:
    """The examples as S sequences of up to T (``limit``) positions, each example being the target of exactly one.

    Returns inputs [S, T], ``PAD`` behind the last item, and targets [S, T]: the item after position t, ``PAD`` where
    there is no loss.

    A row continues the user's row before it where its history ends that row's history and target; such rows form a
    run, whose targets become the inputs that follow. Nothing else is a target: items in histories alone (a user's first
    item, or one whose own row belongs to valid or test) are inputs only.

    Where a source cuts its histories (MiniOneRec: ten items), a position sees the run's earlier items as well, up to
    T. A run longer than T is cut into windows that overlap by half, so its later targets see between half of T and all
    of it. Rows with an empty history are left out.
    """
    rows = np.flatnonzero(train.ends > train.starts)
    rows = rows[np.lexsort((train.ends[rows], train.users[rows]))]
    columns = (column[rows].tolist() for column in (train.users, train.starts, train.ends, train.targets))
    events, runs = train.events.tolist(), list[tuple[list[int], list[int]]]()
    last, before = -1, list[int]()
    for user, start, end, target in zip(*columns, strict=True):
        history = events[max(start, end - limit) : end]
        if user == last and history == before[-len(history) :]:
            runs[-1][0].append(before[-1])
            runs[-1][1].append(target)
        else:
            runs.append((history, [PAD] * (len(history) - 1) + [target]))
        last, before = user, [*history, target]
    stride = max(limit // 2, 1)
    windows = [(run, first) for run in runs for first in range(0, max(len(run[0]) - limit, 0) + stride, stride)]
    inputs = np.full((len(windows), limit), PAD, dtype=np.int64)
    targets = inputs.copy()
    for row, (run, first) in enumerate(windows):
        for whole, out in zip(run, (inputs, targets), strict=True):
            part = whole[first : first + limit]
            out[row, : len(part)] = part
        if first:  # learned in the window before
            targets[row, : limit - stride] = PAD
    return inputs, targets


def train_network(
    network: SasRecNetwork,
    config: SasRecConfig,
    sequences: tuple[IntArray, IntArray],
    *,
    seen: Tensor,
    validate: Callable[[], float],
    seed: int,
    device: str,
    progress: Progress,
) -> None:
    """Train in place and leave the weights of the epoch with the best validation value (``validate``: NDCG@10).

    Items that do not occur in ``sequences``, unlike those of ``seen`` [n] (ascending), are in no loss, not as negatives
    either, so their vectors keep their initial values.
    """
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.lr, weight_decay=config.weight_decay, betas=_BETAS)
    lengths = np.asarray((sequences[0] != PAD).sum(axis=1), dtype=np.int64)
    best, stale, kept, left = -1.0, 0, copy.deepcopy(network.state_dict()), float(config.max_scores or "inf")
    count = int((sequences[1] != PAD).sum())
    progress.info(
        f"sasrec: at most {min(config.epochs, left / count / len(seen)):.3g} passes over {count:,} targets; ends once "
        f"validation NDCG@10 has not risen for {config.patience} passes"
    )
    progress.limit(config.max_hours)
    with torch_seeded(derive(seed, "sasrec", "dropout"), device):
        for epoch in progress.track("sasrec", range(1, config.epochs + 1), total=config.epochs):
            network.train()
            total, taken = 0.0, 0
            for rows in bucketed_batches(lengths, config.batch_size, numpy_generator(seed, "sasrec", "epoch", epoch)):
                width = int(lengths[rows].max())
                items, targets = (torch.from_numpy(part[rows, :width]) for part in sequences)
                learned = targets != PAD
                states = network(items.to(device))[learned.to(device)]
                wanted = torch.searchsorted(seen, targets[learned]).to(device)
                loss = softmax_loss(states, wanted, network.items(seen.to(device)))
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
                optimiser.step()
                total, taken = total + float(loss.detach()) * len(rows), taken + len(rows)
                left -= len(wanted) * len(seen)
                if left <= 0:
                    break
            score = validate()
            progress.log("sasrec", epoch, {"loss": total / taken, "ndcg@10": score})
            if progress.diverged:
                break
            stale += 1
            if score > best:
                best, stale, kept = score, 0, copy.deepcopy(network.state_dict())
                progress.note("sasrec.best_epoch", epoch)
            if stale >= config.patience or left <= 0:
                break
            if progress.late and epoch < config.epochs:
                progress.end_early("sasrec", f"after pass {epoch} of {config.epochs}")
                break
    network.load_state_dict(kept)
    network.eval()
    progress.note("sasrec.best_valid_ndcg@10", best)
