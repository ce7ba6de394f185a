"""A deletion request: exactly what a method is allowed to see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.features.item_features import ItemFeatures

__all__ = ["ForgetRequest"]


@dataclass(frozen=True, eq=False)
class ForgetRequest:
    """What is to be forgotten, and the data a method may use. No test data, no oracle, no task name.

    Attributes:
        items: [N] concept items; none marked when single interactions are to be forgotten.
        pairs: [P, 2] forgotten (user, item) pairs, for interaction requests.
        train: Forget and retain examples of the train part.
        valid: The same of the validation part, for choosing a checkpoint.
        features: Item features, plain and scrubbed.
        catalogue: The items' texts as the recommender was trained on them. Where it learned titles beside interactions
            (``TEXT_TASKS``), the samples of ``items`` belong to the forget set (``Recommender.align``).
        seed: Seed of this run, to be derived from by name (``seeding.derive``).
    """

    kind: ConceptKind
    items: BoolArray
    pairs: IntArray
    train: Groups
    valid: Groups
    features: ItemFeatures
    catalogue: ItemTable
    seed: int

    @property
    def item_ids(self) -> IntArray:
        """Concept items as ids."""
        return np.flatnonzero(self.items).astype(np.int64)

    @property
    def affected_items(self) -> BoolArray:
        """[N] items a method may treat as the concept: the concept items, or for interaction requests the items of
        the forgotten pairs."""
        if self.kind is not ConceptKind.INTERACTION:
            return self.items
        marked = np.zeros_like(self.items)
        marked[self.pairs[:, 1]] = True
        return marked
