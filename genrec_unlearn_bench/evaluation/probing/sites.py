"""Where probes look: hidden states of one model, all sites and layers in one pass over the pool.

Four sites. ``prompt``: the state from which the first token of the answer is predicted (T5: the decoder's first
position; causal models: the prompt's last). ``pooled``: mean over the input positions (of T5's encoder, of a causal
prompt). ``history``: mean over the positions of one item of the history. ``embedding``: mean of an item's token
embeddings. No site sees the target.

Layers are numbered as ``specs.FIRST_LAYER`` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.recommender import Context, Recommender, length_batches
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.evaluation.probing.examples import Pool, sample_pool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genrec_unlearn_bench.evaluation.measurement import Subject
    from genrec_unlearn_bench.progress import Progress

__all__ = ["read_states"]

_BATCH = 128
_CONSTANT = 1e-5
"""A feature that varies by less, as a share of the layer's size, is rounding."""


def read_states(subject: Subject, progress: Progress) -> Mapping[str, NDArray[np.generic]]:
    """The states by site: prompt and pooled [E, layers, D], history [H, layers, D], embedding [N, 1, D].

    Each feature is shifted and scaled to mean 0 and deviation 1 over its site, which changes no probe (they standardise
    themselves) and lets half precision hold states of any size. A mention that the model never reads (it is served
    without the item) is NaN.
    """
    recommender = subject.recommender
    pool = sample_pool(subject)
    training = recommender.module.training
    recommender.module.eval()
    try:
        with torch.no_grad():
            states = _contextual(recommender, pool, progress)
            states["embedding"] = _embeddings(recommender)[:, None]
    finally:
        recommender.module.train(training)
    return {site: _scaled(values) for site, values in states.items()}


def _contextual(recommender: Recommender, pool: Pool, progress: Progress) -> dict[str, NDArray[np.float32]]:
    counts = np.bincount(pool.owners, minlength=len(pool.targets))
    mentions = np.split(np.argsort(pool.owners, kind="stable"), np.cumsum(counts)[:-1])
    sizes = {"prompt": len(pool.targets), "pooled": len(pool.targets), "history": len(pool.mentions)}
    states: dict[str, NDArray[np.float32]] = {}
    batches = list(length_batches(pool.histories.lengths, _BATCH))
    for rows in progress.track("hidden states", batches, total=len(batches)):
        context = recommender.encode(pool.histories.rows(rows), hidden=True)
        own = [mentions[row] for row in rows]
        found = {
            "prompt": (rows, _prompt(recommender, context)),
            "pooled": (rows, _means(context, context.mask[:, None])[:, 0]),
            "history": (np.concatenate(own), _mentioned(context, pool.mentions.items, own)),
        }
        for site, (places, values) in found.items():
            if site not in states:
                states[site] = np.full((sizes[site], *values.shape[1:]), np.nan, dtype=np.float32)
            states[site][places] = values.float().cpu().numpy()
    return states


def _prompt(recommender: Recommender, context: Context) -> Tensor:
    """[B, layers, D] without layer 0."""
    if isinstance(recommender, CausalRecommender):
        # Padding is on the left; the prompt is the whole input, so that nothing has to be run again.
        return torch.stack([layer[:, -1] for layer in context.hidden[1:]], 1)
    # The first position attends to itself alone: which codes stand behind it does not matter.
    codes = torch.zeros(len(context.mask), recommender.sids.levels, dtype=torch.long, device=recommender.device)
    return torch.stack([layer[:, 0] for layer in recommender.decode(context, codes, hidden=True).hidden[1:]], 1)


def _mentioned(context: Context, items: IntArray, mentions: list[IntArray]) -> Tensor:
    """[H', layers, D] means over the positions of each mentioned item [H] in its history, one history after another."""
    counts = np.array([len(own) for own in mentions])
    wanted = torch.full((len(counts), max(int(counts.max(initial=0)), 1)), -2, dtype=torch.long)
    filled = torch.arange(wanted.shape[1])[None] < torch.from_numpy(counts)[:, None]
    wanted[filled] = torch.from_numpy(items[np.concatenate(mentions)])
    device = context.mask.device
    places = context.position_items[:, None] == wanted.to(device)[..., None]
    return _means(context, places & context.mask[:, None])[filled.to(device)]


def _means(context: Context, places: Tensor) -> Tensor:
    """[B, R, layers, D] means of all layers over the places [B, R, S]; NaN where there are none."""
    weights = places.float() / places.sum(2, keepdim=True)
    return torch.stack([torch.bmm(weights, layer.float()) for layer in context.hidden], 2)


def _embeddings(recommender: Recommender) -> NDArray[np.float32]:
    """[N, D] mean of each item's token embeddings, over the tokens it has."""
    module: Any = recommender.module
    table: Tensor = module.get_input_embeddings().weight
    tokens = torch.from_numpy(recommender.vocabulary.tokens(recommender.sids)).to(table.device)
    real = torch.from_numpy(recommender.sids.codes >= 0).to(table.device).float()
    total = torch.zeros(len(tokens), table.shape[1], device=table.device)
    for level in range(tokens.shape[1]):
        total += table[tokens[:, level]].float() * real[:, level, None]
    values: NDArray[np.float32] = (total / real.sum(1, keepdim=True)).cpu().numpy()
    return values


def _scaled(values: NDArray[np.float32]) -> NDArray[np.float16]:
    known = ~np.isnan(values).any(axis=(1, 2))
    if not known.any():
        return values.astype(np.float16)
    mean, deviation = (of(values[known], axis=0, dtype=np.float64) for of in (np.mean, np.std))
    size = np.sqrt(mean**2 + deviation**2).mean(axis=1, keepdims=True)
    scale = np.where(deviation > _CONSTANT * size, deviation, np.inf)
    return np.asarray((values - mean) / scale, dtype=np.float16)
