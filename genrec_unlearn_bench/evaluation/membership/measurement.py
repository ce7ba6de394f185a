"""Membership inference as a measurement: what a run gives away, and how far that is from retraining."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from genrec_unlearn_bench.evaluation.likelihoods.reading import LIKELIHOODS
from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    NotMeasurable,
    References,
    Subject,
    independent_oracles,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.membership.attack import MembershipConfig, attacked, sample_name
from genrec_unlearn_bench.evaluation.membership.privleak import Scores, privleak
from genrec_unlearn_bench.evaluation.membership.roc import ONE_IN, Estimate, area, rate
from genrec_unlearn_bench.evaluation.membership.scores import LOSS, OLD, REFERENCE
from genrec_unlearn_bench.evaluation.membership.specs import QUANTITIES, SPECS, Kind, Quantity
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue

if TYPE_CHECKING:
    from genrec_unlearn_bench.progress import Progress

__all__ = ["Membership"]


class Membership(Measurement):
    """Can forget train interactions be told from never-trained ones of the same concept?

    After unlearning they should be told no better than under the retrained model, which saw neither. All oracles are
    measured: PrivLeak compares with the first, and the last calibrates the reference score.
    """

    name = "membership"
    specs = SPECS
    modules = (attacked.__module__,)
    passes = (LIKELIHOODS,)
    oracles = 0

    def config(self, scale: str) -> MembershipConfig:
        return MembershipConfig()

    def measure(self, subject: Subject, part: str, config: MembershipConfig, progress: Progress) -> Measured:
        return attacked(subject, config)

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        run = own[""]
        if run.reason:
            return unmeasured(self.specs, run.reason)
        told = _Told(run, [parts[""] for parts in independent_oracles(own, references)])
        return tuple(told.value(QUANTITIES[spec.name], group) for spec in self.specs for group in spec.better)


@dataclass(frozen=True, eq=False)
class _Told:
    """A run beside the oracles other than itself."""

    run: Measured
    oracles: Sequence[Measured]

    def value(self, quantity: Quantity, group: Group) -> MetricValue:
        """One metric, or why there is none."""
        try:
            scores = self._scores(self.run, quantity, group)
            found = self._estimate(quantity, group, scores)
        except NotMeasurable as fault:
            return MetricValue(metric=quantity.name, group=group, value=None, note=fault.what)
        members, holdout = (len(side) for side in scores)
        return number(quantity.name, group, found.value, n=members + holdout, interval=(found.low, found.high))

    def _estimate(self, quantity: Quantity, group: Group, scores: Scores) -> Estimate:
        match quantity.kind:
            case Kind.AREA:
                return area(*scores)
            case Kind.RATE:
                if len(scores[1]) < ONE_IN:
                    raise NotMeasurable(
                        f"a false-positive rate of 1 in {ONE_IN} cannot be resolved with {len(scores[1])} non-members"
                    )
                return rate(*scores)
            case Kind.LEAK:
                return self._leak(quantity, group, scores)

    def _leak(self, quantity: Quantity, group: Group, scores: Scores) -> Estimate:
        if not self.oracles:
            raise NotMeasurable("there is no retrained model, other than the run itself, to compare with")
        if quantity.score == REFERENCE and len(self.oracles) == 1:
            raise NotMeasurable("the one retrained model at hand would calibrate its own score")
        retrained = self._scores(self.oracles[0], quantity, group)
        if area(*retrained).value >= 1.0:
            raise NotMeasurable(
                "the retrained model tells members perfectly, so that it leaves nothing to compare with"
            )
        return privleak(scores, retrained)

    def _scores(self, model: Measured, quantity: Quantity, group: Group) -> Scores:
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
        reference = self._scores(self.oracles[-1], Quantity(quantity.kind, quantity.space, LOSS), group)
        return members - reference[0], holdout - reference[1]
