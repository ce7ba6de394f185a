"""Scores one model's examples for membership inference, and says what they give away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.evaluation.likelihoods.reading import Part, Scored, scored
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.membership.roc import ONE_IN, area, rate
from genrec_unlearn_bench.evaluation.membership.scores import (
    LOSS,
    MIN_K,
    MIN_K_PLUS_PLUS,
    OLD,
    OWN,
    likelihood,
    min_k,
    min_k_plus_plus,
)
from genrec_unlearn_bench.evaluation.metric import Group

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MembershipConfig", "attacked", "sample_name"]

FloatArray = NDArray[np.float64]

_SIDES = {
    Group.FORGET: (Part.FORGET_TRAIN, Part.FORGET_HOLDOUT),
    Group.RETAIN: (Part.RETAIN_TRAIN, Part.RETAIN_HOLDOUT),
}


class MembershipConfig(StrictModel):
    """How membership is inferred."""

    examples: int = Field(default=2000, ge=20, le=2000)
    """Most members, and most non-members, of a side."""
    least: int = Field(default=20, ge=2)
    """With fewer members or non-members than that, nothing is measured."""
    share: float = Field(default=0.2, gt=0, le=1)
    """Share of a target's tokens that Min-k % and Min-k %++ look at."""


def sample_name(group: Group, space: str, score: str, *, members: bool) -> str:
    """Name of an array of scores among the samples."""
    return f"{group.value}.{space}.{score}.{'members' if members else 'holdout'}"


def attacked(subject: Subject, config: MembershipConfig) -> Measured:
    """Scores of every example, and what they tell about the groups.

    Raises NotMeasurable where the forget side has too few members or non-members; a retain side that has too few is
    left out.
    """
    parts = {part: scored(subject.pass_arrays, part) for part in Part}
    if subject.split.kind is ConceptKind.INTERACTION:
        # The forgotten interactions are a random draw, so what was held out stands for either side.
        parts[Part.RETAIN_HOLDOUT] = parts[Part.FORGET_HOLDOUT]
    samples: dict[str, NDArray[np.generic]] = {}
    for group, (members, holdout) in _SIDES.items():
        few = min(len(parts[members]), len(parts[holdout]), config.examples)
        if few < config.least and group is Group.FORGET:
            raise NotMeasurable(
                f"there are {len(parts[members])} forget train interactions and {len(parts[holdout])} of the same "
                f"concept that nobody trained on; {config.least} of each are needed"
            )
        if few < config.least:
            continue
        for name, part in ((True, members), (False, holdout)):
            for (space, score), values in _scores(parts[part], config.share):
                samples[sample_name(group, space, score, members=name)] = values[: config.examples]
    return Measured(curve=_curve(samples), samples=samples)


def _scores(part: Scored, share: float) -> Iterator[tuple[tuple[str, str], FloatArray]]:
    yield (OWN, LOSS), likelihood(part.log_probs, part.real)
    yield (OWN, MIN_K), min_k(part.log_probs, part.real, share)
    yield (OWN, MIN_K_PLUS_PLUS), min_k_plus_plus(part.log_probs, part.mean, part.sd, part.real, share)
    if part.old is not None and part.old_real is not None:
        yield (OLD, LOSS), likelihood(part.old, part.old_real)


def _curve(samples: Mapping[str, NDArray[np.generic]]) -> pd.DataFrame:
    """A row for every group, space and score. The score that needs a reference is no property of one model."""
    import pandas as pd

    rows = []
    for group in _SIDES:
        for space, score in ((OWN, LOSS), (OWN, MIN_K), (OWN, MIN_K_PLUS_PLUS), (OLD, LOSS)):
            name = sample_name(group, space, score, members=True)
            if name not in samples:
                continue
            members = samples[name].astype(np.float64)
            holdout = samples[sample_name(group, space, score, members=False)].astype(np.float64)
            found = area(members, holdout)
            told = rate(members, holdout) if len(holdout) >= ONE_IN else None
            rows.append(
                {
                    "score": score,
                    "space": space,
                    "group": group.value,
                    "auc": found.value,
                    "auc_low": found.low,
                    "auc_high": found.high,
                    "tpr": told.value if told else np.nan,
                    "tpr_low": told.low if told else np.nan,
                    "tpr_high": told.high if told else np.nan,
                    "n_members": len(members),
                    "n_holdout": len(holdout),
                }
            )
    return pd.DataFrame(rows)
