"""The core measurements of one model: decode test examples, fill the per-user table, sum it up.

Test examples are decoded in blocks to bound memory. Rows of a group larger than one block stand block by block, and
each block draws the random items of its histories by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation import collateral
from genrec_unlearn_bench.evaluation.decode import EvaluationContext, decode, decode_block, is_reassignment
from genrec_unlearn_bench.evaluation.exposure import counted_columns, exposed_lists
from genrec_unlearn_bench.evaluation.history_influence import measure_influence
from genrec_unlearn_bench.evaluation.lists import GroupLists, add_lists, list_similarity, write_lists
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.per_user import block_frame, recompute, write_per_user
from genrec_unlearn_bench.evaluation.ranking import BEAMS, TEST_GROUPS, WIDE_BEAM
from genrec_unlearn_bench.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 1 << 16
"""Test examples in memory at once."""


def evaluate(
    context: EvaluationContext, table: Path, lists: Path, progress: Progress, *, block: int = BLOCK
) -> tuple[MetricValue, ...]:
    """Measure a model; write its per-user table (file ``table``) and ranked lists (file ``lists``).

    Each test group is decoded once at each beam, ``block`` examples at a time. USER-level values are computed from the
    per-user table alone. Metrics that need other runs or the clock are those of ``gap`` and ``collateral``.
    """
    near = _neighbours(context)
    counts: dict[int, IntArray] = {}
    frames: list[pd.DataFrame] = []
    ranked: dict[str, list[NDArray[Any]]] = {}
    for group in TEST_GROUPS:
        examples = context.test(group)
        # A group without examples is one empty block: its tables have columns and its values a reason.
        for first in range(0, max(len(examples), 1), block):
            part = examples.subset(np.arange(first, min(first + block, len(examples))))
            decoded = decode_block(context, group, part, progress, first=first)
            frames += _frames(context, decoded, near, progress)
            add_lists(ranked, decoded)
            if group is Group.RETAIN:
                for beam in decoded.rankings:
                    found = collateral.recommended(decoded.top(beam), context.split.items)
                    counts[beam] = counts[beam] + found if beam in counts else found
    write_lists(lists, ranked)
    collapse = (value for beam, found in counts.items() for value in collateral.collapse_values(beam, found))
    return (*recompute(write_per_user(frames, table)), *collateral.overlap_values(context), *collapse)


def _neighbours(context: EvaluationContext) -> dict[str, NDArray[Any] | None]:
    """The concept's neighbours in the catalogue [N] for the columns ``near_*``; None where they are not known.

    All None for forgotten interactions, which are no concept: their items are spread over the whole catalogue.
    """
    concept, table = context.split.items, context.original_sids
    named = concept.any()
    return {
        "near_prefix": collateral.prefix_neighbours(table, concept) if named and table is not None else None,
        "near_category": collateral.category_neighbours(context.items, concept) if named else None,
        "near_concept": context.split.near if named else None,
    }


def _frames(
    context: EvaluationContext, lists: GroupLists, near: dict[str, NDArray[Any] | None], progress: Progress
) -> list[pd.DataFrame]:
    """The rows of the per-user table that belong to some lists, one frame a beam."""
    influence = measure_influence(context, lists, progress)
    original = _original_space_lists(context, lists, progress)
    exposed = exposed_lists(context, lists, progress)
    retain, targets = lists.group is Group.RETAIN, lists.examples.targets
    unknown = np.full(len(targets), -1, dtype=np.int8)
    flags = {
        name: items[targets].astype(np.int8) if retain and items is not None else unknown
        for name, items in near.items()
    }
    nothing = np.full(len(lists.examples), np.nan)
    narrow = dict.fromkeys(influence, nothing) | {"concept_in_history": influence["concept_in_history"]}
    frames = []
    for beam in BEAMS:
        wide = beam == WIDE_BEAM
        columns = {
            **_list_columns(context, lists, beam),
            **counted_columns("original_", context, lists, original if wide else None),
            **counted_columns("exposed_", context, lists, exposed.get(beam)),
            **(influence if wide else narrow),
            **flags,
        }
        frames.append(block_frame(lists.group, beam, columns))
    return frames


def _original_space_lists(context: EvaluationContext, lists: GroupLists, progress: Progress) -> Ranking | None:
    """The forget group at the widest beam, decoded in the original SID space: leakage is about everything that can be
    read out. The lists already decoded where no SID has moved; None where the original SIDs mean nothing to the ranker.
    """
    ranker, original = context.ranker, context.original_sids
    if lists.group is not Group.FORGET or not isinstance(ranker, Recommender) or original is None:
        return None
    if np.array_equal(ranker.sids.codes, original.codes):
        return lists.rankings[WIDE_BEAM]
    if not is_reassignment(ranker.sids, original):
        return None
    label = f"{lists.group.value} test, original SIDs"
    return decode(ranker, lists.histories, beam=WIDE_BEAM, label=label, progress=progress, sids=original)


def _list_columns(context: EvaluationContext, lists: GroupLists, beam: int) -> dict[str, NDArray[Any]]:
    examples, ranking, top = lists.examples, lists.rankings[beam], lists.top(beam)
    counted = counted_columns("", context, lists, ranking)
    ranks = counted["rank"]
    place = np.maximum(ranks - 1, 0)[:, None]
    found = np.take_along_axis(ranking.log_probs, place, axis=1)[:, 0].astype(np.float64)
    first, mean = list_similarity(top, examples.targets, context.features.plain)
    first_scrubbed, mean_scrubbed = list_similarity(top, examples.targets, context.features.scrubbed)
    return {
        "example": np.arange(lists.first, lists.first + len(examples)),
        "user": examples.users,
        "target": examples.targets,
        **counted,
        "log_prob": np.where(ranks > 0, found, np.nan),
        "first_similarity": first,
        "mean_similarity": mean,
        "first_similarity_scrubbed": first_scrubbed,
        "mean_similarity_scrubbed": mean_scrubbed,
    }
