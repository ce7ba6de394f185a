"""The whole catalogue ranked, without pruning: the oracle of beam search.

Every node of the trie is expanded, level by level, in blocks of neighbouring nodes. A block's ancestors are neighbours
too, so each block is one descent from the root that shares all prefixes within the block. The cost is one decoder
position a node: affordable up to some tens of thousands of items (cornac finds beam 50 within half a per cent of it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.decoding.beam import BeamResult, level_window, top
from genrec_unlearn_bench.decoding.session import DecoderSession
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.decoding.window import first_log_probs, next_log_probs

__all__ = ["exact_search"]


@torch.inference_mode()
def exact_search(
    session: DecoderSession, trie: Trie, offsets: Sequence[int], *, keep: int, positions: int = 8192
) -> BeamResult:
    """The ``keep`` best leaves of each history among all leaves.

    Args:
        session: B histories. ``start`` is called once a block and must begin anew.
        keep: Leaves returned; at least the k that ``rank_items`` will cut at.
        positions: Decoder positions (histories x nodes) worked on at a time, which bounds the memory.
    """
    best: BeamResult | None = None
    scores = first_log_probs(session, level_window(trie, offsets, 0))
    width = max(1, positions // scores.shape[0])
    for ranges in _blocks(trie, width):
        scores = _descend(session, trie, offsets, ranges)
        leaves = torch.arange(ranges[-1][0], ranges[-1][1], device=scores.device).expand_as(scores)
        block = top(scores, leaves, keep)
        best = block if best is None else _merged(best, block, keep)
    if best is None:
        raise ValueError("a trie has at least one leaf")
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
    steps = first_log_probs(session, level_window(trie, offsets, 0))
    low, high = ranges[0]
    codes = torch.from_numpy(trie.codes[0][low:high]).to(steps.device)
    scores = steps.index_select(1, codes)
    parents = torch.zeros_like(codes)
    for level in range(1, trie.levels):
        tokens = (codes.clamp(min=0) + offsets[level - 1]).expand(len(scores), -1)
        steps = next_log_probs(session, parents.expand(len(scores), -1), tokens, level_window(trie, offsets, level))
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
