"""Decode test examples: every group once per beam; all core measurements share these lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from genrec_unlearn_bench.backbones.recommender import Ranker, Recommender, length_batches
from genrec_unlearn_bench.data.examples import Examples, Histories
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.lists import GroupLists
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.ranking import BEAMS, LIST_LENGTH, WIDE_BEAM
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable

CHUNK = 1024
"""Rows per call: bounds the padding and paces the bar. The recommender cuts its own batches out of it."""


@dataclass(frozen=True, eq=False)
class EvaluationContext:
    """Inputs of the core measurements: the model, the resolved task with its test part, and the items.

    Attributes:
        ranker: The model. A ``Recommender`` is decoded at every beam of the protocol, any other ranker once.
        original_sids: The original recommender's table, for exposure, leakage and collateral; None if there is none.
        seed: Seed of the run; the random draws of the measurements are derived from it by name.
    """

    ranker: Ranker
    original_sids: SidTable | None
    items: ItemTable
    split: ForgetSplit
    features: ItemFeatures
    seed: int
    own_tokenizer: bool = False
    """Whether the ranker was trained from scratch on semantic IDs of its own (``retrain-full``): no other IDs mean
    anything to its weights, so that it is exposed in these."""

    def test(self, group: Group) -> Examples:
        return self.split.test.forget if group is Group.FORGET else self.split.test.retain


def decode(
    ranker: Ranker, histories: Histories, *, beam: int, label: str, progress: Progress, sids: SidTable | None = None
) -> Ranking:
    """``recommend`` for any number of histories, in their order; ``sids`` decodes a recommender in other SIDs."""
    width = max(LIST_LENGTH, beam)
    options: dict[str, Any] = {} if sids is None else {"sids": sids}
    items = np.full((len(histories), width), -1, dtype=np.int64)
    log_probs = np.full((len(histories), width), -np.inf, dtype=np.float32)
    chunks = list(length_batches(histories.lengths, CHUNK))
    for rows in progress.track(label, chunks, total=len(chunks)):
        ranking = ranker.recommend(histories.rows(rows), width, beam=beam, **options)
        items[rows] = ranking.items
        log_probs[rows] = ranking.log_probs
    return Ranking(items, log_probs)


def given_histories(ranker: Ranker, examples: Examples) -> Histories:
    """The examples' histories as the model is given them: cut to what it reads.

    A served model that drops items from histories is given the whole history, as it drops before it cuts.
    """
    if isinstance(ranker, Recommender) and ranker.serving.ignored is None:
        return examples.histories(ranker.history_limit)
    return examples.histories()


def is_reassignment(own: SidTable, original: SidTable) -> bool:
    """Whether ``own`` is a reassignment of the original table, so that the model can still read original SIDs.

    A tokenizer trained anew (``retrain-full``) has codes of the same sizes that stand for something else.
    """
    return own.version != original.version and own.level_sizes == original.level_sizes


def decode_block(
    context: EvaluationContext, group: Group, examples: Examples, progress: Progress, *, first: int = 0
) -> GroupLists:
    """Some test examples of one group, from row ``first`` of it on, decoded at every beam. There may be none."""
    ranker, pruned = context.ranker, isinstance(context.ranker, Recommender)
    histories = given_histories(ranker, examples)
    rankings: dict[int, Ranking] = {}
    for beam in BEAMS if pruned else (WIDE_BEAM,):
        label = f"{group.value} test, beam {beam}"
        rankings[beam] = decode(ranker, histories, beam=beam, label=label, progress=progress)
    if not pruned:
        rankings = dict.fromkeys(BEAMS, rankings[WIDE_BEAM])
    return GroupLists(group, examples, histories, rankings, first)
