"""TopK sparse autoencoders on feed-forward outputs (Gao et al. 2024, arXiv 2406.04093): PISCES's dictionaries.

As in the paper: k of W features per row, decoder directions of unit length (renormalised after every step, the gradient
along them removed before), encoder initialised as the decoder's transpose, AuxK for dead features (k_aux = d/2, weight
1/32), learning rate falling linearly to zero over the last fifth. All inputs are divided by their mean norm.

Deviations, because there are ten thousand rows here and not ten billion: the decoder starts at random rows of the data
instead of random directions, so that nearly every feature fires from the start; the encoder is scaled by the best
single factor, as k features near a row would otherwise add up to k times the row; a feature is dead after a few
thousand rows without firing; AuxK and no resampling, which would discard optimiser moments in a few hundred steps.

An autoencoder must pass tests to be used. One ranks with a layer's output replaced by its reconstruction:
``Recommender.recommend`` decodes with copies of the weights and bypasses hooks, so beam search here replays every beam
through ``decode``, which is slower with the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from genrec_unlearn_bench.backbones.recommender import Context, Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.decoding.beam import beam_search, rank_items
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator, torch_generator
from genrec_unlearn_bench.unlearning.anatomy import Block, Stack, anatomy, mlp_activations
from genrec_unlearn_bench.unlearning.dictionaries.value_vectors import Dictionary
from genrec_unlearn_bench.unlearning.likelihood import resting
from genrec_unlearn_bench.unlearning.method import MethodConfig
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import all_examples, example_batches

AUX_WEIGHT = 1 / 32


class SaeConfig(MethodConfig):
    """Size, training and acceptance of the autoencoders."""

    sae_rows: int = Field(default=65_536, ge=1)
    """Largest number of activation rows per layer, drawn from all train examples; the rows of all layers are in memory
    at once."""
    sae_width: int = Field(default=16, ge=1)
    """Features per dimension of the residual stream."""
    sae_k: int = Field(default=16, ge=1)
    """k, features that fire on one row; 64 for large language models."""
    sae_steps: int = Field(default=400, ge=0)
    """Optimiser steps; the default makes three passes over the full number of rows."""
    sae_batch_size: int = Field(default=512, ge=1)
    """Rows per step."""
    sae_lr: float = Field(default=3e-3, gt=0)
    """Adam's learning rate; high, because there are only hundreds of steps."""
    sae_dead_after: int = Field(default=8192, ge=1)
    """Rows without firing after which a feature is dead."""
    fvu_ceiling: float = Field(default=0.2, gt=0)
    """Largest fraction of held-out variance that may stay unexplained."""
    splice_floor: float = Field(default=0.95, ge=0)
    """Smallest share of the original's NDCG@10 with a layer's output replaced by its reconstruction."""


def sae_dictionaries(
    recommender: Recommender, request: ForgetRequest, retain: Examples, config: SaeConfig, progress: Progress
) -> Mapping[str, Dictionary]:
    """Train an SAE per block and return the accepted ones by block name.

    Trained on all train data, forget examples included, because concept features are what is looked for. Notes
    ``sae.fvu`` and ``sae.spliced`` per layer: share of NDCG@10 kept on the validation examples ``retain`` (1 if the
    original has none; -1 if not measured).
    """
    blocks, every = anatomy(recommender).blocks, all_examples(request.train.forget, request.train.retain)
    train, test = activation_rows(recommender, every, blocks, count=config.sae_rows, seed=request.seed)
    before = replayed_ndcg(recommender, retain)
    accepted: dict[str, Dictionary] = {}
    fvus, kept = [], []
    for block, rows, held_out in zip(progress.track("sae", blocks, total=len(blocks)), train, test, strict=True):
        sae = train_sae(rows, config, seed=request.seed, stage=block.name, progress=progress)
        fvus.append(unexplained(held_out, sae.reconstruct(held_out)))
        if not fvus[-1] <= config.fvu_ceiling:
            kept.append(-1.0)
            continue
        with spliced(block.mlp, sae.reconstruct):
            now = replayed_ndcg(recommender, retain)
        kept.append(now / before if before else 1.0)
        if kept[-1] >= config.splice_floor:
            accepted[block.name] = sae
    progress.note("sae.layers", [block.name for block in blocks])
    progress.note("sae.fvu", fvus)
    progress.note("sae.spliced", kept)
    return accepted


