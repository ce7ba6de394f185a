"""Serving a recommender: histories in batches of similar length, beams over the trie, leaves to items."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender, length_batches
from genrec_unlearn_bench.data.examples import BoolArray, Histories
from genrec_unlearn_bench.decoding.beam import beam_search, exact_search, rank_items
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TrieCache", "ranked"]

BATCH_BEAMS = 1600
"""Beams decoded at once: beyond this the caches of a CPU overflow and nothing is gained."""


class TrieCache:
    """The tries of the last few tables: building one takes milliseconds, but it is asked for batch by batch."""

    def __init__(self, size: int = 2) -> None:
        self._size = size
        self._tries: dict[str, Trie] = {}

    def get(self, table: SidTable, blocked: BoolArray | None) -> Trie:
        """The trie over ``table`` without the blocked items."""
        gone = hashlib.blake2b(b"" if blocked is None else np.packbits(blocked).tobytes(), digest_size=16)
        key = table.digest + gone.hexdigest()
        if key not in self._tries:
            while len(self._tries) >= self._size:
                self._tries.pop(next(iter(self._tries)))
            self._tries[key] = Trie.build(table.codes, table.level_sizes, blocked=blocked)
        return self._tries[key]


def ranked(recommender: Recommender, trie: Trie, histories: Histories, k: int, *, beam: int, exact: bool) -> Ranking:
    """Rank items for every history.

    Raises:
        ValueError: ``k`` or ``beam`` is not positive.
    """
    if k < 1 or beam < 1:
        raise ValueError(f"k and beam must be positive, got {k} and {beam}")
    items = np.full((len(histories), k), -1, dtype=np.int64)
    log_probs = np.full((len(histories), k), -np.inf, dtype=np.float32)
    module = recommender.module
    was_training = module.training
    module.eval()
    try:
        with torch.inference_mode():
            for rows, part in _parts(recommender, trie, histories, k, beam=beam, exact=exact):
                items[rows], log_probs[rows] = part.items, part.log_probs
    finally:
        module.train(was_training)
    return Ranking(items, log_probs)


def _parts(
    recommender: Recommender, trie: Trie, histories: Histories, k: int, *, beam: int, exact: bool
) -> Iterator[tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Ranking]]:
    batch = max(16, min(256, BATCH_BEAMS // beam))
    offsets = recommender.vocabulary.offsets
    opened = recommender.server()
    for rows in length_batches(np.minimum(histories.lengths, recommender.history_limit), batch):
        session = opened(histories.rows(rows))
        found = (
            exact_search(session, trie, offsets, keep=k) if exact else beam_search(session, trie, offsets, beam=beam)
        )
        yield rows, rank_items(found, trie, k)
