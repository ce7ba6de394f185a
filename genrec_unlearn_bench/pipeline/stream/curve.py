"""What a stream came to, request by request: the table beside the record, and the metrics in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.evaluation.ranking import gain, hit
from genrec_unlearn_bench.evaluation.stream import (
    BEAM,
    NOT_MEASURED,
    StreamRanks,
    stream_quality,
    stream_times,
)
from genrec_unlearn_bench.pipeline.stream.chain import Streamed

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.data.examples import BoolArray, IntArray
    from genrec_unlearn_bench.pipeline.record import Cost
    from genrec_unlearn_bench.pipeline.scored import Scores
    from genrec_unlearn_bench.pipeline.stream.requests import Stream
    from genrec_unlearn_bench.pipeline.trained import Trained

__all__ = ["COLUMNS", "NAME", "Followed", "follow"]

NAME = "stream"
"""Of the table, ``measurements/stream.csv``."""

COLUMNS = (
    "request",
    "names",
    "concepts",
    "items",
    "interactions",
    "forget_hr@10",
    "so_far_hr@10",
    "earlier_hr@10",
    "retain_hr@10",
    "retain_ndcg@10",
    "seconds",
    "cumulative_seconds",
    "share_of_retraining",
    "forget_n",
    "so_far_n",
    "earlier_n",
    "retain_n",
)
"""One row a request, measured right after it, at beam 10. names: its brands. concepts: how many brands, items or users.
interactions: train examples it asked to forget. forget: on its own test interactions; so_far: of it and all earlier
requests; earlier: of these alone; retain: on what is never requested in the whole stream. share_of_retraining: all
seconds so far over those of one retraining at the end. Empty where there is nothing to measure on."""


@dataclass(frozen=True, eq=False)
class Followed:
    """What the record says about a stream.

    Attributes:
        values: The metrics ``stream.*``.
        tables: ``COLUMNS`` by request, under ``NAME``.
    """

    values: tuple[MetricValue, ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def follow(stream: Stream, row: Trained, own: Scores, *, before: Scores, cost: Cost) -> Followed:
    """Measure a stream by the scores of its models.

    A reference row is one model for the whole stream: it is measured once, and looked at request by request. What it
    cost (the retraining) is paid at the end.

    Args:
        own: Of the last model, on the whole task.
        before: Of the original.
        cost: Of the row.
    """
    count = len(stream.requests)
    fixed = not isinstance(row, Streamed)
    if isinstance(row, Streamed):
        seconds, found = [step.seconds for step in row.steps], [*row.scores, own]
    else:
        seconds, found = [0.0] * (count - 1) + [cost.unlearn_seconds], [own] * count
    broken = next((number for number, scores in enumerate(found[: len(seconds)], start=1) if not scores.measured), None)
    if broken is not None or not before.measured:
        culprit = "of the model" if fixed else f"after request {broken} of {count}"
        culprit = culprit if before.measured else "of the original"
        reason = f"the weights {culprit} are not finite"
        quality = stream_quality(None, reason=reason)
        return Followed((*quality, *stream_times(seconds, retrain_seconds=cost.retrain_seconds, reason=reason)))
    ranks = _ranks(stream, found, before)
    values = (
        *stream_quality(ranks, fixed=fixed),
        *stream_times(seconds, retrain_seconds=cost.retrain_seconds, fixed=fixed),
    )
    return Followed(values, {NAME: _table(stream, ranks, seconds, cost.retrain_seconds)})


def _ranks(stream: Stream, found: Sequence[Scores], before: Scores) -> StreamRanks:
    owners = stream.owners(stream.split.test.forget)
    forget = np.full((len(found), len(owners)), NOT_MEASURED, dtype=np.int64)
    retain = np.empty((len(found), len(stream.split.test.retain)), dtype=np.int64)
    for place, scores in enumerate(found):
        asked = owners <= place
        ranks = _of(scores, Group.FORGET)
        # A model that was measured on the whole task is looked at on the requests so far.
        forget[place, asked] = ranks[asked] if len(ranks) == len(owners) else ranks
        retain[place] = _of(scores, Group.RETAIN)
    return StreamRanks(owners, forget, retain, _of(before, Group.RETAIN))


def _of(scores: Scores, group: Group) -> IntArray:
    """[M] ranks of one side's test interactions, in order."""
    if scores.per_user is None:
        return np.zeros(0, dtype=np.int64)
    frame = read_per_user(scores.per_user)
    rows = frame[(frame["group"] == group.value) & (frame["beam"] == BEAM)]
    return np.asarray(rows.sort_values("example")["rank"].to_numpy(dtype=np.int64))


def _table(stream: Stream, ranks: StreamRanks, seconds: Sequence[float], retrain_seconds: float | None) -> pd.DataFrame:
    import pandas as pd

    hits, retain_hits = hit(ranks.forget, 10), hit(ranks.retain, 10)
    gains = gain(ranks.retain, 10)
    spent = np.cumsum(seconds)

    def mean(place: int, chosen: BoolArray) -> float:
        return float(hits[place, chosen].mean()) if chosen.any() else float("nan")

    rows = []
    for place, portion in enumerate(stream.requests):
        own, earlier = ranks.owners == place, ranks.owners < place
        rows.append(
            {
                "request": portion.number,
                "names": "; ".join(portion.names),
                "concepts": portion.concepts,
                "items": int(portion.items.sum()) or len(np.unique(portion.pairs[:, 1])),
                "interactions": portion.interactions,
                "forget_hr@10": mean(place, own),
                "so_far_hr@10": mean(place, own | earlier),
                "earlier_hr@10": mean(place, earlier),
                "retain_hr@10": float(retain_hits[place].mean()),
                "retain_ndcg@10": float(gains[place].mean()),
                "seconds": seconds[place],
                "cumulative_seconds": float(spent[place]),
                "share_of_retraining": float(spent[place]) / retrain_seconds if retrain_seconds else float("nan"),
                "forget_n": int(own.sum()),
                "so_far_n": int((own | earlier).sum()),
                "earlier_n": int(earlier.sum()),
                "retain_n": ranks.retain.shape[1],
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))
