"""Ranking quality on a request's validation parts: all that methods and tuning may measure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.recommender import Recommender, exposed
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.sampling import at_most


@dataclass(frozen=True)
class Validation:
    """Ranking quality on the validation parts, at item level under the deployed trie.

    Attributes:
        forget_hr, retain_ndcg: HR@10 of the forget part as served, NDCG@10 of the retain part; NaN for an empty part.
        forget_rows, retain_rows: Number of examples behind each mean.
        forget_hits: User of every forget row with its target among the first ten, for paired tests.
        exposed_hr, exposed_hits: The same for the weights without serving rules, in the original IDs; None where that
            was not asked for or the original codes have no tokens in the model.
        near_ndcg: NDCG@10 of the retain rows near the concept; None where there are none.
    """

    forget_hr: float
    retain_ndcg: float
    forget_rows: int
    retain_rows: int
    forget_hits: tuple[int, ...] = ()
    exposed_hr: float | None = None
    exposed_hits: tuple[int, ...] | None = None
    near_ndcg: float | None = None


def validate(
    recommender: Recommender,
    valid: Groups,
    *,
    beam: int = 10,
    original: SidTable | None = None,
    near: BoolArray | None = None,
) -> Validation:
    """Measure HR@10 of the forget part and NDCG@10 of the retain part by constrained beam search.

    With the original recommender's table ``original``, the forget part is measured exposed as well; a model without
    rules and moved IDs is not decoded again. ``near``: [M] retain rows near the concept (``ForgetSplit.retain_near``).
    """
    forget = _ranks(recommender, valid.forget, beam)
    retain = _ranks(recommender, valid.retain, beam)
    gains = np.where(retain > 0, 1 / np.log2(np.maximum(retain, 1) + 1), 0.0)
    users = valid.forget.users
    served = Validation(
        _mean(forget > 0),
        _mean(gains),
        len(forget),
        len(retain),
        forget_hits=tuple(users[forget > 0].tolist()),
        near_ndcg=_mean(gains[near]) if near is not None and near.any() else None,
    )
    model = exposed(recommender, original) if original is not None else None
    if model is None:
        return served
    found = forget if model is recommender else _ranks(model, valid.forget, beam)
    return replace(served, exposed_hr=_mean(found > 0), exposed_hits=tuple(users[found > 0].tolist()))


def sample(groups: Groups, rows: int, seed: int) -> Groups:
    """Draw at most ``rows`` examples of each part without replacement, the same for the same seed."""
    forget = at_most(groups.forget, rows, seed, "validation", "forget")
    return Groups(forget, at_most(groups.retain, rows, seed, "validation", "retain"))


def _ranks(recommender: Recommender, part: Examples, beam: int) -> IntArray:
    # Items that are dropped from histories are dropped before these are cut.
    limit = recommender.history_limit if recommender.serving.ignored is None else None
    return recommender.recommend(part.histories(limit), 10, beam=beam).ranks(part.targets)


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else float("nan")
