"""Token ids of a SID model: specials or a text vocabulary, then the codes, in one range a level or one for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["BOS", "EMPTY", "PAD_TOKEN", "SPECIALS", "SidVocabulary"]

PAD_TOKEN = 0
"""Padding, and T5's decoder start."""
BOS = 1
EMPTY = 2
"""Stands for a history without any item, so that no input has zero length."""
SPECIALS = 3


@dataclass(frozen=True)
class SidVocabulary:
    """Token = base + offset of the level + code (+ user tokens at the end).

    Levels never share token ids, unless ``shared``: then a code is the same token on every level (trees: the digit
    piece 12 is one word wherever it stands in a number).

    Attributes:
        base: Tokens in front of the SIDs': the specials, or all tokens of a text model.
    """

    level_sizes: tuple[int, ...]
    user_tokens: int = 0
    base: int = SPECIALS
    shared: bool = False

    @property
    def size(self) -> int:
        """V, all tokens."""
        return self.user_offset + self.user_tokens

    @property
    def offsets(self) -> tuple[int, ...]:
        """First token id of each level."""
        if self.shared:
            return (self.base,) * len(self.level_sizes)
        return tuple(self.base + sum(self.level_sizes[:level]) for level in range(len(self.level_sizes)))

    @property
    def user_offset(self) -> int:
        """First user token."""
        return self.base + (max(self.level_sizes) if self.shared else sum(self.level_sizes))

    def tokens(self, table: SidTable) -> NDArray[np.int64]:
        """[N, L] token ids of every item; ``PAD_TOKEN`` behind the end of a shorter SID."""
        tokens = table.codes + np.asarray(self.offsets, dtype=np.int64)[None, :]
        return np.where(table.codes < 0, PAD_TOKEN, tokens)
