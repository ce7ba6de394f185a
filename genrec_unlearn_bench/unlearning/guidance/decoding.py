"""Guided decoding away from a concept (ELM): beam search on a session that combines three others.

ELM's consistency term needs one item per history. It is the best SID of a narrow beam, not a sample as in the paper: a
weight of 3 leaves a steep distribution over three or four tokens, of which single draws are mostly noise. Variety comes
from the histories and their contexts.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, length_batches
from genrec_unlearn_bench.data.examples import BoolArray, Histories, IntArray
from genrec_unlearn_bench.decoding.beam import beam_search
from genrec_unlearn_bench.decoding.session import DecoderSession
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.unlearning.guidance.contexts import Contexts
from genrec_unlearn_bench.unlearning.reference import resting

_IMPLAUSIBLE = -1e4
"""Added to an implausible token's log p0: ranked last and unguided, but available if the trie leaves nothing else."""


class GuidedSession:
    """A ``DecoderSession`` with log-probabilities log p0 - weight (log p+ - log p-), normalised.

    All three sessions decode the same beams. A window is normalised by itself: over the full vocabulary, the ratio of
    two tiny probabilities of unused tokens could dominate.

    Args:
        floor: Tokens less likely than this share of the likeliest under ``base`` are ranked last; 0 disables it.
    """

    def __init__(
        self,
        base: DecoderSession,
        expert: DecoderSession,
        novice: DecoderSession,
        *,
        weight: float,
        floor: float = 0.0,
    ) -> None:
        self._sessions = (base, expert, novice)
        self._weight, self._floor = weight, floor

    def start_window(self, window: slice) -> Tensor:
        return self._combined([s.start_window(window).log_softmax(-1) for s in self._sessions])

    def step_window(self, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
        return self._combined([s.step_window(parents, tokens, window).log_softmax(-1) for s in self._sessions])

    def _combined(self, values: list[Tensor]) -> Tensor:
        base, expert, novice = values
        scores = base - self._weight * (expert - novice)
        if self._floor:
            likely = base >= base.amax(-1, keepdim=True) + math.log(self._floor)
            scores = torch.where(likely, scores, base + _IMPLAUSIBLE)
        return scores.log_softmax(-1)


def guided_items(
    recommender: Recommender,
    histories: Histories,
    contexts: Contexts,
    generator: np.random.Generator,
    *,
    weight: float,
    floor: float = 0.0,
    beam: int = 10,
    batch_size: int = 128,
) -> IntArray:
    """[M] the item decoded from each history under guidance; never one that shares its SID with a concept item.

    Concept leaves are removed from the trie. For interaction requests, where each user has other items to forget, the
    beam is wide enough to contain one that is not among them.
    """
    table, forgotten = recommender.sids, contexts.forgotten
    _, sid = np.unique(table.codes, axis=0, return_inverse=True)
    sid = sid.ravel()
    trie = Trie.build(table.codes, table.level_sizes, blocked=_blocked(recommender, contexts, sid))
    found = np.zeros(len(histories), dtype=np.int64)
    with resting(recommender), torch.inference_mode():
        opened = recommender.server()
        for rows in length_batches(histories.lengths, batch_size):
            contrast = contexts.draw(histories.rows(rows), generator)
            sessions = [opened(part) for part in (contrast.base, contrast.expert, contrast.novice)]
            session = GuidedSession(*sessions, weight=weight, floor=floor)
            pool, first, number = forgotten.pools(contrast.base.users)
            wide = max(beam, 1 + int(number.max(initial=0))) if forgotten.by_user else beam
            leaves = beam_search(session, trie, recommender.vocabulary.offsets, beam=wide).leaves.cpu().numpy()
            items = trie.items[trie.first_item[np.maximum(leaves, 0)]]
            for row, candidates in enumerate(items):
                own = pool[first[row] : first[row] + number[row]]
                free = (leaves[row] >= 0) & ~np.isin(sid[candidates], sid[own])
                found[rows[row]] = candidates[int(free.argmax())]
    return found


def _blocked(recommender: Recommender, contexts: Contexts, sid: IntArray) -> BoolArray:
    """[N] items to remove from the trie: concept items, items that share a SID with them, and items not served."""
    blocked = np.zeros(len(sid), dtype=np.bool_)
    if recommender.serving.blocked is not None:
        blocked |= recommender.serving.blocked
    if not contexts.forgotten.by_user:
        pool, _, _ = contexts.forgotten.pools(np.zeros(1, dtype=np.int64))
        blocked |= np.isin(sid, sid[pool])
    return blocked
