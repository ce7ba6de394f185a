"""RepNoise's pairs of answers to one history: the forgotten item (harmful) and a similar retain item (harmless)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.losses.positives import positive_set
from genrec_unlearn_bench.unlearning.request import ForgetRequest


@dataclass(frozen=True, eq=False)
class RefusalPairs:
    """M pairs, in the order of the forget examples of ``request``, which is left with those that have a pair.

    Attributes:
        harmless: [M] retain items.
        differ: [M, L] positions where both SIDs have a content code and the codes differ.
        skipped: Number of forget examples without a pair: P(i) is empty, or the SIDs do not differ.
    """

    request: ForgetRequest
    harmless: IntArray
    differ: BoolArray
    skipped: int


def refusal_pairs(request: ForgetRequest, table: SidTable, neighbours: int) -> RefusalPairs:
    """Draw one item of P(i) for every forget example. In interaction requests it may be any other item."""
    forget = request.train.forget
    distinct, row = np.unique(forget.targets, return_inverse=True)
    positives = positive_set(request.features, table, distinct.astype(np.int64), request.items, neighbours)[row]
    found = (positives >= 0).sum(1)  # Missing items (-1) come last.
    place = (numpy_generator(request.seed, "refusals").random(len(forget)) * found).astype(np.int64)
    harmless = positives[np.arange(len(forget)), place]
    codes = table.quantised_codes
    one, two = codes[forget.targets], codes[np.maximum(harmless, 0)]
    differ = np.zeros((len(forget), table.levels), dtype=bool)
    differ[:, : codes.shape[1]] = (one >= 0) & (two >= 0) & (one != two)
    kept = (harmless >= 0) & differ.any(1)
    train = replace(request.train, forget=forget.subset(kept))
    return RefusalPairs(replace(request, train=train), harmless[kept], differ[kept], int((~kept).sum()))
