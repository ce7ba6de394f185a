"""Entanglement: how much of a value's neighbourhood would be retained if the value (brand, category) were forgotten.

Entanglement of a value v = share of its items' nearest neighbours that would be retained, weighted by popularity:

    E(v) = sum_{i in v} p_i e_i / sum_{i in v} p_i,    e_i = (e_i^text + e_i^history) / 2,
    e_i^kind = sum_{j in N(i), j not in v} p_j / (p_i + sum_{j in N(i)} p_j),

where p are numbers of train targets and N(i) are the neighbours of one kind (``data.neighbours``). So the two kinds
count equally, and a kind in which an item has no neighbours counts 0: an item is fully entangled only if both its text
and its buyers are near retained items. The item itself, its own nearest, stands in the denominator: without it every
value of a single item would have 1 as soon as it had any neighbour, however few would buy it. E lies in [0, 1), and is
0 for a value whose items are all alone or have neighbours among themselves only.

It rests on item texts and train histories alone, so that one draw serves all tokenizers and backbones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from genrec_unlearn_bench.data.draws import FloatArray
from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.data.neighbours import Neighbours

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def entanglement(members: csr_matrix, popularity: IntArray, neighbours: Neighbours) -> FloatArray:
    """[V] entanglement of values; 0 for one whose items are never bought.

    Args:
        members: [N, V] 1 where an item has a value.
        popularity: [N] train targets of each item.
    """
    from scipy import sparse

    p = popularity.astype(np.float64)
    weighted = sparse.diags(p) @ members
    total = np.zeros(members.shape[1])
    for adjacency in neighbours:
        around = adjacency @ p
        scale = np.divide(p, p + around, out=np.zeros_like(p), where=p > 0)
        inside = members.multiply(adjacency @ weighted)
        total += members.T @ (scale * around) - inside.T @ scale
    bought = np.asarray(members.T @ p)
    return np.asarray(np.divide(total / 2, bought, out=np.zeros_like(total), where=bought > 0).clip(0.0, 1.0))


def concept_entanglement(items: BoolArray, popularity: IntArray, neighbours: Neighbours) -> float:
    """Entanglement of the marked items [N] as one value."""
    from scipy import sparse

    return float(entanglement(sparse.csr_matrix(items.astype(np.int64)[:, None]), popularity, neighbours)[0])
