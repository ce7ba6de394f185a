"""P5's collaborative indexer: a tree of clusters of items that the same users have had.

Hua et al. 2023 (arXiv 2305.06569): spectral clustering of the co-occurrence graph, again within every cluster that is
still too large; an item's ID is its path of clusters and its place in the last one. Clusters get the tokens 0, 1, 2, …
in the order in which they are found, breadth first, and begin anew at 0 when ``tokens`` are used up, as in the official
code.

Deviations: places have tokens of their own (officially those of clusters serve again), so that a code says one kind of
thing; a SID ends with an end code (officially the end-of-sequence token, which is scored too); items that no train user
has had together with another one are kept in a last cluster of their own, in the order of their ids, instead of being
points without edges in the graph; a cluster that the algorithm cannot split is cut in the order of its ids.
"""

from __future__ import annotations

import warnings
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.sids.train_sequences import user_items
from genrec_unlearn_bench.sids.tree import TreeCodes

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["co_occurrence", "collaborative_table"]

IntArray = NDArray[np.int64]


def co_occurrence(train: Examples, items: int) -> csr_array:
    """[N, N] sparse: how many train users have had both items; 0 on the diagonal."""
    had = user_items(train, items)
    pairs: csr_array = (had.T @ had).tocsr()
    pairs.setdiag(0)
    pairs.eliminate_zeros()
    # scikit-learn takes sparse matrices with narrow indices alone.
    pairs.indices, pairs.indptr = pairs.indices.astype(np.int32), pairs.indptr.astype(np.int32)
    return pairs


def collaborative_table(
    train: Examples, items: int, *, clusters: int, leaf_size: int, tokens: int, slack: int, seed: int
) -> SidTable:
    """The collaborative IDs of N items. They read the train rows alone (see ``train_sequences``).

    Args:
        clusters: Into how many clusters one is split.
        leaf_size: The most items that a cluster keeps unsplit; at least ``clusters``.
        tokens: Cluster tokens before numbering begins anew; more than ``clusters``.
        slack: Places beyond the largest cluster, for items that a method moves later.

    Raises:
        DataFault: There are no items.
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
    used = int((codes >= 0).sum(1).max())
    return SidTable(codes[:, :used], (tree.size,) * used, depth, tree=tree)


def _tree(
    graph: csr_array, *, clusters: int, leaf_size: int, tokens: int, seed: int
) -> tuple[list[tuple[int, ...]], IntArray]:
    """Each item's path of cluster tokens, and its place [N] in its last cluster."""
    paths: list[tuple[int, ...]] = [()] * graph.shape[0]
    places = np.zeros(graph.shape[0], dtype=np.int64)
    connected = np.diff(graph.indptr) > 0
    first = _parts(graph, np.flatnonzero(connected), clusters, seed)
    alone = np.flatnonzero(~connected)
    waiting: deque[tuple[tuple[int, ...], IntArray]] = deque()
    count = 0

    def found(path: tuple[int, ...], parts: list[IntArray]) -> None:
        nonlocal count
        for part in parts:
            waiting.append(((*path, count % tokens), part))
            count += 1

    found((), [*first, alone] if len(alone) else first)
    while waiting:
        path, members = waiting.popleft()
        if len(members) > leaf_size:
            found(path, _parts(graph, members, clusters, seed))
            continue
        for place, item in enumerate(members):
            paths[item], places[item] = path, place
    return paths, places


def _parts(graph: csr_array, members: IntArray, clusters: int, seed: int) -> list[IntArray]:
    """``members`` (ascending) split into at most ``clusters`` parts, each ascending, none of them empty or all."""
    if len(members) <= clusters:
        return [members] if len(members) else []
    labels = _labels(_within(graph, members), clusters, seed)
    parts = [members[labels == label] for label in np.unique(labels)]
    return parts if len(parts) > 1 else [part for part in np.array_split(members, clusters) if len(part)]


def _within(graph: csr_array, members: IntArray) -> csr_array:
    narrow = members.astype(np.int32)
    part: csr_array = graph[narrow][:, narrow]
    part.indices, part.indptr = part.indices.astype(np.int32), part.indptr.astype(np.int32)
    return part


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
