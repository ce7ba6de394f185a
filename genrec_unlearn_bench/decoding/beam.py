"""Search over a trie, by beam or exhaustively: only SIDs of the catalogue, with the model's own probabilities.

The score of an item is the sum of the log-probabilities of exactly its L SID tokens, softmax over the full vocabulary;
the trie then chooses among the children. It is never normalised over the children, and no end-of-sequence token is
scored: both would change the ranking. Lists equal those of Hugging Face's ``generate`` with
``prefix_allowed_tokens_fn`` and ``length_penalty=0``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.decoding.session import DecoderSession
from genrec_unlearn_bench.decoding.trie import Trie, TrieTensors

_DEAD = float("-inf")


@dataclass(frozen=True, eq=False)
class BeamResult:
    """The best leaves of B histories, best first; equal scores are in node order (lowest code first).

    Attributes:
        leaves: [B, W] long, leaf numbers of the trie, -1 at dead places.
        log_probs: [B, W] float32, -inf at dead places.
    """

    leaves: Tensor
    log_probs: Tensor


@torch.inference_mode()
def beam_search(session: DecoderSession, trie: Trie, offsets: Sequence[int], *, beam: int) -> BeamResult:
    """Find the best SIDs, keeping ``beam`` prefixes on each level.

    Args:
        session: B histories, as the model encoded them.
        offsets: First vocabulary id of each level's codes.
        beam: W >= 1. A catalogue with fewer SIDs gives narrower results.

    Ties are broken towards the lower node on every level, so the result does not depend on how ``topk`` picks.
    """
    scores = session.start_window(level_window(trie, offsets, 0))
    tables = trie.on(scores.device)
    scores = scores.index_select(1, tables.codes[0])
    nodes = torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
    places = _leading(scores, beam)
    scores, nodes = scores.gather(1, places), nodes.gather(1, places)
    parents = torch.zeros_like(places)
    for level in range(1, trie.levels):
        tokens = tables.codes[level - 1][nodes].clamp(min=0) + offsets[level - 1]
        steps = session.step_window(parents, tokens, level_window(trie, offsets, level))
        children, candidates = _expand(tables, level, nodes, scores, steps, ends=trie.has_ends[level])
        width = children.shape[-1]
        candidates, children = candidates.flatten(1), children.flatten(1)
        places = _leading(candidates, beam)
        scores, nodes = candidates.gather(1, places), children.gather(1, places)
        parents = places // width
    return top(scores, nodes, beam)


def level_window(trie: Trie, offsets: Sequence[int], level: int) -> slice:
    """Range of vocabulary ids of a level's codes."""
    return slice(offsets[level], offsets[level] + trie.level_sizes[level])


def top(scores: Tensor, leaves: Tensor, keep: int) -> BeamResult:
    """Take the ``keep`` best of [B, M] candidates whose leaves ascend; -inf is dead."""
    places = _leading(scores, keep)
    scores, leaves = scores.gather(1, places), leaves.gather(1, places)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    leaves = leaves.gather(1, order).masked_fill(scores == _DEAD, -1)
    return BeamResult(leaves, scores)


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
    tables: TrieTensors, level: int, nodes: Tensor, scores: Tensor, steps: Tensor, *, ends: bool
) -> tuple[Tensor, Tensor]:
    """Children [B, W, C] of ``nodes`` [B, W] and their scores; C is the largest family among the live ones."""
    first = tables.first_child[level - 1][nodes]
    counts = tables.first_child[level - 1][nodes + 1] - first
    within = torch.arange(int(counts.max()), device=nodes.device)
    codes = tables.codes[level]
    children = (first[..., None] + within).clamp(max=len(codes) - 1)
    code = codes[children]
    gained = steps.gather(2, code.clamp(min=0) if ends else code)
    if ends:
        gained = gained.masked_fill(code < 0, 0.0)
    candidates = (gained + scores[..., None]).masked_fill(within >= counts[..., None], _DEAD)
    return children, candidates


def _leading(scores: Tensor, keep: int) -> Tensor:
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


