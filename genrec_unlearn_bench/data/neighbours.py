"""Nearest neighbours of items by text and by co-purchase, and entanglement: how much of a value's neighbourhood would
be retained if the value (brand, category) were forgotten. From a dataset alone: no tokenizer, encoder or model.

Two items are neighbours of one kind if each is among the other's ``NEAREST`` most similar items (mutual nearest
neighbours: Brito et al. 1997, doi 10.1016/S0167-7152(96)00213-1). Unlike the plain nearest neighbours, an item that
nothing resembles has none, and an item that resembles everything does not become everybody's.

- **text**: cosine of TF-IDF vectors of the items' whole texts (``ItemTable.plain_text``), above 0.
- **history**: cosine of the sets of users in whose train sequences the items stand, c_ij / sqrt(c_i c_j), of items that
  at least ``FEWEST_USERS`` users have in common: one user in common is chance.

TF-IDF is written out here instead of taken from scikit-learn, because what a task resolves to must never change under
one version. For the same reason similarities are rounded before they are compared, and ties go by item number.

Entanglement of a value v = share of its items' nearest neighbours that would be retained, weighted by popularity:

    E(v) = sum_{i in v} p_i e_i / sum_{i in v} p_i,    e_i = (e_i^text + e_i^history) / 2,
    e_i^kind = sum_{j in N(i), j not in v} p_j / (p_i + sum_{j in N(i)} p_j),

where p are numbers of train targets and N(i) are the neighbours of one kind. So the two kinds count equally, and a kind
in which an item has no neighbours counts 0: an item is fully entangled only if both its text and its buyers are near
retained items. The item itself, its own nearest, stands in the denominator: without it every value of a single item
would have 1 as soon as it had any neighbour, however few would buy it. E lies in [0, 1), and is 0 for a value whose
items are all alone or have neighbours among themselves only.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray, distinct
from genrec_unlearn_bench.data.items import ItemTable

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

NEAREST = 3
"""Items that count as the most similar of one item, for each kind. With 5, half of the retain rows of the demo and of
Steam would be near an entangled concept, and there would be little to hold them against."""
FEWEST_USERS = 2
"""Users that two items must have in common to be neighbours by history."""
COMMON_WORD = 0.1
"""A word that more of the texts than this contain says little about which items are alike, and is left out."""
COMMON_TEXTS = 5_000
"""The same as a number of texts, so that the work grows with the items and not with their square."""
_SMALL = 200
"""Below so many texts no word is left out as common: a tenth of them is a handful."""
_ROWS = 512
"""Items compared with all others at a time."""
_DIGITS = 9
_WORD = re.compile(r"[^\W_]+")


class Neighbours(NamedTuple):
    """Symmetric adjacency [N, N] of 0 and 1 with an empty diagonal, one of each kind."""

    text: csr_matrix
    history: csr_matrix

    def of(self, items: BoolArray) -> BoolArray:
        """[N] which other items are neighbours, of either kind, of a marked one. ``items``: [N]."""
        marked = items.astype(np.float64)
        return np.asarray((self.text @ marked + self.history @ marked > 0) & ~items, dtype=np.bool_)


def find_neighbours(dataset: Dataset) -> Neighbours:
    """Neighbours of every item, from the item texts and the train part."""
    return Neighbours(text_neighbours(dataset.items), history_neighbours(dataset.train, len(dataset.items)))


def history_neighbours(train: Examples, count: int) -> csr_matrix:
    """Adjacency [N, N] by co-purchase, for ``count`` items; valid and test interactions play no part."""
    from scipy import sparse

    covered = np.zeros(len(train.events) + 1, dtype=np.int64)
    np.add.at(covered, train.starts, 1)
    np.add.at(covered, train.ends, -1)
    seen = np.cumsum(covered[:-1]) > 0
    users = np.concatenate([train.event_users[seen], train.users])
    codes = distinct(users * count + np.concatenate([train.events[seen], train.targets]))
    width = int(users.max(initial=-1)) + 1
    ones = np.ones(len(codes), dtype=np.float64)
    sets = sparse.csr_matrix((ones, (codes % count, codes // count)), shape=(count, width))
    return _mutual(sets, np.asarray(sets.sum(axis=1)).ravel())


def text_neighbours(items: ItemTable) -> csr_matrix:
    """Adjacency [N, N] by text; items without any text have no neighbours.

    Unit rows of words, case folded, with weights (1 + ln tf) (ln((1 + N) / (1 + df)) + 1).
    """
    from scipy import sparse

    fields = (items.titles, items.brands_raw, items.categories, items.descriptions, items.texts)
    # An item whose text is only its id says nothing.
    texts = [text if any(own) else "" for text, *own in zip(items.plain_text(), *fields, strict=True)]
    counts = [Counter(_WORD.findall(text.casefold())) for text in texts]
    frequency = Counter(word for found in counts for word in found)
    most = min(len(texts) * COMMON_WORD, COMMON_TEXTS) if len(texts) >= _SMALL else len(texts)
    # A word of one text stays: it makes nobody alike, but belongs to the length of its row.
    words = {word: place for place, word in enumerate(sorted(word for word, df in frequency.items() if df <= most))}
    where = [(row, words[word], n) for row, found in enumerate(counts) for word, n in found.items() if word in words]
    rows, columns, numbers = np.asarray(where, dtype=np.int64).reshape(-1, 3).T
    df = np.asarray([frequency[word] for word in words], dtype=np.float64)
    values = (1 + np.log(numbers)) * (np.log((1 + len(texts)) / (1 + df)) + 1)[columns]
    lengths = np.sqrt(np.bincount(rows, weights=values**2, minlength=len(texts)))
    return _mutual(sparse.csr_matrix((values / lengths[rows], (rows, columns)), shape=(len(texts), len(words))))


def _mutual(weights: csr_matrix, sizes: NDArray[np.float64] | None = None) -> csr_matrix:
    """Adjacency [N, N] of mutual nearest neighbours by the products of the rows of ``weights`` [N, F].

    With ``sizes`` [N] the rows are sets of 0 and 1: a product is what two have in common, of which ``FEWEST_USERS`` are
    needed, and is divided by the geometric mean of the two sizes.
    """
    from scipy import sparse

    count, transposed = weights.shape[0], weights.T.tocsr()
    targets: list[IntArray] = []
    for first in range(0, count, _ROWS):
        products = weights[first : first + _ROWS] @ transposed
        for row, (start, end) in enumerate(pairwise(products.indptr), start=first):
            columns, values = products.indices[start:end], products.data[start:end]
            if sizes is not None:
                common = values >= FEWEST_USERS
                columns = columns[common]
                values = values[common] / np.sqrt(sizes[row] * sizes[columns])
            others = columns != row
            targets.append(_largest(columns[others], np.round(values[others], _DIGITS)))
    sources = np.repeat(np.arange(count), [len(found) for found in targets])
    where = sources, np.concatenate([np.empty(0, dtype=np.int64), *targets])
    nearest = sparse.csr_matrix((np.ones(len(sources)), where), shape=(count, count))
    return nearest.multiply(nearest.T).tocsr()


def _largest(columns: NDArray[np.int32], values: NDArray[np.float64]) -> IntArray:
    """The ``NEAREST`` columns with the largest positive values; of equal ones the first."""
    if len(values) > NEAREST:
        least = np.partition(values, -NEAREST)[-NEAREST]
        columns, values = columns[values >= least], values[values >= least]
    order = np.lexsort((columns, -values))[:NEAREST]
    return columns[order][values[order] > 0].astype(np.int64)


def entanglement(members: csr_matrix, popularity: IntArray, neighbours: Neighbours) -> NDArray[np.float64]:
    """[V] entanglement of values; 0 for one whose items are never bought. ``members``: [N, V] 1 where an item has a
    value; ``popularity``: [N] train targets of each item."""
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
