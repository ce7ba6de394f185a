"""Membership inference: can forgotten interactions be distinguished from never-trained ones?

Both are of the same concept. After unlearning they should be distinguished no better than under the retrained model,
which saw neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.evaluation import membership_scores as attacks
from genrec_unlearn_bench.evaluation.likelihoods import LIKELIHOODS, ExampleGroup, Scored, scored
from genrec_unlearn_bench.evaluation.measurement import (
    FloatArray,
    IntervalEstimate,
    Measured,
    Measurement,
    NotMeasurable,
    References,
    Subject,
    independent_oracles,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.membership_scores import LOSS, MIN_K, MIN_K_PLUS_PLUS, OLD, ONE_IN, OWN, REFERENCE
from genrec_unlearn_bench.evaluation.metric import Better, Group, MetricSpec, MetricValue
from genrec_unlearn_bench.progress import Progress

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Quantity:
    """One metric: a statistic (auc, tpr or privleak) of a score in a SID space."""

    statistic: str
    score: str
    space: str = OWN

    @property
    def name(self) -> str:
        return ".".join(["membership", self.statistic, *([self.space] if self.space != OWN else []), self.score])


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


def _area(quantity: Quantity) -> MetricSpec:
    title, what, source = _SCORED_BY[quantity.score]
    if quantity.space == OLD:
        return MetricSpec(
            name=quantity.name,
            title="MIA AUC LOSS, original SIDs",
            better={Group.FORGET: Better.LOWER},
            unit="AUC",
            description=f"Area under the ROC curve of {_AGAINST}, scored by {what} with histories and targets written "
            "in the original semantic IDs: what weights still know once items have new IDs. 95 % interval by DeLong.",
            source=f"{_PROTOCOL}; ours, after the concept's leakage through the original SIDs",
        )
    # Retain interactions were trained on and may be recognised; only a change of that AUC says much.
    loss = quantity.score == LOSS
    both = "; on the retain side, retain train against never-trained retain interactions" if loss else ""
    return MetricSpec(
        name=quantity.name,
        title=f"MIA AUC {title}",
        better={Group.FORGET: Better.LOWER, **({Group.RETAIN: Better.NONE} if loss else {})},
        unit="AUC",
        description=f"Area under the ROC curve of {_AGAINST}{both}, scored by {what}; .5 is chance, and the "
        "target is the retrained model's. 95 % interval by DeLong.",
        source=f"{source}; {_PROTOCOL}",
    )


def _rate(quantity: Quantity) -> MetricSpec:
    title, what, source = _SCORED_BY[quantity.score]
    return MetricSpec(
        name=quantity.name,
        title=f"MIA TPR {title}",
        better={Group.FORGET: Better.LOWER},
        description=f"Share of forget train interactions that are found out at a false-positive rate of at most 1 % by "
        f"{what}; .01 is chance. The 95 % interval is Clopper-Pearson's, mixed over where the threshold may be.",
        source=f"Carlini et al. 2022, arXiv 2112.03570; {source}",
    )


def _leak(quantity: Quantity) -> MetricSpec:
    title, what, _ = _SCORED_BY[quantity.score]
    return MetricSpec(
        name=quantity.name,
        title=f"PrivLeak {title}",
        better={Group.FORGET: Better.ORACLE},
        range=(-100.0, math.inf),
        unit="%",
        description="100 [(1 - AUC) - (1 - AUC of retrain)] / (1 - AUC of retrain), scored by "
        f"{what}: below 0 too little is unlearned, above 0 too much. 95 % interval by paired bootstrap over examples.",
        source="MUSE, Shi et al. 2024, arXiv 2407.06460",
    )


QUANTITIES = (
    *(Quantity("auc", score) for score in attacks.SCORES),
    Quantity("auc", LOSS, OLD),
    *(Quantity(statistic, score) for statistic in ("tpr", "privleak") for score in attacks.SCORES),
)
_SPEC_OF = {"auc": _area, "tpr": _rate, "privleak": _leak}
SPECS = tuple(_SPEC_OF[quantity.statistic](quantity) for quantity in QUANTITIES)

_SIDES = {
    Group.FORGET: (ExampleGroup.FORGET_TRAIN, ExampleGroup.FORGET_HOLDOUT),
    Group.RETAIN: (ExampleGroup.RETAIN_TRAIN, ExampleGroup.RETAIN_HOLDOUT),
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
    return f"{group.value}.{space}.{score}.{'members' if members else 'holdout'}"


class Membership(Measurement):
    """Membership scores of forget and retain examples, their AUC and TPR, and PrivLeak.

    All oracles are measured: PrivLeak compares with the first, and the last calibrates the reference score.
    """

    name = "membership"
    specs = SPECS
    passes = (LIKELIHOODS,)
    oracles = 0

    def config(self, scale: str) -> MembershipConfig:
        return MembershipConfig()

    def measure(self, subject: Subject, part: str, config: MembershipConfig, progress: Progress) -> Measured:
        """Scores of every example, and their statistics by group; a retain side with too few examples is left out."""
        parts = {example_group: scored(subject.pass_arrays, example_group) for example_group in ExampleGroup}
        if subject.split.kind is ConceptKind.INTERACTION:
            # The forgotten interactions are a random draw, so what was held out stands for either side.
            parts[ExampleGroup.RETAIN_HOLDOUT] = parts[ExampleGroup.FORGET_HOLDOUT]
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
            for are_members, examples in ((True, members), (False, holdout)):
                for (space, score), values in _scores(parts[examples], config.share):
                    samples[sample_name(group, space, score, members=are_members)] = values[: config.examples]
        return Measured(curve=_curve(samples), samples=samples)

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        run = own[""]
        if run.reason:
            return unmeasured(self.specs, run.reason)
        compared = _Comparison(run, [parts[""] for parts in independent_oracles(own, references)])
        pairs = zip(QUANTITIES, self.specs, strict=True)
        return tuple(compared.value(quantity, group) for quantity, spec in pairs for group in spec.better)


def _scores(part: Scored, share: float) -> Iterator[tuple[tuple[str, str], FloatArray]]:
    yield (OWN, LOSS), attacks.likelihood(part.log_probs, part.real)
    yield (OWN, MIN_K), attacks.min_k(part.log_probs, part.real, share)
    yield (OWN, MIN_K_PLUS_PLUS), attacks.min_k_plus_plus(part.log_probs, part.mean, part.sd, part.real, share)
    if part.old is not None and part.old_real is not None:
        yield (OLD, LOSS), attacks.likelihood(part.old, part.old_real)


def _curve(samples: Mapping[str, NDArray[np.generic]]) -> pd.DataFrame:
    """A row for every group, space and score. The reference score is no property of one model."""
    import pandas as pd

    rows, unknown = [], IntervalEstimate(np.nan, np.nan, np.nan)
    for group in _SIDES:
        for space, score in ((OWN, LOSS), (OWN, MIN_K), (OWN, MIN_K_PLUS_PLUS), (OLD, LOSS)):
            name = sample_name(group, space, score, members=True)
            if name not in samples:
                continue
            members = samples[name].astype(np.float64)
            holdout = samples[sample_name(group, space, score, members=False)].astype(np.float64)
            found = attacks.area(members, holdout)
            found_rate = attacks.rate(members, holdout) if len(holdout) >= ONE_IN else unknown
            rows.append(
                {
                    "score": score,
                    "space": space,
                    "group": group.value,
                    "auc": found.value,
                    "auc_low": found.low,
                    "auc_high": found.high,
                    "tpr": found_rate.value,
                    "tpr_low": found_rate.low,
                    "tpr_high": found_rate.high,
                    "n_members": len(members),
                    "n_holdout": len(holdout),
                }
            )
    return pd.DataFrame(rows)


@dataclass(frozen=True, eq=False)
class _Comparison:
    run: Measured
    oracles: Sequence[Measured]

    def value(self, quantity: Quantity, group: Group) -> MetricValue:
        try:
            scores = self._scores(self.run, quantity, group)
            found = self._estimate(quantity, group, scores)
        except NotMeasurable as fault:
            return MetricValue(metric=quantity.name, group=group, value=None, note=fault.what)
        members, holdout = (len(side) for side in scores)
        return number(quantity.name, group, found.value, n=members + holdout, interval=found.interval)

    def _estimate(self, quantity: Quantity, group: Group, scores: attacks.MemberScores) -> IntervalEstimate:
        if quantity.statistic == "auc":
            return attacks.area(*scores)
        if quantity.statistic == "privleak":
            return self._leak(quantity, group, scores)
        if len(scores[1]) < ONE_IN:
            raise NotMeasurable(
                f"a false-positive rate of 1 in {ONE_IN} cannot be resolved with {len(scores[1])} non-members"
            )
        return attacks.rate(*scores)

    def _leak(self, quantity: Quantity, group: Group, scores: attacks.MemberScores) -> IntervalEstimate:
        if not self.oracles:
            raise NotMeasurable("there is no retrained model, other than the run itself, to compare with")
        if quantity.score == REFERENCE and len(self.oracles) == 1:
            raise NotMeasurable("the one retrained model at hand would calibrate its own score")
        retrained = self._scores(self.oracles[0], quantity, group)
        if attacks.area(*retrained).value >= 1.0:
            raise NotMeasurable(
                "the retrained model tells members perfectly, so that it leaves nothing to compare with"
            )
        return attacks.privleak(scores, retrained)

    def _scores(self, model: Measured, quantity: Quantity, group: Group) -> attacks.MemberScores:
        """Member and non-member scores of a model; for the reference score, minus those of the last oracle."""
        if model.reason:
            raise NotMeasurable(f"the retrained model was not measured: {model.reason}")
        score = LOSS if quantity.score == REFERENCE else quantity.score
        names = [sample_name(group, quantity.space, score, members=members) for members in (True, False)]
        if any(name not in model.samples for name in names):
            raise NotMeasurable(
                "the model's semantic IDs are no reassignment of the original ones"
                if quantity.space == OLD
                else f"too few {group} interactions, trained on or not"
            )
        members, holdout = (np.asarray(model.samples[name], dtype=np.float64) for name in names)
        if quantity.score != REFERENCE:
            return members, holdout
        if not self.oracles:
            raise NotMeasurable("there is no retrained model, other than the run itself, to calibrate the score by")
        reference = self._scores(self.oracles[-1], Quantity(quantity.statistic, LOSS, quantity.space), group)
        return members - reference[0], holdout - reference[1]
