"""A deletion request: all data that an unlearning method may see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, Groups, cleaned, forgotten_events
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.features.item_features import ItemFeatures


@dataclass(frozen=True, eq=False)
class ForgetRequest:
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
        return np.flatnonzero(self.items).astype(np.int64)

    @property
    def affected_items(self) -> BoolArray:
        """[N] concept items, or for interaction requests the items of the forgotten pairs."""
        if self.kind is not ConceptKind.INTERACTION:
            return self.items
        marked = np.zeros_like(self.items)
        marked[self.pairs[:, 1]] = True
        return marked

    def forgotten_events(self, examples: Examples) -> BoolArray:
        """[E] history events that are to be forgotten: concept items, or the forgotten pairs."""
        return forgotten_events(examples, self.kind, self.items, self.pairs)

    def cleaned(self, examples: Examples) -> Examples:
        """The examples with everything that is to be forgotten taken out of their histories, as retraining reads them;
        rows whose history becomes empty are left out."""
        return cleaned(examples, self.kind, self.items, self.pairs)


def check_request(request: ForgetRequest, *, task: str) -> None:
    """Raise DataFault if a side of the train part is empty, or no item or interaction is named.

    Empty validation parts are allowed: a method may do without, and tuning checks them itself. ``task`` is the name of
    the request in messages.
    """
    single = request.kind is ConceptKind.INTERACTION
    named = len(request.pairs) if single else int(np.count_nonzero(request.items))
    forget, retain = len(request.train.forget), len(request.train.retain)
    what = "interactions" if single else "items"
    if not forget and not retain:
        fault = "the train part has no examples at all, so nothing can be unlearned from it"
        hint = "check the dataset's split (bench data info NAME): every user needs two train interactions or more"
    elif not named:
        fault = f"the request names no {what}, so there is nothing to forget"
        hint = "check what the task resolves to (bench show TASK), and its concept in the task's YAML"
    elif not forget:
        fault = f"none of the {retain} train examples belongs to the {named} {what} to be forgotten"
        hint = "a recommender that was never trained on them has nothing to unlearn: choose another concept"
    elif not retain:
        fault = f"all {forget} train examples are to be forgotten, so there is nothing to keep a model by"
        hint = "name less in the task's YAML; to forget everything, delete the model"
    else:
        return
    raise DataFault(fault, where=task, hint=hint)
