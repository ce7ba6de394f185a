"""Who is ahead of whom, as far as it is shown: rank intervals, tie groups, the best set and the second.

A bare rank orders noise. Everything here is read off one relation, "i is significantly better than j", and the relation
need not be transitive: A may tie with B and B with C where A beats C.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from itertools import chain, count, islice, product

import numpy as np
from numpy.typing import ArrayLike

from genrec_unlearn_bench.reporting.statistics.paired import BoolArray, IntArray


def rank_intervals(better: ArrayLike) -> IntArray:
    """[M, 2] first and last rank that the tests leave open to each method, 1 = best.

    Args:
        better: [M, M] bool, ``better[i, j]``: i is significantly better than j.

    From 1 + the number significantly better than i, to M - the number that i is significantly better than. Holm keeps
    all comparisons at once, so all true ranks lie within their intervals with the family's confidence.
    """
    relation = np.asarray(better, dtype=np.bool_)
    return np.stack([1 + relation.sum(axis=0), len(relation) - relation.sum(axis=1)], axis=1).astype(np.int64)


def best_set(means: ArrayLike, better: ArrayLike) -> BoolArray:
    """[M] the method with the best mean and all that it is not significantly better than: what tables set bold.

    Args:
        means: [M] turned so that larger is better; NaN = not measured, which is in no set.
        better: [M, M] ``better[i, j]``: i is significantly better than j.
    """
    values, relation = np.asarray(means, dtype=np.float64), np.asarray(better, dtype=np.bool_)
    measured = np.isfinite(values)
    if not measured.any():
        return measured
    leaders = measured & (values == np.max(values[measured]))
    return np.asarray(measured & ~relation[leaders].any(axis=0))


def second_set(means: ArrayLike, better: ArrayLike) -> BoolArray:
    """[M] the best set of what the best set leaves: what tables underline. Arguments as :func:`best_set`."""
    values = np.array(means, dtype=np.float64)
    values[best_set(values, better)] = np.nan
    return best_set(values, better)


def tie_groups(separable: ArrayLike) -> tuple[str, ...]:
    """Compact letter display: two methods share a letter if and only if they are not separable (Piepho 2004).

    Args:
        separable: [M, M] bool, symmetric; the diagonal is not read. Give the methods in the order of the table: the
            letter a goes to the first one's group.

    Returns:
        M displays. Up to 26 groups as usual (``ab``); beyond, with commas (``z,aa``), as ``aa`` would be two letters.

    Piepho's insert-and-absorb may pass through exponentially many columns where ties are not transitive. Groups are
    grown instead (Gramm et al. 2007, the clique-growing heuristic), then every group whose ties others show as well is
    swept away (Piepho's last step).
    """
    tied = ~np.asarray(separable, dtype=np.bool_)
    np.fill_diagonal(tied, True)
    groups = sorted(_swept(_grown(tied)))
    names = list(islice(letters(), len(groups)))
    separator = "," if len(groups) > len(string.ascii_lowercase) else ""
    return tuple(
        separator.join(name for name, group in zip(names, groups, strict=True) if method in group)
        for method in range(len(tied))
    )


def letters() -> Iterator[str]:
    """a … z, aa, ab … without end."""
    words = (product(string.ascii_lowercase, repeat=length) for length in count(1))
    return map("".join, chain.from_iterable(words))


def _grown(tied: BoolArray) -> list[list[int]]:
    """Groups of mutually tied methods, ascending, that hold every tied pair (and every method) at least once."""
    shown = np.zeros_like(tied)
    groups: list[list[int]] = []
    for first, second in zip(*np.nonzero(np.triu(tied)), strict=True):
        if shown[first, second]:
            continue
        group = sorted({int(first), int(second)})
        open_to = tied[first] & tied[second]
        open_to[group] = False
        # In the table's order, which is what makes the display the usual one where ties are intervals of ranks.
        while open_to.any():
            joins = int(np.argmax(open_to))
            group.append(joins)
            open_to &= tied[joins]
            open_to[joins] = False
        group.sort()
        shown[np.ix_(group, group)] = True
        groups.append(group)
    return groups


def _swept(groups: list[list[int]]) -> list[list[int]]:
    """Without the groups whose pairs are all shown by others, smallest first."""
    size = 1 + max((max(group) for group in groups), default=-1)
    times = np.zeros((size, size), dtype=np.int64)
    for group in groups:
        times[np.ix_(group, group)] += 1
    kept = list(groups)
    for group in sorted(groups, key=lambda group: (len(group), group)):
        if times[np.ix_(group, group)].min() > 1:
            times[np.ix_(group, group)] -= 1
            kept.remove(group)
    return kept
