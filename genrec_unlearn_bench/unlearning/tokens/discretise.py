"""From soft assignments to semantic IDs that no other item carries (R9).

The paper maps SIDs to items one-to-one but names no rule. Taking the argmax level by level can give a concept item
the SID of a retain item, which would then decode to a concept item. Here concept items choose in the order of their
certainty, each the best-scoring free SID.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["Reassignment", "best_first", "discretise"]

Scores = NDArray[np.float32]
Codes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Reassignment:
    """A new table and what it took.

    Attributes:
        moved_by_level: Items whose code changed, for each quantised level.
        moved: Items with any change.
        collisions: Items whose best SID was taken, so that a lower one was used.
        exhausted: Items for which none of the candidates was free, so that the last level was moved to a free code.
    """

    table: SidTable
    moved_by_level: tuple[int, ...]
    moved: int
    collisions: int
    exhausted: int


def best_first(scores: Sequence[Scores], limit: int) -> Iterator[Codes]:
    """Up to ``limit`` code tuples by descending sum of per-level scores ([K_l] each), ties by lower codes."""
    orders = [np.argsort(-level, kind="stable") for level in scores]

    def value(ranks: tuple[int, ...]) -> float:
        return -sum(float(level[order[rank]]) for level, order, rank in zip(scores, orders, ranks, strict=True))

    origin = (0,) * len(scores)
    heap = [(value(origin), origin)]
    seen = {origin}
    for _ in range(limit):
        if not heap:
            return
        _, ranks = heapq.heappop(heap)
        yield tuple(int(order[rank]) for order, rank in zip(orders, ranks, strict=True))
        for level in range(len(ranks)):
            following = (*ranks[:level], ranks[level] + 1, *ranks[level + 1 :])
            if following[level] < len(orders[level]) and following not in seen:
                seen.add(following)
                heapq.heappush(heap, (value(following), following))


def discretise(table: SidTable, items: IntArray, scores: Sequence[Scores], *, candidates: int = 64) -> Reassignment:
    """Give each of ``items`` the best free SID under ``scores``.

    Args:
        table: The table the items have now; all other items keep their SIDs.
        items: [n] item ids.
        scores: Q arrays [n, K_l], higher is better (−D + φ).
        candidates: How many SIDs are tried before the last level is moved to its best free code. In a tree the search
            goes on until one is free, and ``exhausted`` counts the items that needed more.

    In a tree an item keeps the number of its content codes and, where another item does not have it already, its
    ordinal; otherwise it takes the lowest free one. The end stays, so no SID becomes the prefix of another.

    An item keeps its whole SID, ordinal included, where its best free codes are those it has. Elsewhere the collision
    ordinal (if the table has one) is 0, because the codes are free.

    Raises:
        BenchError: There is no free SID left under an item's first codes.
    """
    if table.tree is not None:
        return _in_tree(table, items, scores, candidates)
    depth = table.quantised_levels
    old = table.codes[items]
    others = np.ones(len(table), dtype=np.bool_)
    others[items] = False
    taken = {tuple(int(c) for c in row) for row in table.codes[others, :depth]}
    newly_taken: set[Codes] = set()
    fresh = old.copy()
    collisions = exhausted = 0
    for row in _by_certainty(scores):
        own = tuple(int(c) for c in old[row, :depth])
        # An item that shared its codes before, told apart by its ordinal, may keep them; not so if a concept item
        # moved there with ordinal 0 in the meantime.
        keeps = own not in newly_taken
        choice = _choose([level[row] for level in scores], own if keeps else None, taken, candidates, int(items[row]))
        collisions += choice.tries > 0
        exhausted += choice.tries == candidates
        if choice.codes != own:
            fresh[row, :depth] = choice.codes
            fresh[row, depth:] = 0
            newly_taken.add(choice.codes)
        taken.add(choice.codes)
    changed = fresh != old
    return Reassignment(
        table=table.reassigned(items, fresh),
        moved_by_level=tuple(int(x) for x in changed[:, :depth].sum(axis=0)),
        moved=int(changed.any(axis=1).sum()),
        collisions=collisions,
        exhausted=exhausted,
    )


def _in_tree(table: SidTable, items: IntArray, scores: Sequence[Scores], candidates: int) -> Reassignment:
    old = table.codes[items]
    content = table.quantised_codes[items] >= 0
    others = np.ones(len(table), dtype=np.bool_)
    others[items] = False
    taken = {_tokens(row) for row in table.codes[others]}
    fresh = np.full_like(old, -1)
    collisions = exhausted = 0
    for row in _by_certainty(scores, content):
        levels = [level[row] for level, has in zip(scores, content[row], strict=True) if has]
        tries, sid = _choose_in_tree(table, levels, _tokens(old[row]), taken, int(items[row]))
        collisions += tries > 0
        exhausted += tries >= candidates
        fresh[row, : len(sid)] = sid
        taken.add(sid)
    changed = fresh != old
    return Reassignment(
        table=table.reassigned(items, fresh),
        moved_by_level=tuple(int(x) for x in (changed[:, : content.shape[1]] & content).sum(axis=0)),
        moved=int(changed.any(axis=1).sum()),
        collisions=collisions,
        exhausted=exhausted,
    )


def _choose_in_tree(
    table: SidTable, levels: Sequence[Scores], own: Codes, taken: set[Codes], item: int
) -> tuple[int, Codes]:
    """How many better paths were taken, and the best free one, end included."""
    tails = _tails(table, own, len(levels))
    # Every path that is turned down has at least one item, so a free one shows after at most as many as there are.
    for tries, path in enumerate(best_first(levels, len(table) + 1)):
        for tail in tails:
            if (*path, *tail) not in taken:
                return tries, (*path, *tail)
    raise BenchError(
        "every semantic ID of this length is taken",
        where=f"item {item}",
        hint="use more pieces or clusters, or a larger `collision_slack`",
    )


def _tails(table: SidTable, own: Codes, depth: int) -> list[Codes]:
    """What may follow an item's content codes: its own ordinal first, then all others; or the end alone."""
    tree = table.tree
    if tree is None or not tree.ordinals:
        return [own[depth:]]
    rest = [(code, tree.end) for code in range(tree.content, tree.end) if code != own[depth]]
    return [own[depth:], *rest]


