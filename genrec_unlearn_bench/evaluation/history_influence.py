"""History influence: do concept items in a history still change the recommendations? (TRACER's definition, clause 2.)

Lists with and without the history's concept items are compared, and likewise lists with and without as many random
retain items of the same history: predictions change with any loss of items, so that only the excess is due to the
concept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import PAD, BoolArray, Histories, IntArray
from genrec_unlearn_bench.evaluation.concept import concept_places
from genrec_unlearn_bench.evaluation.lists import jensen_shannon, list_change
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.evaluation.ranking import WIDE_BEAM, UserBlock, user_mean
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    from genrec_unlearn_bench.decoding.ranking import Ranking
    from genrec_unlearn_bench.evaluation.decode import EvaluationContext
    from genrec_unlearn_bench.evaluation.lists import GroupLists
    from genrec_unlearn_bench.progress import Progress


def measure_influence(context: EvaluationContext, lists: GroupLists, progress: Progress) -> dict[str, NDArray[Any]]:
    """Decode the qualifying histories of one group without their concept items, and without random retain items.

    Beam 50; the "with" side is the list already decoded. Both drops start from the history cut to what the model reads,
    so that the two inputs differ in nothing but the dropped items. A model that is served without the concept items
    (``filter-history``) scores exactly 0 for the forget drop. One random draw a user, the same for every method of a
    seed.

    Returns:
        Columns of the per-user table, all [M]: ``concept_in_history``, and ``js_*`` (Jensen-Shannon divergence) and
        ``change_*`` (1 - overlap@10) after each drop; NaN where the history has no concept item, or too few others.
    """
    from genrec_unlearn_bench.backbones.recommender import Recommender
    from genrec_unlearn_bench.evaluation.decode import decode, history_limit

    limit = history_limit(context.ranker)
    raw = _window(lists.histories, limit)
    counts = np.asarray(concept_places(context.split, raw.items, raw.users).sum(axis=1), dtype=np.int64)
    ignored = context.ranker.serving.ignored if isinstance(context.ranker, Recommender) else None
    read = raw if ignored is None else _window(lists.histories.without(ignored), limit)
    marked = concept_places(context.split, read.items, read.users)
    others = (read.items != PAD) & ~marked
    chosen = np.flatnonzero((counts > 0) & (others.sum(axis=1) >= counts))
    nothing = np.full(len(raw), np.nan)
    columns = {name: nothing.copy() for name in ("js_forget", "js_random", "change_forget", "change_random")}
    if len(chosen):
        # The place of a block is part of the name, so that blocks do not repeat each other's draws.
        place = (lists.first,) if lists.first else ()
        generator = numpy_generator(context.seed, "history-influence", lists.group.value, *place)
        drops = {"forget": marked[chosen], "random": random_places(others[chosen], counts[chosen], generator)}
        before = _rows(lists.rankings[WIDE_BEAM], chosen)
        kept = Histories(read.items[chosen], read.users[chosen])
        for name, places in drops.items():
            touched = np.flatnonzero(places.any(axis=1))
            js, change = np.zeros(len(chosen)), np.zeros(len(chosen))
            label = f"{lists.group.value} test without {'concept' if name == 'forget' else 'random'} items"
            reduced = drop_places(kept, places).rows(touched)
            after = decode(context.ranker, reduced, beam=WIDE_BEAM, label=label, progress=progress)
            js[touched] = jensen_shannon(_rows(before, touched), after)
            change[touched] = list_change(_rows(before, touched), after)
            columns[f"js_{name}"][chosen], columns[f"change_{name}"][chosen] = js, change
    return {"concept_in_history": counts, **columns}


def drop_places(histories: Histories, places: BoolArray) -> Histories:
    """The histories with the marked places [B, T] taken out, the rest moved together."""
    keep = (histories.items != PAD) & ~places
    order = np.argsort(~keep, axis=1, kind="stable")
    return Histories(np.take_along_axis(np.where(keep, histories.items, PAD), order, axis=1), histories.users)


def random_places(candidates: BoolArray, counts: IntArray, generator: np.random.Generator) -> BoolArray:
    """[B, T] ``counts[b]`` places of row b, drawn uniformly without replacement from its candidates [B, T]."""
    keys = np.where(candidates, generator.random(candidates.shape), np.inf)
    place = np.argsort(np.argsort(keys, axis=1), axis=1)
    return np.asarray(candidates & (place < counts[:, None]), dtype=np.bool_)


def influence_values(blocks: Iterable[UserBlock]) -> list[MetricValue]:
    """Forget drop, random drop and their paired difference with 95 % t intervals, by group, at the widest beam."""
    out = []
    for block in blocks:
        if block.beam != WIDE_BEAM:
            continue
        affected = block.integers("concept_in_history") > 0
        for key, column in (("js", "js"), ("change@10", "change")):
            forget, random = block.numbers(f"{column}_forget"), block.numbers(f"{column}_random")
            skipped = int((affected & ~np.isfinite(forget)).sum())
            note = (
                f"{skipped} examples left out: fewer other items than concept items in the history" if skipped else None
            )
            empty = note or "no test example has a concept item in its history"
            for suffix, values in (("", forget), ("-random", random), ("-excess", forget - random)):
                out.append(
                    user_mean(
                        f"influence.{key}{suffix}",
                        block.group,
                        values,
                        beam=block.beam,
                        empty=empty,
                        note=note,
                        interval=True,
                    )
                )
    return out


def _window(histories: Histories, limit: int | None) -> Histories:
    return histories if limit is None else histories.latest(limit)


def _rows(ranking: Ranking, index: IntArray) -> Ranking:
    return type(ranking)(ranking.items[index], ranking.log_probs[index])
