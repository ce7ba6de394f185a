"""Discretisation of soft assignments into unique semantic IDs (R9 in docs/methods.md).

The paper maps SIDs to items one-to-one but gives no rule. The argmax of each level can give a concept item the SID of a
retain item, which would then decode to a concept item. Here concept items are processed in order of certainty, and each
takes the free SID with the highest logits. A SID that any item had before is not free for another item, whether that
item has moved away or is yet to be processed: L_F suppresses the concept items' original SIDs, and a list decoded in
the original ID space must not show one concept item in the place of another.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.overlap import overlap
from genrec_unlearn_bench.sids.table import SidTable

Logits = NDArray[np.float32]
Codes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Reassignment:
    """A new table and numbers of items.

    Attributes:
        moved_by_level: Items whose code changed, per quantised level.
        moved: Items with any change.
        collisions: Items whose best SID was taken, so that a lower-ranked one was used.
        fallback_items: Items for which no candidate was free, so that the last level took a free code.
    """

    table: SidTable
    moved_by_level: tuple[int, ...]
    moved: int
    collisions: int
    fallback_items: int


def best_first(logits: Sequence[Logits], limit: int) -> Iterator[Codes]:
    """Up to ``limit`` code tuples by descending sum of per-level logits ([K_l] each), ties by lower codes."""
    orders = [np.argsort(-level, kind="stable") for level in logits]

    def value(ranks: tuple[int, ...]) -> float:
        return -sum(float(level[order[rank]]) for level, order, rank in zip(logits, orders, ranks, strict=True))

    origin = (0,) * len(logits)
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


def randomly_reassigned(
    table: SidTable, concept: BoolArray, rare_share: float, *, seed: int, progress: Progress
) -> SidTable:
    """The table with the marked items [N] at random SIDs of rarely used codes, the same for all methods of a seed."""
    logits = rare_code_logits(table, concept, rare_share, numpy_generator(seed, "random-reassign"))
    outcome = discretise(table, np.flatnonzero(concept), logits)
    note_reassignment(progress, table, outcome, concept)
    return outcome.table


def rare_code_logits(
    table: SidTable, concept: BoolArray, rare_share: float, generator: np.random.Generator
) -> list[Logits]:
    """Q arrays [n, K_l] for the n items of ``concept`` [N]: uniform random on the ``rare_share`` of each level's codes
    that retain items use least, 10 less on the others."""
    out = []
    for column, size in zip(table.quantised_codes[~concept].T, table.quantised_sizes, strict=True):
        counts = np.bincount(column[column >= 0], minlength=size)
        rare = np.argsort(counts, kind="stable")[: max(1, round(rare_share * size))]
        logits = generator.random((int(concept.sum()), size)).astype(np.float32)
        common = np.ones(size, dtype=np.bool_)
        common[rare] = False
        logits[:, common] -= 10
        out.append(logits)
    return out


def discretise(table: SidTable, items: IntArray, logits: Sequence[Logits], *, candidates: int = 64) -> Reassignment:
    """Give each of ``items`` the free SID with the highest sum of ``logits``.

    An item keeps its whole SID, ordinal included, if its best free codes are its current ones. Otherwise the collision
    ordinal (if the table has one) is 0, because the codes are free. In a tree an item keeps the number of its content
    codes, its end token (so no SID becomes a prefix of another) and, unless taken, its ordinal; otherwise it takes the
    lowest free one.

    Args:
        logits: Q arrays [n, K_l] (−D + φ) for the n items.
        candidates: Number of SIDs to try before the last level takes its best free code. In a tree the search goes on
            until one is free, and ``fallback_items`` counts the items that needed more.

    Raises BenchError if no free SID is left under an item's first codes.
    """
    content = table.quantised_codes[items] >= 0
    fresh, tries = (_flat if table.tree is None else _in_tree)(table, items, logits, content, candidates)
    changed = fresh != table.codes[items]
    return Reassignment(
        table=table.reassigned(items, fresh),
        moved_by_level=tuple(int(x) for x in (changed[:, : content.shape[1]] & content).sum(axis=0)),
        moved=int(changed.any(axis=1).sum()),
        collisions=sum(number > 0 for number in tries),
        fallback_items=sum(number >= candidates for number in tries),
    )


def note_reassignment(progress: Progress, before: SidTable, outcome: Reassignment, concept: BoolArray) -> None:
    """Note how many items moved and collided, and the token overlap Ω before and after."""
    progress.note("items_moved", outcome.moved)
    progress.note("items_moved_share", outcome.moved / max(int(concept.sum()), 1))
    progress.note("items_moved_by_level", list(outcome.moved_by_level))
    progress.note("collisions_avoided", outcome.collisions)
    progress.note("candidates_exhausted", outcome.fallback_items)
    progress.note("overlap_before", overlap(before, concept).quantised)
    progress.note("overlap_after", overlap(outcome.table, concept).quantised)


def _flat(
    table: SidTable, items: IntArray, logits: Sequence[Logits], content: BoolArray, candidates: int
) -> tuple[IntArray, list[int]]:
    """[n, L] new codes of ``items``, and how many better SIDs were taken, by item in order of certainty."""
    depth = table.quantised_levels
    old = table.codes[items]
    taken = {_tokens(row[:depth]) for row in table.codes}
    fresh, numbers = old.copy(), []
    for row in _by_certainty(logits, content):
        own = _tokens(old[row, :depth])
        tries, codes = _choose([level[row] for level in logits], own, taken, candidates, int(items[row]))
        numbers.append(tries)
        if codes != own:
            fresh[row, :depth] = codes
            fresh[row, depth:] = 0
        taken.add(codes)
    return fresh, numbers


def _in_tree(
    table: SidTable, items: IntArray, logits: Sequence[Logits], content: BoolArray, candidates: int
) -> tuple[IntArray, list[int]]:
    """As ``_flat``, for a tree; ``candidates`` sets no limit here."""
    old = table.codes[items]
    before = Counter(_tokens(row) for row in table.codes)
    taken = set(before)
    fresh, numbers = np.full_like(old, -1), []
    for row in _by_certainty(logits, content):
        levels = [level[row] for level, has in zip(logits, content[row], strict=True) if has]
        own = _tokens(old[row])
        if before[own] == 1:
            taken.remove(own)
        tries, sid = _choose_in_tree(table, levels, own, taken, int(items[row]))
        numbers.append(tries)
        fresh[row, : len(sid)] = sid
        taken |= {own, sid}
    return fresh, numbers


def _choose_in_tree(
    table: SidTable, levels: Sequence[Logits], own: Codes, taken: set[Codes], item: int
) -> tuple[int, Codes]:
    """The number of better paths that were taken, and the best free one, end token included."""
    tails = _tails(table, own, len(levels))
    # Every rejected path has an item or had one, so a free one is found after at most twice as many as there are items.
    for tries, path in enumerate(best_first(levels, 2 * len(table) + 1)):
        for tail in tails:
            if (*path, *tail) not in taken:
                return tries, (*path, *tail)
    raise BenchError(
        "every semantic ID of this length is taken",
        where=f"item {item}",
        hint="use more pieces or clusters, or a larger `collision_slack`",
    )


def _tails(table: SidTable, own: Codes, depth: int) -> list[Codes]:
    """Possible tokens after an item's content codes: its own ordinal first, then all others; or the end token alone."""
    tree = table.tree
    if tree is None or not tree.ordinals:
        return [own[depth:]]
    return [own[depth:], *((code, tree.end) for code in range(tree.content, tree.end) if code != own[depth])]


