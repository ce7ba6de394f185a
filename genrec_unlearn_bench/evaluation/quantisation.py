"""Quantisation: does the concept come back when the model is served with fewer bits?

Zhang et al. 2024, "Catastrophic failure of LLM unlearning via robust quantization" (arXiv 2410.16454): methods that
move weights by less than half a quantisation step are undone by rounding. Measured on lists as they are served, so
that a method's changes to SIDs, trie and histories stay in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.evaluation.catalogue import family
from genrec_unlearn_bench.evaluation.measurement import (
    FloatArray,
    IntervalEstimate,
    Measured,
    Measurement,
    NotMeasurable,
    References,
    Subject,
    number,
    unmeasured,
    values_or_reason,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricSpec, MetricValue
from genrec_unlearn_bench.evaluation.ranking import RANK_METRICS, TEST_GROUPS, rate_interval, user_mean
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    import pandas as pd


FULL = "full"
"""The part that measures the model as it is."""

SCHEMES = ("int8", "int4", "nf4")
"""Ways to quantise: parts of the measurement, and ends of its metrics' names."""

DRAWS = 2000
"""Resamples of the bootstrap."""
_TAIL = 0.01
"""Share of the resamples whose denominator may be 0 or less. Below the 2.5 % of each of the interval's ends, so that
both are finite."""
_CELLS = 4_000_000
"""Most resampled cells held in memory."""
_NO_PART = "this way of quantising is there for decoder-only models alone"
_RETAIN_EXAMPLES = {"smoke": 400, "small": 1500}
SPECS = family("quantisation.")
_BY_SCHEME = {scheme: tuple(spec for spec in SPECS if spec.name.endswith(f".{scheme}")) for scheme in SCHEMES}


class QuantisationConfig(StrictModel):
    """Size of the retain sample, and ways to quantise the weights."""

    retain_examples: int | None = Field(default=5000, ge=2)
    """Retain test examples that are decoded, drawn at random, the same for all models of a seed; null takes all."""
    nf4: bool = False
    """Causal models: quantise with bitsandbytes' 4-bit NormalFloat as well. Needs that library and a CUDA device."""


class Quantisation(Measurement):
    """HR@10 and NDCG@10 with 8 and 4 bits a weight; recovery on the forget test, damage on the retain test."""

    name = "quantisation"
    specs = SPECS

    def config(self, scale: str) -> QuantisationConfig:
        return QuantisationConfig(retain_examples=_RETAIN_EXAMPLES.get(scale, 5000))

    def parts(self, subject: Subject) -> tuple[str, ...]:
        from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender

        causal = isinstance(subject.recommender, CausalRecommender)
        return (FULL, "int8", "int4", *(("nf4",) if causal else ()))

    def measure(self, subject: Subject, part: str, config: QuantisationConfig, progress: Progress) -> Measured:
        from genrec_unlearn_bench.evaluation.quantised import quantised_ranks

        if part == "nf4" and not config.nf4:
            raise NotMeasurable("NF4 was not asked for (--set-measure quantisation.nf4=true)")
        scheme = None if part == FULL else part
        found = quantised_ranks(subject, scheme, retain_examples=config.retain_examples, progress=progress)
        return Measured(curve=_curve(part, found), samples=found)

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        return tuple(value for scheme in SCHEMES for value in _values(scheme, own, references))


def _values(scheme: str, own: Mapping[str, Measured], references: References) -> list[MetricValue]:
    # A ranker without a network is one part without a name.
    measured = own.get(scheme, own.get(""))
    if measured is None or measured.reason:
        return list(unmeasured(_BY_SCHEME[scheme], measured.reason if measured else _NO_PART))
    _, _, recovery, damage, of_original = _BY_SCHEME[scheme]
    return [
        *_scores(f".{scheme}", measured.samples),
        *values_or_reason([recovery], lambda: _recovery(recovery, scheme, own, references)),
        *values_or_reason([damage], lambda: _damage(damage, scheme, own, "model")),
        *values_or_reason([of_original], lambda: _damage(of_original, scheme, references.original, "original")),
    ]


def _recovery(spec: MetricSpec, scheme: str, own: Mapping[str, Measured], references: References) -> list[MetricValue]:
    if references.row == "original":
        raise NotMeasurable("the original recommender has forgotten nothing that could come back")
    before = _per_example(own, FULL, "hr@10", Group.FORGET, "model")
    target = _per_example(references.original, scheme, "hr@10", Group.FORGET, "quantised original")
    rounded = _per_example(own, scheme, "hr@10", Group.FORGET, "quantised model")
    if len(before) != len(target):
        raise NotMeasurable("the original was measured on other forget examples")
    what = "what the quantised original finds beyond the unlearned model (HR@10)"
    return [_ratio(spec, rounded - before, target - before, what=what)]


