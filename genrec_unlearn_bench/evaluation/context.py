"""Everything an evaluation needs: the model, the resolved task with its test part, and the items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.recommender import Ranker

__all__ = ["TEST_GROUPS", "EvaluationContext"]

TEST_GROUPS = (Group.FORGET, Group.RETAIN)
"""The sides the test examples are divided into."""


@dataclass(frozen=True, eq=False)
class EvaluationContext:
    """What is measured, and on what.

    Attributes:
        ranker: The model. A ``Recommender`` is decoded at every beam of the protocol, any other ranker once.
        original_sids: The table of the original recommender, for leakage and collateral; None for rankers that have
            no semantic IDs, if no original table is wanted either.
        seed: Seed of the run; the random draws of the measurements are derived from it by name.
    """

    ranker: Ranker
    original_sids: SidTable | None
    items: ItemTable
    split: ForgetSplit
    features: ItemFeatures
    seed: int

    def test(self, group: Group) -> Examples:
        """The test examples of FORGET or RETAIN."""
        return self.split.test.forget if group is Group.FORGET else self.split.test.retain
