"""HR@k, NDCG@k and MRR@10 from the rank of the one relevant item."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.metric import Better, Group, Level, MetricSpec, MetricValue
from genrec_unlearn_bench.evaluation.user_block import UserBlock
from genrec_unlearn_bench.evaluation.user_mean import user_mean

__all__ = ["RANK_METRICS", "SPECS", "RankMetric", "gain", "hit", "rank_metric", "ranking_values", "reciprocal"]

FloatArray = NDArray[np.float64]
RankArray = NDArray[np.int64]


def hit(ranks: RankArray, k: int) -> FloatArray:
    """[M] 1 where the target stands among the first k places, else 0. ``ranks``: [M], 0 = not in the list."""
    return ((ranks > 0) & (ranks <= k)).astype(np.float64)


def gain(ranks: RankArray, k: int) -> FloatArray:
    """[M] NDCG@k with one relevant item: 1 / log2(rank + 1) within the first k places, else 0 (the ideal is 1)."""
    return hit(ranks, k) / np.log2(np.maximum(ranks, 1) + 1.0)


def reciprocal(ranks: RankArray, k: int) -> FloatArray:
    """[M] 1 / rank within the first k places, else 0."""
    return hit(ranks, k) / np.maximum(ranks, 1)


@dataclass(frozen=True)
class RankMetric:
    """A metric that is a function of the target's rank alone."""

    name: str
    title: str
    k: int
    score: Callable[[RankArray, int], FloatArray]

    def of(self, ranks: RankArray) -> FloatArray:
        """[M] the metric of each example."""
        return self.score(ranks, self.k)


RANK_METRICS = (
    *(RankMetric(f"hr@{k}", f"HR@{k}", k, hit) for k in (1, 5, 10)),
    *(RankMetric(f"ndcg@{k}", f"NDCG@{k}", k, gain) for k in (5, 10)),
    RankMetric("mrr@10", "MRR@10", 10, reciprocal),
)

_BY_NAME = {metric.name: metric for metric in RANK_METRICS}
_SENTENCES: dict[Callable[[RankArray, int], FloatArray], str] = {
    hit: "Share of test examples whose target is among the first {k} places.",
    gain: "1 / log2(rank + 1) of the target within the first {k} places, 0 otherwise, averaged; one relevant item.",
    reciprocal: "1 / rank of the target within the first {k} places, 0 otherwise, averaged.",
}

SPECS = tuple(
    MetricSpec(
        name=metric.name,
        title=metric.title,
        better={Group.FORGET: Better.LOWER, Group.RETAIN: Better.HIGHER},
        range=(0.0, 1.0),
        unit="fraction",
        level=Level.USER,
        description=_SENTENCES[metric.score].format(k=metric.k),
        source="protocol sec. 4; TRACER, evaluation metrics (lower is better on forget users there; how near a score "
        "is to the retrained model's is measured by gap.*)",
    )
    for metric in RANK_METRICS
)


def rank_metric(name: str) -> RankMetric:
    """The rank metric of that name; KeyError for any other name."""
    return _BY_NAME[name]


def ranking_values(blocks: Iterable[UserBlock]) -> list[MetricValue]:
    """Every rank metric of every block."""
    return [
        user_mean(metric.name, block.group, metric.of(block.integers("rank")), beam=block.beam)
        for block in blocks
        for metric in RANK_METRICS
    ]