def _damage(spec: MetricSpec, scheme: str, parts: Mapping[str, Measured], whose: str) -> list[MetricValue]:
    before = _per_example(parts, FULL, "ndcg@10", Group.RETAIN, whose)
    after = _per_example(parts, scheme, "ndcg@10", Group.RETAIN, f"quantised {whose}")
    return [_ratio(spec, after - before, before, what="the retain NDCG@10 without quantisation")]


def _per_example(parts: Mapping[str, Measured], part: str, metric: str, group: Group, whose: str) -> FloatArray:
    found = parts.get(part)
    if found is None or found.reason:
        raise NotMeasurable(f"the {whose} was not measured" + (f": {found.reason}" if found is not None else ""))
    return _per_rank(found.samples, group, metric)


def _ratio(spec: MetricSpec, numerators: FloatArray, denominators: FloatArray, *, what: str) -> MetricValue:
    return paired_ratio(numerators, denominators, what=what).metric(spec.name, next(iter(spec.better)))


def _scores(end: str, samples: Mapping[str, NDArray[np.generic]]) -> list[MetricValue]:
    out, name = [], f"quantisation.hr@10{end}"
    for group in TEST_GROUPS:
        hits = _per_rank(samples, group, "hr@10")
        n, found = len(hits), int(hits.sum())
        if n:
            out.append(number(name, group, found / n, n=n, interval=rate_interval(found, n)))
        else:
            out.append(MetricValue(metric=name, group=group, value=None, n=0, note="no test examples in this group"))
    gains = _per_rank(samples, Group.RETAIN, "ndcg@10")
    return [*out, user_mean(f"quantisation.ndcg@10{end}", Group.RETAIN, gains, beam=None, interval=True)]


def _curve(scheme: str, samples: Mapping[str, NDArray[np.int64]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "scheme": scheme,
                "bits": int(samples["bits"][0]),
                "group": value.group.value,
                "metric": value.metric.removeprefix("quantisation."),
                "value": value.value,
                **dict(zip(("low", "high"), value.interval or (None, None), strict=True)),
                "n": value.n,
            }
            for value in _scores("", samples)
        ]
    )


def _per_rank(samples: Mapping[str, NDArray[np.generic]], group: Group, metric: str) -> FloatArray:
    return RANK_METRICS[metric](np.asarray(samples[group.value], dtype=np.int64))


def paired_ratio(numerators: FloatArray, denominators: FloatArray, *, what: str) -> IntervalEstimate:
    """The ratio of the means of two rows [n] of numbers of the same examples.

    The interval is the percentile bootstrap's over examples, both rows together; it is made to hold the value. Raises
    NotMeasurable where the mean denominator, which ``what`` names, is not above 0 or not distinguishable from 0.
    """
    n = len(denominators)
    if n < 2:
        raise NotMeasurable(f"{what} is not distinguishable from 0 over {n} examples")
    below = float(denominators.mean())
    if below <= 0:
        raise NotMeasurable(f"{what} is {below:.3g}, and only above 0 is there anything to take a share of")
    above, under = _resampled(np.stack([numerators, denominators], axis=1)).T
    if float((under <= 0).mean()) >= _TAIL:
        raise NotMeasurable(f"{what} is {below:.3g} over {n} examples, which resampling cannot tell from 0")
    value = float(numerators.mean()) / below
    ratios = np.where(under > 0, above / np.where(under > 0, under, 1.0), np.copysign(np.inf, above))
    low, high = np.quantile(ratios, [0.025, 0.975], method="nearest")
    return IntervalEstimate(value, min(float(low), value), max(float(high), value), n)


def _resampled(rows: FloatArray) -> FloatArray:
    """[DRAWS, C] column means of resampled rows [n, C]; the same draws for every call of that length."""
    n = len(rows)
    generator = numpy_generator(0, "paired-ratio", n)
    chunk = max(1, _CELLS // n)
    out = [
        rows[generator.integers(n, size=(min(chunk, DRAWS - first), n))].mean(axis=1)
        for first in range(0, DRAWS, chunk)
    ]
    return np.concatenate(out)
