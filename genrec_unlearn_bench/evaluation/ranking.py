"""HR@k, NDCG@k and MRR@10 from ranks, and how values of test examples become one number.

Ranks of items are computed from the per-user table, one group and beam at a time. Ranks of semantic IDs (``sid_ranks``)
serve comparisons with repositories that compare strings of tokens, where items that share an ID count once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.decoding.ranking import Ranking

FloatArray = NDArray[np.float64]
RankArray = NDArray[np.int64]

BEAMS = (10, 50)
"""Beam widths of the protocol: the paper's, and one whose HR@10 is less limited by pruning."""
WIDE_BEAM = max(BEAMS)
LIST_LENGTH = 10
"""Places of a list that are measured."""
TEST_GROUPS = (Group.FORGET, Group.RETAIN)
"""The sides the test examples are divided into."""


@dataclass(frozen=True, eq=False)
class UserBlock:
    """The rows of the per-user table that belong to one group and one beam (M of them, maybe none)."""

    group: Group
    beam: int
    frame: pd.DataFrame

    def numbers(self, column: str) -> FloatArray:
        """[M] the column as float64, NaN where nothing was measured."""
        return np.asarray(self.frame[column].to_numpy(dtype=np.float64))

    def integers(self, column: str) -> RankArray:
        values: Any = self.frame[column].to_numpy(dtype=np.int64)
        return np.asarray(values)


def block_of(frame: pd.DataFrame, group: Group, beam: int) -> UserBlock:
    """One group at one beam, in the order of its test examples."""
    rows = frame[(frame["group"] == group.value) & (frame["beam"] == beam)]
    return UserBlock(group, beam, rows.sort_values("example", kind="stable"))


def blocks(frame: pd.DataFrame) -> Iterator[UserBlock]:
    """Every group at every beam of the protocol, in order, empty ones included."""
    for group in TEST_GROUPS:
        for beam in BEAMS:
            yield UserBlock(group, beam, frame[(frame["group"] == group.value) & (frame["beam"] == beam)])


def hit(ranks: RankArray, k: int) -> FloatArray:
    """[M] 1 where the target stands among the first k places, else 0. ``ranks``: [M], 0 = not in the list."""
    return ((ranks > 0) & (ranks <= k)).astype(np.float64)


def gain(ranks: RankArray, k: int) -> FloatArray:
    """[M] NDCG@k with one relevant item: 1 / log2(rank + 1) within the first k places, else 0 (the ideal is 1)."""
    return hit(ranks, k) / np.log2(np.maximum(ranks, 1) + 1.0)


RANK_METRICS: Mapping[str, Callable[[RankArray], FloatArray]] = {
    **{f"hr@{k}": partial(hit, k=k) for k in (1, 5, 10)},
    **{f"ndcg@{k}": partial(gain, k=k) for k in (5, 10)},
    "mrr@10": lambda ranks: hit(ranks, 10) / np.maximum(ranks, 1),
}
"""Metrics that are functions of the targets' ranks [M] alone: their values [M]."""


def ranking_values(blocks: Iterable[UserBlock]) -> list[MetricValue]:
    return [
        user_mean(name, block.group, score(block.integers("rank")), beam=block.beam)
        for block in blocks
        for name, score in RANK_METRICS.items()
    ]


def user_mean(
    metric: str,
    group: Group,
    values: FloatArray,
    *,
    beam: int | None,
    empty: str = "no test examples in this group",
    note: str | None = None,
    interval: bool = False,
) -> MetricValue:
    """Average the finite entries of ``values`` [M]; NaN marks an example for which nothing was measured.

    The standard deviation (n - 1) needs two examples. ``interval`` adds the 95 % t interval of the mean. With nothing
    to average the value is None and the note says ``empty``.
    """
    measured = values[np.isfinite(values)]
    n = len(measured)
    if n == 0:
        return MetricValue(metric=metric, group=group, value=None, beam=beam, n=0, note=empty)
    mean = float(measured.mean())
    sd = float(measured.std(ddof=1)) if n > 1 else None
    bounds = mean_interval(measured) if interval else None
    return MetricValue(metric=metric, group=group, value=mean, beam=beam, n=n, sd=sd, interval=bounds, note=note)


def mean_interval(values: FloatArray) -> tuple[float, float] | None:
    """The 95 % t interval of the mean of finite values [n]; None for fewer than two."""
    n = len(values)
    if n < 2:
        return None
    mean, half = float(values.mean()), _t_quantile(n - 1) * float(values.std(ddof=1)) / float(np.sqrt(n))
    return mean - half, mean + half


def difference_interval(one: FloatArray, other: FloatArray) -> tuple[float, float] | None:
    """Welch's 95 % interval of mean(one) - mean(other) over finite values; None if either has fewer than two."""
    if min(len(one), len(other)) < 2:
        return None
    middle = float(one.mean()) - float(other.mean())
    errors = [float(values.var(ddof=1)) / len(values) for values in (one, other)]
    total = sum(errors)
    if total == 0:
        return middle, middle
    freedom = total**2 / sum(error**2 / (len(values) - 1) for error, values in zip(errors, (one, other), strict=True))
    half = _t_quantile(freedom) * float(np.sqrt(total))
    return middle - half, middle + half


def rate_interval(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of the rate of ``hits`` in n > 0 trials (Clopper & Pearson 1934)."""
    # scipy.stats has the same, but takes seconds to import.
    from scipy.special import betaincinv

    low = float(betaincinv(hits, n - hits + 1, 0.025)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 0.975)) if hits < n else 1.0
    return low, high


def _t_quantile(freedom: float) -> float:
    # scipy.stats has the same quantile, but takes seconds to import.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def sid_numbers(codes: RankArray) -> RankArray:
    """[N] a number for every item, the same for items with the same codes [N, L]."""
    _, numbers = np.unique(codes, axis=0, return_inverse=True)
    return np.asarray(numbers.ravel(), dtype=np.int64)


def sid_ranks(ranking: Ranking, numbers: RankArray, targets: RankArray) -> RankArray:
    """[B] 1-based rank of each target's semantic ID among the different ones in its list, 0 where it is not there.

    ``ranking``: [B, k] items; those that share an ID stand together. ``numbers``: [N] from ``sid_numbers``.
    """
    ids = np.where(ranking.items >= 0, numbers[ranking.items], -1)
    new = np.ones_like(ids, dtype=np.bool_)
    new[:, 1:] = ids[:, 1:] != ids[:, :-1]
    hits = ids == numbers[targets][:, None]
    places = np.cumsum(new, axis=1)[np.arange(len(ids)), hits.argmax(axis=1)]
    return np.where(hits.any(axis=1), places, 0).astype(np.int64)