@dataclass(frozen=True, eq=False)
class TopKSae:
    """A TopK autoencoder of W features in D dimensions; a ``Dictionary``.

    Attributes:
        encoder: [W, D], with ``bias`` [W] and ``centre`` [D], on inputs divided by ``scale``, their mean norm.
        directions: [W, D] the decoder, of unit length.
        k: Features that fire on one row.
    """

    encoder: Tensor
    bias: Tensor
    directions: Tensor
    centre: Tensor
    scale: float
    k: int

    @property
    def encoder_rows(self) -> Tensor:
        """[W, D] the encoder on unscaled vectors: codes are ``vectors @ encoder_rows.T`` plus a constant."""
        return self.encoder / self.scale

    def weight_codes(self, vectors: Tensor) -> Tensor:
        """[n, W] ReLU codes before TopK: k is meant for activations; a weight vector may need more features."""
        return F.linear(vectors / self.scale - self.centre, self.encoder, self.bias).relu()

    def codes(self, rows: Tensor) -> Tensor:
        """[n, W] codes of activations, at most k per row above zero."""
        values, places = self.weight_codes(rows).topk(self.k, dim=-1)
        return torch.zeros(*rows.shape[:-1], len(self.encoder), device=rows.device).scatter_(-1, places, values)

    def decode(self, codes: Tensor) -> Tensor:
        """[n, D] reconstruction from codes [n, W]."""
        return self.scale * (codes @ self.directions + self.centre)

    def reconstruct(self, rows: Tensor) -> Tensor:
        flat = rows.flatten(0, -2)
        values, places = self.weight_codes(flat).topk(self.k, dim=-1)
        sums = F.embedding_bag(places, self.directions, mode="sum", per_sample_weights=values)
        return (self.scale * (sums + self.centre)).view(rows.shape)


def unexplained(rows: Tensor, reconstruction: Tensor) -> float:
    """Fraction of variance unexplained: squared error over the rows' squared distance from their mean."""
    return float((rows - reconstruction).square().sum() / (rows - rows.mean(0)).square().sum())


