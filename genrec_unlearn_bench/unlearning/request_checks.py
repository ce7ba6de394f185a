"""Is there anything to forget, and anything to keep? Said before a method runs, in words, instead of by a mean of
nothing inside its losses."""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.unlearning.request import ForgetRequest

__all__ = ["check_request"]


def check_request(request: ForgetRequest, *, task: str) -> None:
    """Raises DataFault where a side of the train part is empty, or the request names nothing.

    Empty validation parts are no fault here: a method may do without, and tuning asks for them itself.

    Args:
        task: What the message calls the request.
    """
    single = request.kind is ConceptKind.INTERACTION
    named = len(request.pairs) if single else int(np.count_nonzero(request.items))
    forget, retain = len(request.train.forget), len(request.train.retain)
    what = "interactions" if single else "items"
    if not forget and not retain:
        raise DataFault(
            "the train part has no examples at all, so nothing can be unlearned from it",
            where=task,
            hint="check the dataset's split (bench data info NAME): every user needs two train interactions or more",
        )
    if not named:
        raise DataFault(
            f"the request names no {what}, so there is nothing to forget",
            where=task,
            hint="check what the task resolves to (bench show TASK), and its concept in the task's YAML",
        )
    if not forget:
        raise DataFault(
            f"none of the {retain} train examples belongs to the {named} {what} to be forgotten",
            where=task,
            hint="a recommender that was never trained on them has nothing to unlearn: choose another concept",
        )
    if not retain:
        raise DataFault(
            f"all {forget} train examples are to be forgotten, so there is nothing to keep a model by",
            where=task,
            hint="name less in the task's YAML; to forget everything, delete the model",
        )
