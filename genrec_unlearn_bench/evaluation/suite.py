"""Takes the core measurements of one model: decode once, fill the per-user table, sum it up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray
from genrec_unlearn_bench.evaluation.collapse import collapse_values
from genrec_unlearn_bench.evaluation.collateral import category_neighbours, judge, prefix_neighbours
from genrec_unlearn_bench.evaluation.concept import concept_places
from genrec_unlearn_bench.evaluation.concept_rate import original_space_lists
from genrec_unlearn_bench.evaluation.context import EvaluationContext
from genrec_unlearn_bench.evaluation.group_lists import GroupLists, decode_groups
from genrec_unlearn_bench.evaluation.history_influence import Influence, measure_influence
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.overlap_change import overlap_values
from genrec_unlearn_bench.evaluation.per_user import block_frame, join
from genrec_unlearn_bench.evaluation.rescore import recompute
from genrec_unlearn_bench.evaluation.similarity import list_similarity
from genrec_unlearn_bench.evaluation.user_block import BEAMS, LIST_LENGTH, WIDE_BEAM
from genrec_unlearn_bench.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.decoding.ranking import Ranking

__all__ = ["Evaluation", "Neighbours", "evaluate", "group_frames"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was measured.

    Attributes:
        values: Every core metric that this run decides by itself. The gap to the oracle, the change from the
            original and the cost need other runs or the clock: see ``gap``, ``collateral`` and ``cost``.
        per_user: One row a test example and beam (columns: ``per_user.COLUMNS``).
        groups: The ranked lists that both were computed from.
    """

    values: tuple[MetricValue, ...]
    per_user: pd.DataFrame
    groups: tuple[GroupLists, ...]


def evaluate(context: EvaluationContext, progress: Progress) -> Evaluation:
    """Measure a model.

    Each test group is decoded once at each beam of the protocol; all measurements share these lists. USER-level
    values are computed from the per-user table and from nothing else.
    """
    groups = decode_groups(context, progress)
    near = Neighbours.of(context)
    frames = [frame for lists in groups for frame in group_frames(context, lists, near, progress)]
    per_user = join(frames)
    values = (*recompute(per_user), *overlap_values(context), *collapse_values(groups, context.split.items))
    return Evaluation(values, per_user, groups)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The concept's neighbours in the catalogue, the same for all test examples.

    Attributes:
        prefix: [N] whether an item shares leading codes with a concept item; None without an original table.
        category: [N] 1, 0 or -1 (see ``category_neighbours``). Both None for forgotten interactions: these are no
            concept with neighbours, as their items are spread over the whole catalogue.
    """

    prefix: BoolArray | None
    category: NDArray[np.int8] | None

    @classmethod
    def of(cls, context: EvaluationContext) -> Neighbours:
        """The neighbours of what is to be forgotten."""
        concept, table = context.split.items, context.original_sids
        if not concept.any():
            return cls(None, None)
        prefix = None if table is None else prefix_neighbours(table, concept)
        return cls(prefix, category_neighbours(context.items, concept))


def group_frames(
    context: EvaluationContext, lists: GroupLists, near: Neighbours, progress: Progress
) -> list[pd.DataFrame]:
    """The rows of the per-user table that belong to some lists, one frame a beam."""
    influence = measure_influence(context, lists, progress)
    original = original_space_lists(context, lists, progress)
    asked = lists.group is Group.RETAIN
    targets = lists.examples.targets
    judged = {
        "near_prefix": judge(near.prefix if asked else None, targets),
        "near_category": judge(near.category if asked else None, targets),
    }
    frames = []
    for beam in BEAMS:
        wide = beam == WIDE_BEAM
        columns = {
            **_list_columns(context, lists, beam),
            **_original_columns(context, lists, original if wide else None),
            **_influence_columns(influence, wide=wide),
            **judged,
        }
        frames.append(block_frame(lists.group, beam, columns))
    return frames


def _list_columns(context: EvaluationContext, lists: GroupLists, beam: int) -> dict[str, NDArray[Any]]:
    examples, ranking, top = lists.examples, lists.rankings[beam], lists.top(beam)
    ranks = ranking.ranks(examples.targets)
    place = np.maximum(ranks - 1, 0)[:, None]
    found = np.take_along_axis(ranking.log_probs, place, axis=1)[:, 0].astype(np.float64)
    first, mean = list_similarity(top, examples.targets, context.features.plain)
    first_scrubbed, mean_scrubbed = list_similarity(top, examples.targets, context.features.scrubbed)
    return {
        "example": np.arange(lists.first, lists.first + len(examples)),
        "user": examples.users,
        "target": examples.targets,
        "rank": ranks,
        "log_prob": np.where(ranks > 0, found, np.nan),
        "first_similarity": first,
        "mean_similarity": mean,
        "first_similarity_scrubbed": first_scrubbed,
        "mean_similarity_scrubbed": mean_scrubbed,
        "concept_in_list": concept_places(context.split, top, examples.users).sum(axis=1),
        "n_list": (top >= 0).sum(axis=1),
    }


def _original_columns(
    context: EvaluationContext, lists: GroupLists, original: Ranking | None
) -> dict[str, NDArray[Any]]:
    if original is None:
        absent = np.full(len(lists.examples), -1)
        return dict.fromkeys(("original_rank", "original_concept_in_list", "original_n_list"), absent)
    top = original.items[:, :LIST_LENGTH]
    return {
        "original_rank": original.ranks(lists.examples.targets),
        "original_concept_in_list": concept_places(context.split, top, lists.examples.users).sum(axis=1),
        "original_n_list": (top >= 0).sum(axis=1),
    }


def _influence_columns(influence: Influence, *, wide: bool) -> dict[str, NDArray[Any]]:
    nothing = np.full(len(influence.concept_items), np.nan)
    return {
        "concept_in_history": influence.concept_items,
        "js_forget": influence.js_forget if wide else nothing,
        "js_random": influence.js_random if wide else nothing,
        "change_forget": influence.change_forget if wide else nothing,
        "change_random": influence.change_random if wide else nothing,
    }