def _tokens(row: IntArray) -> Codes:
    return tuple(int(code) for code in row if code >= 0)


def _choose(levels: Sequence[Logits], own: Codes, taken: set[Codes], candidates: int, item: int) -> tuple[int, Codes]:
    """How many better codes were taken (``candidates`` if all that were tried), and the best free ones."""
    for tries, codes in enumerate(best_first(levels, candidates)):
        if codes == own or codes not in taken:
            return tries, codes
    first = tuple(int(level.argmax()) for level in levels[:-1])
    for code in np.argsort(-levels[-1], kind="stable"):
        if (*first, int(code)) not in taken:
            return candidates, (*first, int(code))
    raise BenchError(f"no free semantic ID under codes {first}", where=f"item {item}", hint="use more codes per level")


def _by_certainty(logits: Sequence[Logits], content: BoolArray) -> IntArray:
    """Rows by descending smallest margin between the best and second-best code of a level in ``content`` [n, Q]."""
    margins = []
    for place, level in enumerate(logits):
        top = np.partition(level, -2, axis=1)[:, -2:] if level.shape[1] > 1 else np.zeros((len(level), 2))
        margin = top[:, 1] - top[:, 0]
        margins.append(np.where(content[:, place], margin, np.inf))
    return np.argsort(-np.min(margins, axis=0), kind="stable").astype(np.int64)
