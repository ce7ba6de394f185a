"""Concept items in lists and histories, and exposed scores: what the weights give to someone who holds them.

A served model can hide a concept behind a rule or new semantic IDs and still hold it. Exposed lists are decoded from
the same weights with both taken away: no serving rule, and every item at its original ID, in histories as in answers. A
model that only moves the concept's items to other IDs, or filters them out, scores exactly as the original. Leakage
(``original-sids.*``) is less: the original IDs, under the rules that the model is served with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import (
    BEAMS,
    LIST_LENGTH,
    RANK_METRICS,
    WIDE_BEAM,
    FloatArray,
    UserBlock,
    user_mean,
)

if TYPE_CHECKING:
    from genrec_unlearn_bench.decoding.ranking import Ranking
    from genrec_unlearn_bench.evaluation.decode import EvaluationContext
    from genrec_unlearn_bench.evaluation.lists import GroupLists
    from genrec_unlearn_bench.progress import Progress

_METRICS = ("hr@10", "ndcg@10")
_NO_LEAKAGE = "not decoded in the original SID space: no test examples, no original table, or another tokenizer's SIDs"
_EMPTY = "not decoded in the original IDs: no test examples, no original table, or codes of other sizes"


def concept_rate_values(blocks: Iterable[UserBlock]) -> list[MetricValue]:
    """CR@10 of every block, and leakage through the original SIDs on the forget group at the widest beam."""
    out = []
    for block in blocks:
        rate = concept_share(block.integers("concept_in_list"), block.integers("n_list"))
        out.append(user_mean("concept-rate@10", block.group, rate, beam=block.beam, empty="no list with an item"))
        if block.group is not Group.FORGET or block.beam != WIDE_BEAM:
            continue
        ranks = block.integers("original_rank")
        hits = np.where(ranks >= 0, RANK_METRICS["hr@10"](ranks), np.nan)
        leaked = concept_share(block.integers("original_concept_in_list"), block.integers("original_n_list"))
        for name, values in (("original-sids.hr@10", hits), ("original-sids.concept-rate@10", leaked)):
            out.append(user_mean(name, block.group, values, beam=block.beam, empty=_NO_LEAKAGE))
    return out


def concept_share(marked: NDArray[np.int64], filled: NDArray[np.int64]) -> NDArray[np.float64]:
    """[M] marked / filled; NaN for an empty or absent (-1) list."""
    return np.where(filled > 0, marked / np.maximum(filled, 1), np.nan)


def exposed_beams(group: Group) -> tuple[int, ...]:
    """The beams of exposed lists: retain examples, most of a test set, at the paper's alone."""
    return BEAMS if group is Group.FORGET else tuple(beam for beam in BEAMS if beam != WIDE_BEAM)


def exposed_lists(context: EvaluationContext, lists: GroupLists, progress: Progress) -> Mapping[int, Ranking]:
    """Lists of a group by beam, as somebody can decode them who holds the weights.

    Those already decoded where nothing is hidden: no serving rule and no moved ID, a ranker without semantic IDs, or
    one that was trained on its own (``own_tokenizer``). Empty where the model has no tokens for the original codes.
    """
    from genrec_unlearn_bench.backbones.recommender import Recommender, exposed
    from genrec_unlearn_bench.evaluation.decode import decode, given_histories

    ranker, beams = context.ranker, exposed_beams(lists.group)
    served = {beam: lists.rankings[beam] for beam in beams}
    if not isinstance(ranker, Recommender):
        return served
    original = ranker.sids if context.own_tokenizer else context.original_sids
    model = exposed(ranker, original) if original is not None else None
    if model is None or model is ranker:
        return served if model is ranker else {}
    histories, name = given_histories(model, lists.examples), lists.group.value
    return {
        beam: decode(model, histories, beam=beam, label=f"{name} test, exposed, beam {beam}", progress=progress)
        for beam in beams
    }


def counted_columns(
    prefix: str, context: EvaluationContext, lists: GroupLists, found: Ranking | None
) -> dict[str, NDArray[Any]]:
    """Rank, concept items and items of ``found`` as columns of the per-user table [M]; -1 where there are no lists."""
    names = (f"{prefix}rank", f"{prefix}concept_in_list", f"{prefix}n_list")
    if found is None:
        return dict.fromkeys(names, np.full(len(lists.examples), -1))
    top = found.items[:, :LIST_LENGTH]
    concept = context.split.concept_places(top, lists.examples.users).sum(axis=1)
    return dict(zip(names, (found.ranks(lists.examples.targets), concept, (top >= 0).sum(axis=1)), strict=True))


def exposure_values(blocks: Iterable[UserBlock]) -> list[MetricValue]:
    """``exposed.*`` of both groups and ``worst-case.*`` of the forget group.

    The worst case, with a note on which one it is, is unknown without exposed lists: a model that could not be looked
    into is not said to have forgotten.
    """
    out: list[MetricValue] = []
    for block in blocks:
        if block.beam not in exposed_beams(block.group):
            continue
        for name in _METRICS:
            served, exposed = RANK_METRICS[name](block.integers("rank")), _exposed(block, name)
            out.append(user_mean(f"exposed.{name}", block.group, exposed, beam=block.beam, empty=_EMPTY))
            if block.group is Group.FORGET:
                worst = larger(served, exposed)
                note = None if served.sum() == exposed.sum() else "as served" if worst is served else "exposed"
                out.append(
                    user_mean(f"worst-case.{name}", Group.FORGET, worst, beam=block.beam, empty=_EMPTY, note=note)
                )
        leaked = concept_share(block.integers("exposed_concept_in_list"), block.integers("exposed_n_list"))
        out.append(user_mean("exposed.concept-rate@10", block.group, leaked, beam=block.beam, empty=_EMPTY))
    return out


def exposed_values(block: UserBlock, metric: str) -> FloatArray:
    """[M] an ``exposed.*`` or ``worst-case.*`` metric for each test example, NaN where it was not measured."""
    family, _, name = metric.partition(".")
    exposed = _exposed(block, name)
    return exposed if family == "exposed" else larger(RANK_METRICS[name](block.integers("rank")), exposed)


def _exposed(block: UserBlock, name: str) -> FloatArray:
    ranks = block.integers("exposed_rank")
    return np.where(ranks >= 0, RANK_METRICS[name](ranks), np.nan)


def larger(served: FloatArray, exposed: FloatArray) -> FloatArray:
    """The one with the larger sum; a sum with a NaN in it is no smaller."""
    return served if served.sum() > exposed.sum() else exposed
