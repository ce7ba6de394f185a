"""Ranks summed up: HR@10 and NDCG@10 of one part, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.measurement import number
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import rank_metric
from genrec_unlearn_bench.evaluation.user_mean import user_mean

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["curve", "ranks_of", "scores"]


def scores(end: str, samples: Mapping[str, NDArray[np.generic]]) -> list[MetricValue]:
    """HR@10 of both groups and NDCG@10 of the retain test, by their own examples."""
    hits = [
        _hit_rate(f"quantisation.hr@10{end}", group, samples[group.value]) for group in (Group.FORGET, Group.RETAIN)
    ]
    gains = rank_metric("ndcg@10").of(ranks_of(samples, Group.RETAIN))
    return [*hits, user_mean(f"quantisation.ndcg@10{end}", Group.RETAIN, gains, beam=None, interval=True)]


def _hit_rate(name: str, group: Group, ranks: NDArray[np.generic]) -> MetricValue:
    """HR@10 with its Clopper-Pearson interval."""
    # scipy.stats has the same interval, but takes seconds to import.
    from scipy.special import betaincinv

    n = len(ranks)
    if not n:
        return MetricValue(metric=name, group=group, value=None, n=0, note="no test examples in this group")
    hits = int(rank_metric("hr@10").of(np.asarray(ranks, dtype=np.int64)).sum())
    low = float(betaincinv(hits, n - hits + 1, 0.025)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 0.975)) if hits < n else 1.0
    return number(name, group, hits / n, n=n, interval=(low, high))


def curve(scheme: str, samples: Mapping[str, NDArray[np.int64]]) -> pd.DataFrame:
    """What is published of one part: a row for each group and metric."""
    import pandas as pd

    bits = int(samples["bits"][0])
    return pd.DataFrame(
        [
            {
                "scheme": scheme,
                "bits": bits,
                "group": value.group.value,
                "metric": value.metric.removeprefix("quantisation."),
                "value": value.value,
                "low": None if value.interval is None else value.interval[0],
                "high": None if value.interval is None else value.interval[1],
                "n": value.n,
            }
            for value in scores("", samples)
        ]
    )


def ranks_of(samples: Mapping[str, NDArray[np.generic]], group: Group) -> NDArray[np.int64]:
    """The ranks of one group [M]."""
    return np.asarray(samples[group.value], dtype=np.int64)
