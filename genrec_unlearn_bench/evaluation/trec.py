"""TREC run and qrels lines, so that any other evaluation tool can be held against ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.decoding.ranking import Ranking

__all__ = ["trec_qrels", "trec_run"]


def trec_run(
    ranking: Ranking, *, ids: Sequence[str] | None = None, tag: str = "genrec_unlearn_bench", first: int = 0
) -> Iterator[str]:
    """``qid Q0 docno rank score tag``, one line a filled place; the qid is the row's number, counted from ``first``.

    The score is k + 1 - rank instead of the log-probability: readers of runs sort by score and break ties by the
    document's name, which would undo our order (ties by item id) wherever items share a SID.

    Args:
        ids: Names of the items by item id; the number itself where None.
    """
    width = ranking.items.shape[1]
    for row, items in enumerate(ranking.items.tolist(), start=first):
        for place, item in enumerate(items, start=1):
            if item >= 0:
                yield f"{row} Q0 {_name(item, ids)} {place} {width + 1 - place} {tag}"


def trec_qrels(targets: IntArray, *, ids: Sequence[str] | None = None, first: int = 0) -> Iterator[str]:
    """``qid 0 docno 1``, one line a test example."""
    for row, item in enumerate(targets.tolist(), start=first):
        yield f"{row} 0 {_name(item, ids)} 1"


def _name(item: int, ids: Sequence[str] | None) -> str:
    # Columns are separated by blanks, so that a blank in an item's own identifier would shift them.
    return str(item) if ids is None else "_".join(ids[item].split())
