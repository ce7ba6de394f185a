"""Beam search over a trie: only SIDs of the catalogue, with the model's own probabilities.

The score of an item is the sum of the log-probabilities of exactly its L SID tokens, softmax over the full vocabulary;
the trie then chooses among the children. It is never normalised over the children, and no end-of-sequence token is
scored: both would change the ranking. Lists equal those of Hugging Face's ``generate`` with
``prefix_allowed_tokens_fn`` and ``length_penalty=0``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.decoding.session import DecoderSession
from genrec_unlearn_bench.decoding.trie import Trie

_DEAD = float("-inf")


@dataclass(frozen=True, eq=False)
class BeamResult:
    """The best leaves of B histories, best first; equal scores are in node order (lowest code first)."""

    leaves: Tensor
    """[B, W] long, leaf numbers of the trie, -1 at dead places."""
    log_probs: Tensor
    """[B, W] float32, -inf at dead places."""


@torch.inference_mode()
def beam_search(session: DecoderSession, trie: Trie, offsets: Sequence[int], *, beam: int) -> BeamResult:
    """Find the best SIDs of B histories, keeping ``beam`` prefixes (W, at least 1) on each level.

    ``offsets`` are the first vocabulary ids of each level's codes. Ties are broken towards the lower node on every
    level, so the result does not depend on how ``topk`` picks. As many beams as the trie has leaves rank all SIDs.
    """
    windows = [slice(first, first + size) for first, size in zip(offsets, trie.level_sizes, strict=True)]
    scores = session.start_window(windows[0])
    codes, first_child = trie.on(scores.device)
    scores = scores.index_select(1, codes[0])
    nodes = torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
    places = leading(scores, beam)
    scores, nodes = scores.gather(1, places), nodes.gather(1, places)
    parents = torch.zeros_like(places)
    for level in range(1, trie.levels):
        tokens = codes[level - 1][nodes].clamp(min=0) + offsets[level - 1]
        steps = session.step_window(parents, tokens, windows[level])
        below = first_child[level - 1], codes[level]
        children, candidates = _expand(*below, nodes, scores, steps, ends=trie.has_ends[level])
        width = children.shape[-1]
        candidates, children = candidates.flatten(1), children.flatten(1)
        places = leading(candidates, beam)
        scores, nodes = candidates.gather(1, places), children.gather(1, places)
        parents = places // width
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    return BeamResult(nodes.gather(1, order).masked_fill(scores == _DEAD, -1), scores)


def rank_items(result: BeamResult, trie: Trie, k: int) -> Ranking:
    """Turn leaves into items: those that share a SID follow each other in item order with the same score; cut at k."""
    leaves = result.leaves.cpu().numpy()
    live = leaves >= 0
    first = np.where(live, trie.first_item[leaves], 0)
    counts = np.where(live, trie.first_item[np.where(live, leaves + 1, 0)] - first, 0)
    ends = counts.cumsum(axis=1)
    slots = np.arange(k)
    # Which leaf fills place j: as many as end at or before it.
    beams = (ends[:, None, :] <= slots[None, :, None]).sum(axis=2)
    filled = beams < leaves.shape[1]
    beams = np.minimum(beams, leaves.shape[1] - 1)
    within = slots[None, :] - np.take_along_axis(ends - counts, beams, axis=1)
    source = np.where(filled, np.take_along_axis(first, beams, axis=1) + within, 0)
    scores = np.take_along_axis(result.log_probs.float().cpu().numpy(), beams, axis=1)
    return Ranking(
        items=np.where(filled, trie.items[source], -1).astype(np.int64),
        log_probs=np.where(filled, scores, -np.inf).astype(np.float32),
    )


def _expand(
    first_child: Tensor, codes: Tensor, nodes: Tensor, scores: Tensor, steps: Tensor, *, ends: bool
) -> tuple[Tensor, Tensor]:
    """Children [B, W, C] of ``nodes`` [B, W] and their scores; C is the largest family among the live ones."""
    first = first_child[nodes]
    counts = first_child[nodes + 1] - first
    within = torch.arange(int(counts.max()), device=nodes.device)
    children = (first[..., None] + within).clamp(max=len(codes) - 1)
    code = codes[children]
    gained = steps.gather(2, code.clamp(min=0) if ends else code)
    if ends:
        gained = gained.masked_fill(code < 0, 0.0)
    candidates = (gained + scores[..., None]).masked_fill(within >= counts[..., None], _DEAD)
    return children, candidates


def leading(scores: Tensor, keep: int) -> Tensor:
    """[B, min(keep, M)] places of the best of [B, M], ascending; equal scores go to the lower place.

    As places ascend, beams stay in node order from level to level, which makes "lower place" mean "lower node".
    """
    if scores.shape[1] <= keep:
        return torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
    values, places = scores.topk(keep + 1, dim=1)
    tied = (values[:, keep - 1] == values[:, keep]) & (values[:, keep] > _DEAD)
    if bool(tied.any()):
        places = scores.sort(dim=1, descending=True, stable=True).indices
    return places[:, :keep].sort(dim=1).values
