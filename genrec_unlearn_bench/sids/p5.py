"""P5's indexers (Hua et al. 2023, "How to index item IDs for recommendation foundation models", arXiv 2305.06569).

Sequential: walking through the users in order gives items that are bought together neighbouring numbers, and these
share their leading pieces, so a shared prefix means shared customers.

Collaborative: spectral clustering of the co-occurrence graph, again within every cluster that is still too large; an
item's ID is its path of clusters and its place in the last one. Clusters get the tokens 0, 1, 2, … breadth first, and
begin anew at 0 when ``tokens`` are used up, as in the official code. Deviations: places have tokens of their own; a SID
ends with an end code; items that no train user has had together with another one are a last cluster of their own; a
cluster that the algorithm cannot split is cut in the order of its ids.

Both read the train rows' own histories and targets alone: ``Examples.events`` is shared with valid and test rows, so
reading it whole would leak what is to be predicted into the IDs, as P5's original numbering did."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.sids.table import SidTable, TreeCodes

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def walk(train: Examples) -> tuple[IntArray, IntArray]:
    """List users [W] and items [W]: user by user, each one's rows in time, history before target.

    An interaction shows up once for every row that has it in its history; first appearances and sets are what counts.
    """
    rows = train.subset(np.lexsort((np.arange(len(train)), train.times, train.users)))
    lengths = rows.ends - rows.starts + 1
    row = np.repeat(np.arange(len(rows)), lengths)
    place = np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]
    items = np.empty(len(row), dtype=np.int64)
    inside = place < lengths[row] - 1
    items[~inside] = rows.targets
    items[inside] = rows.events[rows.starts[row[inside]] + place[inside]]
    return rows.users[row], items


def appearance_order(train: Examples, items: int) -> IntArray:
    """[N] item ids by first appearance in ``walk``; those that never appear follow in the order of their ids."""
    import pandas as pd

    appeared = pd.unique(walk(train)[1])
    return np.concatenate([appeared, np.setdiff1d(np.arange(items), appeared)]).astype(np.int64)


def digit_pieces(number: int, width: int = 2) -> list[str]:
    """Runs of ``width`` digits from the left, the last one shorter where they do not come out even.

    1001 is 10-01 and 1002 is 10-02: neighbours share their leading pieces, as they do in T5's own sub-words.
    """
    digits = str(number)
    return [digits[first : first + width] for first in range(0, len(digits), width)]


def sequential_table(train: Examples, items: int, *, start: int, pieces: Callable[[int], Sequence[str]]) -> SidTable:
    """Make the sequential IDs of N items, numbered from ``start``; ``pieces`` cuts a number into pieces.

    Raises DataFault where there are no items, or two numbers have the same pieces.
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


def co_occurrence(train: Examples, items: int) -> csr_array:
    """[N, N] sparse: how many train users have had both items; 0 on the diagonal."""
    from scipy.sparse import csr_array

    users, seen = walk(train)
    had = csr_array((np.ones(len(seen)), (users, seen)), shape=(int(users.max(initial=-1)) + 1, items))
    had.data[:] = 1
    pairs: csr_array = (had.T @ had).tocsr()
    pairs.setdiag(0)
    pairs.eliminate_zeros()
    return _narrowed(pairs)


def collaborative_table(
    train: Examples, items: int, *, clusters: int, leaf_size: int, tokens: int, slack: int, seed: int
) -> SidTable:
    """Make the collaborative IDs of N items.

    Args:
        clusters: Into how many clusters one is split.
        leaf_size: The most items that a cluster keeps unsplit; at least ``clusters``.
        tokens: Cluster tokens before numbering begins anew; more than ``clusters``.
        slack: Places beyond the largest cluster, for items that a method moves later.

    Raises DataFault where there are no items.
    """
    if not items:
        raise DataFault("there are no items to be clustered", hint="check the dataset's filters")
    paths, places = _tree(co_occurrence(train, items), clusters=clusters, leaf_size=leaf_size, tokens=tokens, seed=seed)
    content = max(max(path) for path in paths) + 1
    tree = TreeCodes(content=content, ordinals=int(places.max()) + 1 + slack)
    depth = max(map(len, paths))
    codes = np.full((items, depth + 2), -1, dtype=np.int64)
    for item, path in enumerate(paths):
        codes[item, : len(path)] = path
        codes[item, len(path)] = tree.content + places[item]
        codes[item, len(path) + 1] = tree.end
    return SidTable(codes, (tree.size,) * (depth + 2), depth, tree=tree)


def _tree(
    graph: csr_array, *, clusters: int, leaf_size: int, tokens: int, seed: int
) -> tuple[list[tuple[int, ...]], IntArray]:
    """Each item's path of cluster tokens, and its place [N] in its last cluster."""
    paths: list[tuple[int, ...]] = [()] * graph.shape[0]
    places = np.zeros(graph.shape[0], dtype=np.int64)
    connected = np.diff(graph.indptr) > 0
    alone = np.flatnonzero(~connected)
    first = _parts(graph, np.flatnonzero(connected), clusters, seed) + ([alone] if len(alone) else [])
    numbers = cycle(range(tokens))
    waiting: deque[tuple[tuple[int, ...], IntArray]] = deque(((next(numbers),), part) for part in first)
    while waiting:
        path, members = waiting.popleft()
        if len(members) > leaf_size:
            waiting += [((*path, next(numbers)), part) for part in _parts(graph, members, clusters, seed)]
            continue
        for place, item in enumerate(members):
            paths[item], places[item] = path, place
    return paths, places


def _parts(graph: csr_array, members: IntArray, clusters: int, seed: int) -> list[IntArray]:
    """``members`` (ascending) split into at most ``clusters`` parts, each ascending, none of them empty or all."""
    if len(members) <= clusters:
        return [members] if len(members) else []
    narrow = members.astype(np.int32)
    labels = _labels(_narrowed(graph[narrow][:, narrow]), clusters, seed)
    parts = [members[labels == label] for label in np.unique(labels)]
    return parts if len(parts) > 1 else [part for part in np.array_split(members, clusters) if len(part)]


def _narrowed(graph: csr_array) -> csr_array:
    # scikit-learn takes sparse matrices with narrow indices alone.
    graph.indices, graph.indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)
    return graph


def _labels(graph: csr_array, clusters: int, seed: int) -> IntArray:
    """[n] cluster of each node of a co-occurrence graph."""
    from sklearn.cluster import SpectralClustering

    if graph.nnz == 0:
        return np.zeros(graph.shape[0], dtype=np.int64)
    model = SpectralClustering(
        n_clusters=clusters, affinity="precomputed", assign_labels="cluster_qr", random_state=seed % (1 << 32)
    )
    with warnings.catch_warnings():
        # Co-occurrence graphs come in pieces; each piece then has an eigenvector of its own, which is what is wanted.
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        warnings.filterwarnings("ignore", category=UserWarning, module="sklearn")
        found = model.fit_predict(graph)
    return np.asarray(found, dtype=np.int64)
