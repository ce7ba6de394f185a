"""History influence: do concept items in a history still change the recommendations? (TRACER's definition, clause 2.)

Lists with and without the history's concept items are compared, and likewise lists with and without as many retain
items of the same history: predictions change with any loss of items, and most with the loss of recent ones, so that
each concept item is paired with a retain item that stands near it. (On Industrial a concept item is the last of 40.5 %
of the forget group's histories that have one, of 27.1 % with places drawn at random.) No retain item is later than a
last concept item, so that some of the position remains in the excess. What is to be read is its distance to the
retrained model's, which was measured on the same pairs; less is not better.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import PAD, BoolArray, Histories, IntArray
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.lists import GroupLists, jensen_shannon, list_change
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.evaluation.ranking import WIDE_BEAM, UserBlock, user_mean
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.decode import EvaluationContext
    from genrec_unlearn_bench.progress import Progress


def measure_influence(context: EvaluationContext, lists: GroupLists, progress: Progress) -> dict[str, NDArray[Any]]:
    """Decode the qualifying histories of one group without their concept items, and without matched retain items.

    Returns columns of the per-user table, all [M]: ``concept_in_history``, and ``js_*`` and ``change_*``
    (1 - overlap@10) after each drop; NaN where the history has no concept item, or too few others.

    Both drops start from the history cut to what the model reads, so that the inputs differ in nothing but the dropped
    items. The pairs are the same for all methods of a seed: a model that is served without the concept items
    (``filter-history``) scores exactly 0 for the forget drop, and loses the same retain items as the others.
    """
    from genrec_unlearn_bench.backbones.recommender import Recommender
    from genrec_unlearn_bench.evaluation.decode import decode

    limit = context.ranker.history_limit if isinstance(context.ranker, Recommender) else None
    raw = _window(lists.histories, limit)
    concept = context.split.concept_places(raw.items, raw.users)
    others = (raw.items != PAD) & ~concept
    counts = np.asarray(concept.sum(axis=1), dtype=np.int64)
    ignored = context.ranker.serving.ignored if isinstance(context.ranker, Recommender) else None
    read = raw if ignored is None else _window(lists.histories.without(ignored), limit)
    marked = concept if read is raw else context.split.concept_places(read.items, read.users)
    chosen = np.flatnonzero((counts > 0) & (others.sum(axis=1) >= counts))
    nothing = np.full(len(raw), np.nan)
    columns = {name: nothing.copy() for name in ("js_forget", "js_matched", "change_forget", "change_matched")}
    if len(chosen):
        # The place of a block is part of the name, so that blocks do not repeat each other's draws.
        place = (lists.first,) if lists.first else ()
        generator = numpy_generator(context.seed, "history-influence", lists.group.value, *place)
        matched = matched_places(others[chosen], concept[chosen], generator)
        if read is not raw:
            matched = _same_from_end(matched, others[chosen], ((read.items != PAD) & ~marked)[chosen])
        drops = {"forget": marked[chosen], "matched": matched}
        before = _rows(lists.rankings[WIDE_BEAM], chosen)
        kept = Histories(read.items[chosen], read.users[chosen])
        for name, places in drops.items():
            touched = np.flatnonzero(places.any(axis=1))
            js, change = np.zeros(len(chosen)), np.zeros(len(chosen))
            label = f"{lists.group.value} test without {'concept' if name == 'forget' else 'matched'} items"
            reduced = kept.without_places(places).rows(touched)
            after = decode(context.ranker, reduced, beam=WIDE_BEAM, label=label, progress=progress)
            js[touched] = jensen_shannon(_rows(before, touched), after)
            change[touched] = list_change(_rows(before, touched), after)
            columns[f"js_{name}"][chosen], columns[f"change_{name}"][chosen] = js, change
    return {"concept_in_history": counts, **columns}


def matched_places(candidates: BoolArray, wanted: BoolArray, generator: np.random.Generator) -> BoolArray:
    """[B, T] for each wanted place of a row, from the last to the first, the nearest candidate that is still free.

    Of two that are equally near, one is drawn. Rows with fewer candidates than wanted places take all candidates.
    ``candidates`` and ``wanted`` [B, T] are disjoint.
    """
    free, taken = candidates.copy(), np.zeros_like(candidates)
    places = np.arange(candidates.shape[1])
    coins = generator.random(wanted.shape) < 0.5
    for place in places[::-1]:
        rows = np.flatnonzero(wanted[:, place] & free.any(axis=1))
        # A quarter of a step to one side decides between two equally near places and between no others.
        middle = place + np.where(coins[rows, place], 0.25, -0.25)
        distance = np.where(free[rows], np.abs(places[None, :] - middle[:, None]), np.inf)
        nearest = distance.argmin(axis=1)
        taken[rows, nearest], free[rows, nearest] = True, False
    return taken


def _same_from_end(places: BoolArray, others: BoolArray, read: BoolArray) -> BoolArray:
    """[B, T'] the places of ``read`` [B, T'], the retain items of histories as they are read, that have as many retain
    items behind them as the chosen ``places`` have among ``others`` [B, T]."""
    wanted = np.zeros((len(places), max(others.shape[1], read.shape[1]) + 1), dtype=np.bool_)
    rows, columns = np.nonzero(places)
    wanted[rows, _behind(others)[rows, columns]] = True
    return np.asarray(read & np.take_along_axis(wanted, _behind(read), axis=1), dtype=np.bool_)


def _behind(marked: BoolArray) -> IntArray:
    """[B, T] number of marked places behind each place."""
    return np.asarray(marked[:, ::-1].cumsum(axis=1)[:, ::-1] - marked, dtype=np.int64)


def influence_values(blocks: Iterable[UserBlock]) -> list[MetricValue]:
    """Concept drop, control drop and their paired difference with 95 % t intervals, by group, at the widest beam."""
    out = []
    for block in blocks:
        if block.beam != WIDE_BEAM:
            continue
        affected = block.integers("concept_in_history") > 0
        for key, column in (("js", "js"), ("change@10", "change")):
            forget, other = block.numbers(f"{column}_forget"), block.numbers(f"{column}_matched")
            skipped = int((affected & ~np.isfinite(forget)).sum())
            left_out = f"{skipped} examples left out: fewer other items than concept items in the history"
            note, none = left_out if skipped else None, "no test example has a concept item in its history"
            shared: dict[str, Any] = {"beam": block.beam, "empty": note or none, "note": note, "interval": True}
            for suffix, values in (("", forget), ("-matched", other), ("-excess", forget - other)):
                out.append(user_mean(f"history.{key}{suffix}", block.group, values, **shared))
    return out


def _window(histories: Histories, limit: int | None) -> Histories:
    return histories if limit is None else histories.latest(limit)


def _rows(ranking: Ranking, index: IntArray) -> Ranking:
    return type(ranking)(ranking.items[index], ranking.log_probs[index])
