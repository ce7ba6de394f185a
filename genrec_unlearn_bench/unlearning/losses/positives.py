"""The positive set P(i): the retain items whose text is most similar to a concept item's (TRACER, sec. 3.2)."""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.sids.table import SidTable


def positive_set(
    features: ItemFeatures, table: SidTable, targets: IntArray, concept: BoolArray, count: int
) -> IntArray:
    """[n, count] nearest retain items of each of ``targets`` [n] by cosine of scrubbed text, -1 if there are fewer.

    Scrubbed text, because the plain texts nearest to a branded item are those that share the brand's name. Excluded:
    ``concept`` items [N], the target itself, and items with the target's quantised codes (a coherence target equal to
    the suppressed one would work against the forget loss).
    """
    codes = table.quantised_codes
    out = np.full((len(targets), count), -1, dtype=np.int64)
    for first in range(0, len(targets), 512):
        block = targets[first : first + 512]
        cosine = features.scrubbed[block] @ features.scrubbed.T
        same = (codes[block][:, None, :] == codes[None]).all(-1)
        cosine[same | concept[None, :]] = -np.inf
        cosine[np.arange(len(block)), block] = -np.inf
        best = np.argsort(-cosine, axis=1, kind="stable")[:, :count]
        found = np.isfinite(np.take_along_axis(cosine, best, axis=1))
        out[first : first + len(block), : best.shape[1]] = np.where(found, best, -1)
    return out
