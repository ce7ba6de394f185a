"""A deletion request: all data that an unlearning method may see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSet, Groups
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.features.item_features import ItemFeatures


@dataclass(frozen=True, eq=False)
class ForgetRequest(ForgetSet):
    """The data to forget and the data to keep. Holds no test data, no retrained model and no task name.

    Attributes:
        items: [N] concept items; none marked for requests to forget single interactions.
        pairs: [P, 2] forgotten (user, item) pairs, for interaction requests.
        train: Forget and retain examples of the train part.
        valid: The same for the validation part, for choosing a checkpoint.
        features: Item features of plain and of scrubbed texts.
        catalogue: The items' texts as the recommender was trained on them. If it learned titles besides interactions
            (``TEXT_TASKS``), the samples of ``items`` belong to the forget set (``Recommender.align``).
        seed: Seed of this run; derive generators from it by name (``seeding``).
    """

    train: Groups
    valid: Groups
    features: ItemFeatures
    catalogue: ItemTable
    seed: int

    @property
    def item_ids(self) -> IntArray:
        return np.flatnonzero(self.items).astype(np.int64)

    @property
    def affected_items(self) -> BoolArray:
        """[N] concept items, or for interaction requests the items of the forgotten pairs."""
        if self.kind is not ConceptKind.INTERACTION:
            return self.items
        marked = np.zeros_like(self.items)
        marked[self.pairs[:, 1]] = True
        return marked

    @property
    def brand_numbers(self) -> IntArray:
        """[N] number of each affected item's brand, from 0 in alphabetical order; -1 for all other items.

        Requests of other kinds are one concept: 0 for every affected item.
        """
        numbers = np.where(self.affected_items, 0, -1)
        if self.kind is ConceptKind.BRAND:
            marked = np.flatnonzero(self.items)
            numbers[marked] = np.unique([self.catalogue.brands[item] for item in marked], return_inverse=True)[1]
        return numbers.astype(np.int64)


def check_request(request: ForgetRequest, *, task: str) -> None:
    """Raise DataFault if a side of the train part is empty, or no item or interaction is named.

    Empty validation parts are allowed: a method may do without, and tuning checks them itself. ``task`` is the name of
    the request in messages.
    """
    single = request.kind is ConceptKind.INTERACTION
    what = "interactions" if single else "items"
    named = len(request.pairs) if single else int(np.count_nonzero(request.items))
    forget, retain = len(request.train.forget), len(request.train.retain)
    if not named or not forget or not retain:
        raise DataFault(
            f"the request names {named} {what}; {forget} train examples are to be forgotten and {retain} to be kept: "
            "none of these may be 0",
            where=task,
            hint="see what the concept resolves to (bench show TASK), and the split (bench data info NAME)",
        )