def activation_rows(
    recommender: Recommender, examples: Examples, blocks: Sequence[Block], *, count: int, seed: int
) -> tuple[list[Tensor], list[Tensor]]:
    """About ``count`` activation rows [n, D] per block for training, and a tenth as many for testing.

    Test rows come from other users, because the histories of one user overlap.
    """
    users = np.unique(examples.users)
    shuffled = numpy_generator(seed, "activations", "users").permutation(users)
    apart = np.isin(examples.users, shuffled[: max(1, len(users) // 10)])
    train = _rows(recommender, examples.subset(~apart), blocks, count, seed)
    return train, _rows(recommender, examples.subset(apart), blocks, max(1, count // 10), seed)


def _rows(recommender: Recommender, examples: Examples, blocks: Sequence[Block], count: int, seed: int) -> list[Tensor]:
    """Rows of as many random examples as the stack with the fewest positions needs, equally many per batch."""
    levels = max(1, int((recommender.sids.codes >= 0).sum(1).min()))
    order = numpy_generator(seed, "activations", "examples").permutation(len(examples))
    chosen = examples.subset(order[: -(-count // levels)].astype(np.int64))
    size = 128
    quota = -(-count // max(1, -(-len(chosen) // size)))
    generator = torch_generator(seed, "activations", "positions")
    kept: list[list[Tensor]] = [[] for _ in blocks]
    for caught in mlp_activations(recommender, chosen, blocks, prompts=True, batch_size=size):
        picks: dict[Stack, Tensor] = {}
        for block, (values, real), rows in zip(blocks, caught, kept, strict=True):
            flat = values[real]
            if block.stack not in picks:
                picks[block.stack] = torch.randperm(len(flat), generator=generator)[:quota].to(flat.device)
            rows.append(flat[picks[block.stack]])
    return [torch.cat(rows)[:count] for rows in kept]


def train_sae(rows: Tensor, config: SaeConfig, *, seed: int, stage: str, progress: Progress) -> TopKSae:
    """Train an autoencoder on activations [n, D], deterministic given rows and seed.

    Logs ``unexplained`` (of the batch) and the share of ``dead`` features under ``sae.<stage>``.
    """
    generator = torch_generator(seed, "sae", stage)
    scale = float(rows.norm(dim=1).mean().clamp_min(1e-12))
    inputs = rows / scale
    size, count = rows.shape[1] * config.sae_width, len(rows)
    centre = inputs.mean(0)
    drawn = inputs[torch.randint(count, (size,), generator=generator)] - centre
    # A row drawn twice would give two equal features; a little noise makes them differ.
    drawn += 0.01 * torch.randn(drawn.shape, generator=generator).to(drawn) / rows.shape[1] ** 0.5
    decoder = F.normalize(drawn)
    k, aux = min(config.sae_k, size), max(1, rows.shape[1] // 2)
    encoder = _scaled_encoder(decoder, inputs[:2048] - centre, k)
    bias = torch.zeros(size, device=rows.device)
    for parameter in (parameters := [encoder, bias, decoder, centre]):
        parameter.requires_grad_()
    optimizer = torch.optim.Adam(parameters, lr=config.sae_lr, fused=True)
    silent = torch.zeros(size, device=rows.device)
    variance = (inputs - inputs.mean(0)).square().sum(1).mean().clamp_min(1e-12)
    order, total, taken = torch.empty(0, dtype=torch.long), config.sae_steps, min(config.sae_batch_size, count)
    for step in range(total):
        if len(order) < taken:
            order = torch.cat([order, torch.randperm(count, generator=generator)])
        chosen, order = order[:taken].to(rows.device), order[taken:]
        optimizer.param_groups[0]["lr"] = config.sae_lr * min(1.0, 5 * (total - step) / total)
        batch = inputs[chosen]
        scores = F.linear(batch - centre, encoder, bias).relu()
        values, places = scores.topk(k, dim=1)
        error = F.embedding_bag(places, decoder, mode="sum", per_sample_weights=values) + centre - batch
        loss = error.square().sum(1).mean() / variance
        silent += len(batch)
        silent[places[values > 0]] = 0
        dead = silent >= config.sae_dead_after
        dying = int(dead.sum())
        if dying:
            values, places = (scores * dead).topk(min(aux, dying), dim=1)
            miss = F.embedding_bag(places, decoder, mode="sum", per_sample_weights=values) + error.detach()
            loss = loss + AUX_WEIGHT * miss.square().sum() / error.detach().square().sum().clamp_min(1e-12)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            gradient = decoder.grad
            if gradient is not None:
                gradient -= (gradient * decoder).sum(1, keepdim=True) * decoder
        optimizer.step()
        with torch.no_grad():
            decoder.copy_(F.normalize(decoder))
        if step % 50 == 0 or step == total - 1:
            share = float(error.detach().square().sum(1).mean() / variance)
            progress.log(f"sae.{stage}", step, {"unexplained": share, "dead": dying / size})
    progress.optimiser_steps = (progress.optimiser_steps or 0) + total
    return TopKSae(encoder.detach(), bias.detach(), decoder.detach(), centre.detach(), scale, k)


def _scaled_encoder(decoder: Tensor, inputs: Tensor, k: int) -> Tensor:
    """The decoder times the factor with which its own TopK codes best reconstruct the inputs."""
    values, places = (inputs @ decoder.T).relu().topk(k, dim=1)
    sums = F.embedding_bag(places, decoder, mode="sum", per_sample_weights=values)
    return decoder * ((sums * inputs).sum() / sums.square().sum().clamp_min(1e-12))


class ReplaySession:
    """A ``DecoderSession`` that decodes the whole prefix of every beam at each step."""

    def __init__(self, recommender: Recommender, context: Context) -> None:
        self._recommender, self._context = recommender, context
        self._offsets = recommender.vocabulary.offsets
        self._codes = torch.zeros(len(context.mask), 1, 0, dtype=torch.long, device=context.mask.device)

    def start_window(self, window: slice) -> Tensor:
        self._codes = self._codes.new_zeros(len(self._context.mask), 1, 0)
        return self._log_probs(window)[:, 0]

    def step_window(self, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
        depth = self._codes.shape[2]
        past = self._codes.gather(1, parents[..., None].expand(-1, -1, depth))
        self._codes = torch.cat([past, (tokens - self._offsets[depth])[..., None]], 2)
        return self._log_probs(window)

    def _log_probs(self, window: slice) -> Tensor:
        batch, beams, depth = self._codes.shape
        # Causal attention hides what follows the prefix; code 0 exists on every level.
        codes = F.pad(self._codes, (0, len(self._offsets) - depth)).flatten(0, 1)
        rows = torch.arange(batch, device=codes.device).repeat_interleave(beams)
        logits = self._recommender.decode(self._context, codes, rows=rows).logits[:, depth]
        return logits.view(batch, beams, -1).float().log_softmax(-1)[..., window]


@contextmanager
def spliced(module: nn.Module, replace: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Replace ``module``'s output by ``replace`` of it inside the block."""

    def hook(module: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        return replace(output.float()).to(output.dtype)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def replayed_ndcg(recommender: Recommender, examples: Examples) -> float:
    """NDCG@10 of constrained beam search (beam 10) through the modules; 0 without examples."""
    table, blocked = recommender.sids, recommender.serving.blocked
    trie = Trie.build(table.codes, table.level_sizes, blocked=blocked)
    gains = []
    with resting(recommender):
        for part in example_batches(examples, 64):
            session = ReplaySession(recommender, recommender.encode(part.histories(recommender.history_limit)))
            found = beam_search(session, trie, recommender.vocabulary.offsets, beam=10)
            ranks = rank_items(found, trie, 10).ranks(part.targets)
            gains.append(np.where(ranks > 0, 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0))
    return float(np.concatenate(gains).mean()) if gains else 0.0
