"""What membership inference reports, declared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from genrec_unlearn_bench.evaluation.membership.scores import (
    LOSS,
    MIN_K,
    MIN_K_PLUS_PLUS,
    OLD,
    OWN,
    REFERENCE,
    SCORES,
)
from genrec_unlearn_bench.evaluation.metric import Better, Group, Level, MetricSpec

__all__ = ["QUANTITIES", "SPECS", "Kind", "Quantity"]


class Kind(StrEnum):
    """What is made of a score."""

    AREA = "auc"
    RATE = "tpr"
    LEAK = "privleak"


@dataclass(frozen=True)
class Quantity:
    """What a metric is computed from."""

    kind: Kind
    space: str
    score: str

    @property
    def name(self) -> str:
        """The metric's."""
        return ".".join(["membership", self.kind, *([self.space] if self.space != OWN else []), self.score])


_SCORED_BY = {
    LOSS: ("LOSS", "the mean log-probability of the target's tokens", "Yeom et al. 2018, arXiv 1709.01604"),
    MIN_K: (
        "Min-k %",
        "the mean log-probability of the least likely fifth of the target's tokens (at least one)",
        "Shi et al. 2024, arXiv 2310.16789, eq. 1",
    ),
    MIN_K_PLUS_PLUS: (
        "Min-k %++",
        "the same with each log-probability standardised by the model's own distribution",
        "Zhang et al. 2024, arXiv 2404.02936, eq. 3",
    ),
    REFERENCE: (
        "reference",
        "the mean log-probability minus that under a retrained model, the last that is not the run itself",
        "Carlini et al. 2021, arXiv 2012.07805; Watson et al. 2022, arXiv 2111.08440",
    ),
}
_AGAINST = "forget train interactions against never-trained ones of the same concept"
_PROTOCOL = "protocol sec. 4"


def _area(score: str) -> MetricSpec:
    title, what, source = _SCORED_BY[score]
    # What can be told about retain interactions is right to tell, as they were trained on; only its change says much.
    sides = {Group.FORGET: Better.LOWER, **({Group.RETAIN: Better.NONE} if score == LOSS else {})}
    both = "; on the retain side, retain train against never-trained retain interactions" if score == LOSS else ""
    return MetricSpec(
        name=Quantity(Kind.AREA, OWN, score).name,
        title=f"MIA AUC {title}",
        better=sides,
        range=(0.0, 1.0),
        unit="AUC",
        level=Level.MODEL,
        description=f"Area under the ROC curve of {_AGAINST}{both}, scored by {what}; .5 cannot be told, and the "
        "target is the retrained model's. 95 % interval by DeLong.",
        source=f"{source}; {_PROTOCOL}",
    )


def _rate(score: str) -> MetricSpec:
    title, what, source = _SCORED_BY[score]
    return MetricSpec(
        name=Quantity(Kind.RATE, OWN, score).name,
        title=f"MIA TPR {title}",
        better={Group.FORGET: Better.LOWER},
        range=(0.0, 1.0),
        unit="fraction",
        level=Level.MODEL,
        description=f"Share of forget train interactions that are found out at a false-positive rate of at most 1 % by "
        f"{what}; .01 cannot be told. The 95 % interval is Clopper-Pearson's, mixed over where the threshold may be.",
        source=f"Carlini et al. 2022, arXiv 2112.03570; {source}",
    )


def _leak(score: str) -> MetricSpec:
    title, what, _ = _SCORED_BY[score]
    return MetricSpec(
        name=Quantity(Kind.LEAK, OWN, score).name,
        title=f"PrivLeak {title}",
        better={Group.FORGET: Better.ORACLE},
        range=(-100.0, math.inf),
        unit="%",
        level=Level.MODEL,
        description="100 [(1 - AUC) - (1 - AUC of retrain)] / (1 - AUC of retrain), scored by "
        f"{what}: below 0 too little is unlearned, above 0 too much. 95 % interval by paired bootstrap over examples.",
        source="MUSE, Shi et al. 2024, arXiv 2407.06460",
    )


SPECS = (
    *(_area(score) for score in SCORES),
    MetricSpec(
        name=Quantity(Kind.AREA, OLD, LOSS).name,
        title="MIA AUC LOSS, original SIDs",
        better={Group.FORGET: Better.LOWER},
        range=(0.0, 1.0),
        unit="AUC",
        level=Level.MODEL,
        description=f"Area under the ROC curve of {_AGAINST}, scored by the mean log-probability of the target's "
        "tokens with histories and targets written in the original semantic IDs: what weights still know once items "
        "have new IDs. 95 % interval by DeLong.",
        source=f"{_PROTOCOL}; ours, after the concept's leakage through the original SIDs",
    ),
    *(_rate(score) for score in SCORES),
    *(_leak(score) for score in SCORES),
)

QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        quantity.name: quantity
        for quantity in (
            *(Quantity(kind, OWN, score) for kind in Kind for score in SCORES),
            Quantity(Kind.AREA, OLD, LOSS),
        )
    }
)
"""By metric name."""
