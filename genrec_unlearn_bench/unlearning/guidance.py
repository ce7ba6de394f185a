"""Expert and novice contexts, and decoding guided away from a concept (ELM, arXiv 2410.02760).

A model of SIDs cannot be prompted with "you are an expert in …": its only conditioning is the history. The expert
context is the history of a user who likes the concept, the novice context of one who never met it. Both are as long as
the history they are made from, so that positions keep their meaning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, length_batches
from genrec_unlearn_bench.data.examples import PAD, BoolArray, Histories, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.decoding.beam import beam_search
from genrec_unlearn_bench.decoding.session import DecoderSession
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.likelihood import resting
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import positive_set

_IMPLAUSIBLE = -1e4
"""Added to an implausible token's log p0: ranked last and unguided, but available if the trie leaves nothing else."""


@dataclass(frozen=True, eq=False)
class Contrast:
    """A batch of histories and their two contexts, of the same length row by row."""

    base: Histories
    expert: Histories
    novice: Histories

    def stacked(self) -> Histories:
        """[3 B] base, expert and novice in one batch."""
        parts = (self.base, self.expert, self.novice)
        return Histories(np.concatenate([p.items for p in parts]), np.concatenate([p.users for p in parts]))


class Contexts:
    """Sampler of expert and novice contexts; ``count`` (m) oldest items are replaced, or all of a shorter history.

    For interaction requests, a user's concept items are those of the user's own forgotten pairs: all affected items
    together are a random part of the catalogue, and liking them means nothing.
    """

    def __init__(self, request: ForgetRequest, table: SidTable, *, count: int) -> None:
        self._request, self._count = request, count
        self.by_user = request.kind is ConceptKind.INTERACTION
        self._width = len(request.items)
        self._keys = np.unique(request.pairs[:, 0] * self._width + request.pairs[:, 1])
        self._pool = self._keys % self._width if self.by_user else request.item_ids
        affected = request.affected_items
        retain = np.flatnonzero(~affected)
        self._retain = retain if len(retain) else np.arange(len(affected))
        concept = np.flatnonzero(affected).astype(np.int64)
        self._nearest = np.full(len(affected), PAD, dtype=np.int64)
        self._nearest[concept] = positive_set(request.features, table, concept, affected, 1)[:, 0]

    def pools(self, users: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The concept items of each user: flat ids, and [B] offset and count in them."""
        if not self.by_user:
            return self._pool, np.zeros_like(users), np.full_like(users, len(self._pool))
        first = np.searchsorted(self._keys, users * self._width)
        return self._pool, first, np.searchsorted(self._keys, (users + 1) * self._width) - first

    def draw(self, histories: Histories, generator: np.random.Generator) -> Contrast:
        """Expert: the m oldest items that are not concept items are replaced by random concept items of the user.

        Novice: concept items are replaced by their nearest retain items (a random one if there is none); a history
        without concept items has its m oldest replaced by random retain items, so that both contexts differ as much.
        """
        items = histories.items
        concept = self._request.concept_places(items, histories.users)
        other = (items != PAD) & ~concept
        oldest = other & (np.cumsum(other, axis=1) <= self._count)
        pool, first, number = self.pools(histories.users)
        draws = np.floor(generator.random(items.shape) * number[:, None]).astype(np.int64)
        chosen = pool[np.minimum(first[:, None] + draws, len(pool) - 1)] if len(pool) else items
        expert = np.where(oldest & (number > 0)[:, None], chosen, items)
        random = self._retain[generator.integers(len(self._retain), size=items.shape)]
        nearest = self._nearest[np.where(concept, items, 0)]
        calm = np.where(concept, np.where(nearest == PAD, random, nearest), items)
        untouched = ~concept.any(axis=1, keepdims=True)
        novice = np.where(untouched & oldest, random, calm)
        return Contrast(histories, Histories(expert, histories.users), Histories(novice, histories.users))


class GuidedSession:
    """A ``DecoderSession`` with log-probabilities log p0 - weight (log p+ - log p-), normalised.

    All three sessions (base, expert and novice) decode the same beams. A window is normalised by itself: over the full
    vocabulary, the ratio of two tiny probabilities of unused tokens could dominate. Tokens less likely than the share
    ``floor`` of the likeliest under ``base`` are ranked last; 0 disables it.
    """

    def __init__(self, *sessions: DecoderSession, weight: float, floor: float = 0.0) -> None:
        self._sessions, self._weight, self._floor = sessions, weight, floor

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
) -> IntArray:
    """[M] the item decoded from each history under guidance; never one that shares its SID with a concept item.

    It is the best SID of a narrow beam, not a sample as in the paper: a weight of 3 leaves a steep distribution over
    three or four tokens, of which single draws are mostly noise. Variety comes from the histories and their contexts.

    Concept leaves are removed from the trie. For interaction requests, where each user has other items to forget, the
    beam is wide enough to contain one that is not among them.
    """
    table = recommender.sids
    _, sid = np.unique(table.codes, axis=0, return_inverse=True)
    sid = sid.ravel()
    trie = Trie.build(table.codes, table.level_sizes, blocked=_blocked(recommender, contexts, sid))
    found = np.zeros(len(histories), dtype=np.int64)
    with resting(recommender), torch.inference_mode():
        opened = recommender.server()
        for rows in length_batches(histories.lengths, 128):
            contrast = contexts.draw(histories.rows(rows), generator)
            sessions = [opened(part) for part in (contrast.base, contrast.expert, contrast.novice)]
            session = GuidedSession(*sessions, weight=weight, floor=floor)
            pool, first, number = contexts.pools(contrast.base.users)
            wide = max(beam, 1 + int(number.max(initial=0))) if contexts.by_user else beam
            leaves = beam_search(session, trie, recommender.vocabulary.offsets, beam=wide).leaves.cpu().numpy()
            items = trie.items[trie.first_item[np.maximum(leaves, 0)]]
            for row, candidates in enumerate(items):
                own = pool[first[row] : first[row] + number[row]]
                free = (leaves[row] >= 0) & ~np.isin(sid[candidates], sid[own])
                found[rows[row]] = candidates[int(free.argmax())]
    return found


def _blocked(recommender: Recommender, contexts: Contexts, sid: IntArray) -> BoolArray:
    """[N] items to remove from the trie: concept items, items that share a SID with them, and items not served."""
    served = recommender.serving.blocked
    blocked = np.zeros(len(sid), dtype=np.bool_) if served is None else served.copy()
    if not contexts.by_user:
        pool, _, _ = contexts.pools(np.zeros(1, dtype=np.int64))
        blocked |= np.isin(sid, sid[pool])
    return blocked
