"""A stream of requests, each applied to the last one's model: drift of retain quality, resurfacing and cost.

After ERASE (arXiv 2603.08341). Models of one stream are compared on the same test interactions, so differences are
paired. What is forgotten is scored as served, exposed (``evaluation.exposure``), and in the worse case of both. Their
95 % intervals are t intervals, left out where all differences are the same; the one of a hit rate is Clopper and
Pearson's. All lists are decoded at beam 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.catalogue import family
from genrec_unlearn_bench.evaluation.exposure import larger
from genrec_unlearn_bench.evaluation.measurement import unmeasured
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import gain, hit, rate_interval, user_mean

RankArray = NDArray[np.int64]

BEAM = 10
NOT_MEASURED = -1
"""In place of a rank: the test interaction was not yet requested to be forgotten."""

_PLACES = 10
"""Places of the list that are counted."""


@dataclass(frozen=True, eq=False)
class StreamRanks:
    """Ranks of the targets of test interactions after each of R requests, 1-based, 0 where not in the list.

    Attributes:
        owners: [M] place (from 0) of the request that each forget test interaction belongs to.
        forget: [R, M]; ``NOT_MEASURED`` before a test interaction's own request.
        exposed: [R, M] the same without serving rules and with the original IDs; ``NOT_MEASURED`` where that cannot be
            decoded as well.
        retain: [R, K] of the retain side of the whole stream.
        original: [K] the same of the model before the stream.
    """

    owners: RankArray
    forget: RankArray
    exposed: RankArray
    retain: RankArray
    original: RankArray


def stream_quality(ranks: StreamRanks | None, *, reason: str = "", fixed: bool = False) -> tuple[MetricValue, ...]:
    """The metrics about ranking; None with ``reason`` where the stream was not completed.

    ``fixed``: one model stands for the whole stream (a reference row), so that nothing can drift or resurface.
    """
    if ranks is None:
        return unmeasured(family("stream.")[:9], reason)
    last = len(ranks.retain) - 1
    gains = gain(ranks.retain, _PLACES)
    place = np.arange(last + 1, dtype=np.float64) - last / 2
    slopes = place @ gains / (place @ place) if last else np.full(gains.shape[1], np.nan)
    before = np.flatnonzero(ranks.owners < last)
    then, back = _readings(ranks, ranks.owners[before], before), _readings(ranks, last, before)
    own = _readings(ranks, last, np.flatnonzero(ranks.owners == last))
    still = "one model stands for the whole stream, so nothing can change from request to request"
    no_retain = "no test interactions on the retain side"
    unseen = "not decoded in the original IDs"
    no_earlier = unseen if len(before) else "none of the requests before the last has test interactions"
    no_last = unseen if len(own[""]) else "the last request has no test interactions"
    differences = (
        ("retain-drift", Group.RETAIN, gains[last] - gains[0], no_retain),
        ("retain-slope", Group.RETAIN, slopes, no_retain),
        ("retain-change", Group.RETAIN, gains[last] - gain(ranks.original, _PLACES), no_retain),
        *((f"{lists}resurfaced", Group.FORGET, back[lists] - then[lists], no_earlier) for lists in back),
    )
    return (
        *(
            MetricValue(metric=f"stream.{name}", group=group, value=None, note=still)
            if fixed and name != "retain-change"
            else _paired(f"stream.{name}", group, values, empty)
            for name, group, values, empty in differences
        ),
        *(_rate(f"stream.{lists}forget-hr@10.last", Group.FORGET, own[lists], no_last) for lists in own),
    )


def _readings(ranks: StreamRanks, rows: RankArray | int, columns: RankArray) -> dict[str, NDArray[np.float64]]:
    """Hits [M] at some models and test interactions as served, exposed, and in the worse case; NaN: not measured."""
    served, exposed = (
        np.where(each == NOT_MEASURED, np.nan, hit(each, _PLACES))
        for each in (ranks.forget[rows, columns], ranks.exposed[rows, columns])
    )
    return {"": served, "exposed.": exposed, "worst-case.": larger(served, exposed)}


def _paired(metric: str, group: Group, values: NDArray[np.float64], empty: str) -> MetricValue:
    found = user_mean(metric, group, values, beam=None, empty=empty, interval=True)
    return found if found.sd else found.model_copy(update={"interval": None})


def _rate(metric: str, group: Group, values: NDArray[np.float64], empty: str) -> MetricValue:
    found = user_mean(metric, group, values, beam=None, empty=empty)
    if not found.n:
        return found
    return found.model_copy(update={"interval": rate_interval(int(np.nansum(values)), found.n)})


def stream_times(
    seconds: Sequence[float], *, retrain_seconds: float | None, reason: str = "", fixed: bool = False
) -> tuple[MetricValue, ...]:
    """The metrics about cost, from the seconds of each request.

    ``reason``: why the stream was not carried through, so that it has no cost as a whole. ``fixed``: the model was not
    made request by request.
    """
    total = sum(seconds)
    share = total / retrain_seconds if retrain_seconds else None
    growth = seconds[-1] / seconds[0] if seconds and seconds[0] > 0 and not fixed else None
    why = "the model was not made request by request" if fixed else "the first request took no measurable time"
    found = (
        ("seconds", total, ""),
        ("share-of-retraining", share, "the oracle's training time is not known"),
        ("seconds-growth", growth, why),
    )
    return tuple(
        MetricValue(
            metric=f"stream.{name}",
            group=Group.ALL,
            value=None if reason else value,
            n=len(seconds) if value is not None and not reason else None,
            note=reason or (absent if value is None else None),
        )
        for name, value, absent in found
    )