def _tokens(row: IntArray) -> Codes:
    """A SID without what pads it."""
    return tuple(int(code) for code in row if code >= 0)


class _Choice(NamedTuple):
    codes: Codes
    tries: int


def _choose(levels: Sequence[Scores], own: Codes | None, taken: set[Codes], candidates: int, item: int) -> _Choice:
    """The best free codes, and how many better ones were taken (``candidates``: all that were tried)."""
    for tries, codes in enumerate(best_first(levels, candidates)):
        if codes == own or codes not in taken:
            return _Choice(codes, tries)
    return _Choice(_free_last_level(levels, taken, item), candidates)


def _by_certainty(scores: Sequence[Scores], content: BoolArray | None = None) -> IntArray:
    """Rows by descending smallest margin between the best and the second-best code of a level.

    ``content`` [n, Q] marks the levels that count for a row; all of them where it is not given.
    """
    margins = []
    for place, level in enumerate(scores):
        top = np.partition(level, -2, axis=1)[:, -2:] if level.shape[1] > 1 else np.zeros((len(level), 2))
        margin = top[:, 1] - top[:, 0]
        margins.append(margin if content is None else np.where(content[:, place], margin, np.inf))
    return np.argsort(-np.min(margins, axis=0), kind="stable").astype(np.int64)


def _free_last_level(levels: Sequence[Scores], taken: set[Codes], item: int) -> Codes:
    first = tuple(int(level.argmax()) for level in levels[:-1])
    for code in np.argsort(-levels[-1], kind="stable"):
        if (*first, int(code)) not in taken:
            return (*first, int(code))
    raise BenchError(f"no free semantic ID under codes {first}", where=f"item {item}", hint="use more codes per level")