@torch.inference_mode()
def exact_search(
    session: DecoderSession, trie: Trie, offsets: Sequence[int], *, keep: int, positions: int = 8192
) -> BeamResult:
    """Rank all leaves without pruning, the reference for beam search, and keep the ``keep`` best of each history.

    Every node of the trie is expanded, level by level, in blocks of neighbouring nodes. A block's ancestors are
    neighbours too, so each block is one descent from the root. The cost is one decoder position a node: affordable up
    to some tens of thousands of items (cornac finds beam 50 within half a per cent of it).

    Args:
        session: B histories. ``start_window`` is called once a block and must begin anew.
        keep: Leaves returned; at least the k that ``rank_items`` will cut at.
        positions: Decoder positions (histories x nodes) worked on at a time, which bounds the memory.
    """
    scores = session.start_window(level_window(trie, offsets, 0))
    width = max(1, positions // scores.shape[0])
    best = BeamResult(scores.new_empty(len(scores), 0, dtype=torch.long), scores.new_empty(len(scores), 0))
    for ranges in _blocks(trie, width):
        scores = _descend(session, trie, offsets, ranges)
        leaves = torch.arange(ranges[-1][0], ranges[-1][1], device=scores.device).expand_as(scores)
        best = _merged(best, top(scores, leaves, keep), keep)
    return best


def _blocks(trie: Trie, width: int) -> Iterator[list[tuple[int, int]]]:
    """Node ranges by level, root first, for blocks of about ``width`` nodes on the last level but one."""
    if trie.levels == 1:
        yield [(0, trie.leaves)]
        return
    for first in range(0, len(trie.codes[-2]), width):
        last = min(first + width, len(trie.codes[-2]))
        ranges = [(int(trie.first_child[-1][first]), int(trie.first_child[-1][last])), (first, last)]
        for level in range(trie.levels - 3, -1, -1):
            low, high = ranges[-1]
            children = trie.first_child[level]
            ranges.append(
                (
                    int(np.searchsorted(children, low, side="right")) - 1,
                    int(np.searchsorted(children, high - 1, side="right")),
                )
            )
        yield ranges[::-1]


def _descend(session: DecoderSession, trie: Trie, offsets: Sequence[int], ranges: Sequence[tuple[int, int]]) -> Tensor:
    """[B, leaves of the block] scores, by one descent that visits each node of the block's levels once."""
    steps = session.start_window(level_window(trie, offsets, 0))
    low, high = ranges[0]
    codes = torch.from_numpy(trie.codes[0][low:high]).to(steps.device)
    scores = steps.index_select(1, codes)
    parents = torch.zeros_like(codes)
    for level in range(1, trie.levels):
        tokens = (codes.clamp(min=0) + offsets[level - 1]).expand(len(scores), -1)
        steps = session.step_window(parents.expand(len(scores), -1), tokens, level_window(trie, offsets, level))
        family = np.diff(trie.first_child[level - 1][low : high + 1])
        # The first and the last ancestor may have children outside the block.
        starts = trie.first_child[level - 1][low:high]
        low, high = ranges[level]
        owners = np.repeat(np.arange(len(family)), family)[low - starts[0] : high - starts[0]]
        parents = torch.from_numpy(owners).to(steps.device)
        codes = torch.from_numpy(trie.codes[level][low:high]).to(steps.device)
        gained = steps.flatten(1).index_select(1, parents * steps.shape[2] + codes.clamp(min=0))
        if trie.has_ends[level]:
            gained = gained.masked_fill(codes < 0, 0.0)
        scores = scores.index_select(1, parents) + gained
    return scores


def _merged(best: BeamResult, block: BeamResult, keep: int) -> BeamResult:
    """The better of both; all leaves of ``block`` lie behind those of ``best``, so equal scores keep their order."""
    scores = torch.cat([best.log_probs, block.log_probs], dim=1)
    leaves = torch.cat([best.leaves, block.leaves], dim=1)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    return BeamResult(leaves.gather(1, order)[:, :keep].contiguous(), scores[:, :keep].contiguous())
