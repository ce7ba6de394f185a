"""Forget quality as a measurement: a run's truth ratios and accuracies beside the retrained model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.forget_quality.answers import ForgetQualityConfig, Hits, Ratios, answered
from genrec_unlearn_bench.evaluation.forget_quality.distance import Distance, distance, p_value
from genrec_unlearn_bench.evaluation.forget_quality.specs import (
    AVERAGE_GAP,
    CEILING_D,
    CEILING_P,
    KS_D,
    KS_P,
    SPECS,
    SPLIT_P,
    TOW,
    TRUTH_RATIO,
)
from genrec_unlearn_bench.evaluation.forget_quality.trade_off import Accuracies, average_gap, interval, tug_of_war
from genrec_unlearn_bench.evaluation.forget_quality.truth_ratio import forget_aggregate, retain_aggregate
from genrec_unlearn_bench.evaluation.likelihoods.reading import LIKELIHOODS
from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    References,
    Subject,
    independent_oracles,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricSpec, MetricValue
from genrec_unlearn_bench.evaluation.user_mean import user_mean

if TYPE_CHECKING:
    from genrec_unlearn_bench.progress import Progress

__all__ = ["ForgetQuality"]

FloatArray = NDArray[np.float64]

FIXED = 400
"""Examples of a truth-ratio sample; a note says where there are fewer."""
_ALONE = "there is no retrained model, other than the run itself, to compare with"
_ONE_ORACLE = "the ceiling is between two retrained models, and there is one"


class ForgetQuality(Measurement):
    """Are the run's answers to forgotten examples distributed as the retrained model's? (TOFU, arXiv 2401.06121)

    With it ToW-rel and the average gap, which ask the same of accuracies. Truth ratios are defined in one SID space:
    every model is scored under its own table, so that a run with reassigned items is compared by how sure it is of
    items, not of tokens. All oracles are measured, as two of them make the ceiling.
    """

    name = "forget-quality"
    specs = SPECS
    modules = (answered.__module__,)
    passes = (LIKELIHOODS,)
    oracles = 0

    def config(self, scale: str) -> ForgetQualityConfig:
        return ForgetQualityConfig(decoded=200) if scale == "smoke" else ForgetQualityConfig()

    def measure(self, subject: Subject, part: str, config: ForgetQualityConfig, progress: Progress) -> Measured:
        return answered(subject, config, progress)

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        run, original = own[""], references.original[""]
        if run.reason:
            return unmeasured(self.specs, run.reason)
        others = [parts[""] for parts in independent_oracles(own, references)]
        return (
            *_against(run, others),
            *_ceiling([parts[""] for parts in references.oracles]),
            *_aggregates(run),
            *_trade_off(run, others, original),
        )


def _against(run: Measured, others: Sequence[Measured]) -> tuple[MetricValue, ...]:
    reason = _missing(others)
    if reason:
        return unmeasured((KS_P, KS_D, SPLIT_P), reason)
    found = distance(_of(run, Ratios.FORGET), _of(others[0], Ratios.FORGET))
    return (*_distances(KS_P, KS_D, found), _split(run, others[0]))


def _split(run: Measured, oracle: Measured) -> MetricValue:
    """The run on some examples, the retrained model on others: halves of what there is, where it is too little."""
    first, second = _of(run, Ratios.FORGET), _of(oracle, Ratios.SECOND)
    if len(second) < len(first):
        half = (len(first) + len(second)) // 2
        first, second = first[:half], np.concatenate([_of(oracle, Ratios.FORGET), second])[half:][:half]
    return number(SPLIT_P.name, Group.FORGET, p_value(first, second), n=len(first), note=_note(len(first)))


def _ceiling(oracles: Sequence[Measured]) -> tuple[MetricValue, ...]:
    reason = _missing(oracles, 2)
    if reason:
        return unmeasured((CEILING_P, CEILING_D), reason)
    return _distances(CEILING_P, CEILING_D, distance(*(_of(oracle, Ratios.FORGET) for oracle in oracles[:2])))


def _distances(p: MetricSpec, d: MetricSpec, found: Distance) -> tuple[MetricValue, ...]:
    note = _note(found.n)
    return (
        number(p.name, Group.FORGET, found.p, n=found.n, note=note),
        number(d.name, Group.FORGET, found.d, n=found.n, interval=(found.low, found.high), note=note),
    )


def _aggregates(run: Measured) -> tuple[MetricValue, ...]:
    sides = (
        (Group.FORGET, forget_aggregate(_of(run, Ratios.FORGET))),
        (Group.RETAIN, retain_aggregate(_of(run, Ratios.RETAIN))),
    )
    return tuple(
        user_mean(TRUTH_RATIO.name, group, values, beam=None, empty="no train examples in this group", interval=True)
        for group, values in sides
    )


def _trade_off(run: Measured, others: Sequence[Measured], original: Measured) -> tuple[MetricValue, ...]:
    reason = _missing(others) or original.reason
    empty = [name.value for name in Hits if not len(_of(run, name))]
    if empty:
        reason = f"there are no examples for {', '.join(empty)}"
    if reason:
        return unmeasured((TOW, AVERAGE_GAP), reason)
    hits = [np.stack([_of(model, name) for model in (run, others[0], original)], axis=1) for name in Hits]
    n = sum(len(found) for found in hits)
    accuracies = Accuracies(*np.stack([found.mean(axis=0) for found in hits], axis=1))

    def valued(spec: MetricSpec, measure: Callable[[Accuracies], FloatArray]) -> MetricValue:
        return number(spec.name, Group.ALL, float(measure(accuracies)), n=n, interval=interval(measure, hits))

    if not (accuracies.original > 0).all():
        nothing = "the original recommender has no hit on some set, so that nothing can be in proportion to it"
        return (*unmeasured((TOW,), nothing), valued(AVERAGE_GAP, average_gap))
    return valued(TOW, tug_of_war), valued(AVERAGE_GAP, average_gap)


def _missing(oracles: Sequence[Measured], needed: int = 1) -> str:
    """Why so many oracles cannot be compared with; empty where they can."""
    if len(oracles) < needed:
        return _ALONE if needed == 1 else _ONE_ORACLE
    return next(
        (f"a retrained model was not measured: {found.reason}" for found in oracles[:needed] if found.reason), ""
    )


def _note(n: int) -> str | None:
    return f"on {n} examples instead of {FIXED}: the p-value is higher with fewer" if n < FIXED else None


def _of(model: Measured, name: Ratios | Hits) -> FloatArray:
    return np.asarray(model.samples[name], dtype=np.float64)
