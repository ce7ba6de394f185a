"""P5's sequential indexer: items numbered by first appearance, the numbers written in pieces.

Hua et al. 2023, "How to index item IDs for recommendation foundation models" (arXiv 2305.06569): walking through the
users in order gives items that are bought together neighbouring numbers, and neighbouring numbers share their leading
pieces, so a shared prefix means shared customers. Numbers start at 1 there and at 1001 in OpenP5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.sids.train_sequences import appearance_order
from genrec_unlearn_bench.sids.tree import TreeCodes

__all__ = ["sequential_table"]


def sequential_table(train: Examples, items: int, *, start: int, pieces: Callable[[int], Sequence[str]]) -> SidTable:
    """The sequential IDs of N items. They read the train rows alone (see ``train_sequences``).

    Args:
        start: The first number.
        pieces: Cuts a number into pieces; different numbers must give different pieces.

    Raises:
        DataFault: There are no items, or two numbers have the same pieces.
    """
    if not items:
        raise DataFault("there are no items to be numbered", hint="check the dataset's filters")
    written = [tuple(pieces(start + place)) for place in range(items)]
    if len(set(written)) < items or not all(written):
        raise DataFault(
            "the tokenizer writes different numbers with the same pieces, so they cannot tell items apart",
            hint="use another tokenizer, or none",
        )
    names = sorted({piece for number in written for piece in number}, key=lambda piece: (len(piece), piece))
    code = {piece: index for index, piece in enumerate(names)}
    tree = TreeCodes(content=len(names))
    depth = max(map(len, written))
    codes = np.full((items, depth + 1), -1, dtype=np.int64)
    for item, number in zip(appearance_order(train, items), written, strict=True):
        codes[item, : len(number)] = [code[piece] for piece in number]
        codes[item, len(number)] = tree.end
    return SidTable(codes, (tree.size,) * (depth + 1), depth, tree=tree)
