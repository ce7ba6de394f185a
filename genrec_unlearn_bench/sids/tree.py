"""How a tree of semantic IDs without codebooks lays out its codes (P5's sequential and collaborative indexers)."""

from __future__ import annotations

from genrec_unlearn_bench.config import StrictModel

__all__ = ["TreeCodes"]


class TreeCodes(StrictModel):
    """Code numbers of a tree: first those that say something, then the ordinals, then one that ends every SID.

    All levels have the same codes, and a code is the same token on whatever level it stands. SIDs may differ in
    length: an item is a run of content codes, its ordinal where the tree has ordinals, and the end code; -1 follows.
    As every SID ends with a code that stands nowhere else, none is a prefix of another.
    """

    content: int
    """Codes 0 … content - 1: digit pieces, or clusters."""
    ordinals: int = 0
    """The next so many count the items of a leaf; 0 for a tree whose content codes tell all items apart."""

    @property
    def end(self) -> int:
        """The code that ends a SID."""
        return self.content + self.ordinals

    @property
    def size(self) -> int:
        """Codes of every level."""
        return self.content + self.ordinals + 1
