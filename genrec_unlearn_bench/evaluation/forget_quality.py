"""Forget quality: are the run's answers to forgotten examples distributed as the retrained model's?

TOFU (arXiv 2401.06121) asks that of truth ratios; ToW-rel and the average gap ask the same of accuracies. Truth ratios
are defined in one SID space: every model is scored under its own table, so that a run with reassigned items is compared
by how sure it is of items, not of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.evaluation import truth_ratio
from genrec_unlearn_bench.evaluation.likelihoods import LIKELIHOODS, ExampleGroup, scored
from genrec_unlearn_bench.evaluation.measurement import (
    FloatArray,
    Measured,
    Measurement,
    NotMeasurable,
    References,
    Subject,
    independent_oracles,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.metric import Better, Group, MetricSpec, MetricValue
from genrec_unlearn_bench.evaluation.ranking import user_mean
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.data.examples import Examples

FIXED = 400
"""Examples of a truth-ratio sample; a note says where there are fewer."""
QUANTILES = np.arange(1, 50) / 50
"""Quantiles of the published distributions."""
BEAM = 10
"""Beam of the hits, and length of the lists."""
_ALONE = "there is no retrained model, other than the run itself, to compare with"
_ONE_ORACLE = "the ceiling is between two retrained models, and there is one"

_TOFU = "TOFU, Maini et al. 2024, arXiv 2401.06121"
_EACH = "each under its own semantic IDs"


def _spec(
    name: str, title: str, better: dict[Group, Better], description: str, source: str, unit: str = "fraction"
) -> MetricSpec:
    name = f"forget-quality.{name}"
    return MetricSpec(name=name, title=title, better=better, unit=unit, description=description, source=source)


KS_P = _spec(
    "ks.p",
    "KS p",
    {Group.FORGET: Better.HIGHER},
    "p-value of the two-sample Kolmogorov-Smirnov test between the truth ratios of the run and of the retrained model "
    f"on the same 400 forget train examples, {_EACH}. It falls with the number of examples, and is too high for two "
    "independent samples, as the examples are the same: read it beside the ceiling.",
    f"{_TOFU}, eq. 1 and sec. 3.2",
    "probability",
)
KS_D = _spec(
    "ks.d",
    "KS D",
    {Group.FORGET: Better.LOWER},
    "Largest distance between the distributions of the truth ratios of the run and of the retrained model on the same "
    f"400 forget train examples, {_EACH}. 95 % interval by paired bootstrap over examples.",
    f"{_TOFU}, eq. 1 and sec. 3.2",
    "probability",
)
SPLIT_P = _spec(
    "ks.split-p",
    "KS p, split",
    {Group.FORGET: Better.HIGHER},
    "As forget-quality.ks.p, with the retrained model's truth ratios from 400 other forget train examples: two "
    "independent samples, so that p is uniform where both models answer alike.",
    f"ours, after {_TOFU}",
    "probability",
)
CEILING_P = _spec(
    "ceiling.p",
    "KS p, ceiling",
    {Group.FORGET: Better.NONE},
    "forget-quality.ks.p between two retrained models of different seeds: as good as it gets.",
    "protocol sec. 4",
    "probability",
)
CEILING_D = _spec(
    "ceiling.d",
    "KS D, ceiling",
    {Group.FORGET: Better.NONE},
    "forget-quality.ks.d between two retrained models of different seeds: as good as it gets.",
    "protocol sec. 4",
    "probability",
)
TRUTH_RATIO = _spec(
    "truth-ratio",
    "truth ratio",
    # Neither way on forget examples: a retrained model may be surer of wrong items than one that is undecided.
    {Group.FORGET: Better.NONE, Group.RETAIN: Better.HIGHER},
    "With TR the mean likelihood by token of an item's five semantic neighbours over its own: mean of min(TR, 1/TR) on "
    "forget train examples (1: right and wrong items are equally likely), of max(0, 1 - TR) on retain train examples "
    "(1: the right item is certain). The target is the retrained model's. 95 % t interval.",
    f"{_TOFU}, sec. 3.1, with items for answers: no paraphrase, semantic neighbours as perturbed answers",
)
TOW = _spec(
    "tow",
    "ToW-rel",
    {Group.ALL: Better.HIGHER},
    "Product over forget test, retain train and retain test of 1 - |a(run) - a(retrained)|, with a the HR@10 (beam 10) "
    "as a share of the original's and differences cut at 1; 1 is the retrained model. 95 % interval by paired "
    "bootstrap.",
    "Zhao et al. 2024, arXiv 2406.01257; relative accuracies and forget test in place of the forget set are ours",
)
AVERAGE_GAP = _spec(
    "average-gap",
    "average gap",
    {Group.ALL: Better.LOWER},
    "Mean over forget test, retain train and retain test of |HR@10 of the run - HR@10 of the retrained model| (beam "
    "10). 95 % interval by paired bootstrap.",
    "after SalUn, Fan et al. 2024, arXiv 2310.12508",
)

SPECS = (KS_P, KS_D, SPLIT_P, CEILING_P, CEILING_D, TRUTH_RATIO, TOW, AVERAGE_GAP)


class RatioSample(StrEnum):
    """Samples of log truth ratios."""

    FORGET = "ratios.forget"
    SECOND = "ratios.forget-second"
    """Further forget examples, none of them among the first."""
    RETAIN = "ratios.retain"


class HitSample(StrEnum):
    """Samples of hits among the first ten, 1 or 0."""

    FORGET = "hits.forget-test"
    RETAIN = "hits.retain-train"
    TEST = "hits.retain-test"


class ForgetQualityConfig(StrictModel):
    """On how many examples forget quality is measured."""

    examples: int = Field(default=400, ge=20, le=400)
    """Truth ratios a sample; fixed, as the p-value of a difference falls with it."""
    least: int = Field(default=50, ge=2)
    """With fewer forget train examples than that, nothing is measured."""
    decoded: int = Field(default=1000, ge=10)
    """Most examples of each group that are decoded."""


class ForgetQuality(Measurement):
    """Truth ratios compared with the retrained model's, ToW-rel and average gap; two oracles make the ceiling."""

    name = "forget-quality"
    specs = SPECS
    passes = (LIKELIHOODS,)
    oracles = 0

    def config(self, scale: str) -> ForgetQualityConfig:
        return ForgetQualityConfig(decoded=200) if scale == "smoke" else ForgetQualityConfig()

    def measure(self, subject: Subject, part: str, config: ForgetQualityConfig, progress: Progress) -> Measured:
        """Log truth ratios of forget and retain train, and hits@10 on forget test, retain train and retain test."""
        forget = truth_ratio.log_truth_ratios(scored(subject.pass_arrays, ExampleGroup.FORGET_TRAIN))
        retain = truth_ratio.log_truth_ratios(scored(subject.pass_arrays, ExampleGroup.RETAIN_TRAIN))
        if len(forget) < config.least:
            raise NotMeasurable(f"there are {len(forget)} forget train interactions, and {config.least} are needed")
        if not np.isfinite(forget).all():
            raise NotMeasurable(
                "some forgotten item has no other item in the catalogue that could be a wrong answer to it"
            )
        samples: dict[str, NDArray[np.generic]] = {
            RatioSample.FORGET: forget[: config.examples],
            RatioSample.SECOND: forget[config.examples :][: config.examples],
            RatioSample.RETAIN: retain[np.isfinite(retain)][: config.examples],
        }
        split = subject.split
        for name, examples in zip(HitSample, (split.test.forget, split.train.retain, split.test.retain), strict=True):
            samples[name] = _hits(subject, name, examples, config.decoded, progress)
        return Measured(
            curve=_distributions({"forget": samples[RatioSample.FORGET], "retain": samples[RatioSample.RETAIN]}),
            samples=samples,
        )

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
    return (*_distances(KS_P, KS_D, run, others[0]), _split(run, others[0]))


def _split(run: Measured, oracle: Measured) -> MetricValue:
    """The run and the retrained model on different examples; on halves of the samples where these are too small."""
    first, second = _of(run, RatioSample.FORGET), _of(oracle, RatioSample.SECOND)
    if len(second) < len(first):
        half = (len(first) + len(second)) // 2
        first, second = first[:half], np.concatenate([_of(oracle, RatioSample.FORGET), second])[half:][:half]
    return number(SPLIT_P.name, Group.FORGET, truth_ratio.p_value(first, second), n=len(first), note=_note(len(first)))


def _ceiling(oracles: Sequence[Measured]) -> tuple[MetricValue, ...]:
    reason = _missing(oracles, 2)
    specs = (CEILING_P, CEILING_D)
    return unmeasured(specs, reason) if reason else _distances(*specs, *oracles[:2])


def _distances(p: MetricSpec, d: MetricSpec, one: Measured, other: Measured) -> tuple[MetricValue, ...]:
    found = truth_ratio.ks_distance(_of(one, RatioSample.FORGET), _of(other, RatioSample.FORGET))
    note = _note(found.n)
    return (
        number(p.name, Group.FORGET, found.p, n=found.n, note=note),
        number(d.name, Group.FORGET, found.d, n=found.n, interval=(found.low, found.high), note=note),
    )


def _aggregates(run: Measured) -> tuple[MetricValue, ...]:
    return tuple(
        user_mean(TRUTH_RATIO.name, group, values, beam=None, empty="no train examples in this group", interval=True)
        for group, values in (
            (Group.FORGET, truth_ratio.forget_aggregate(_of(run, RatioSample.FORGET))),
            (Group.RETAIN, truth_ratio.retain_aggregate(_of(run, RatioSample.RETAIN))),
        )
    )


def _trade_off(run: Measured, others: Sequence[Measured], original: Measured) -> tuple[MetricValue, ...]:
    reason = _missing(others) or original.reason
    empty = [name.value for name in HitSample if not len(_of(run, name))]
    if empty:
        reason = f"there are no examples for {', '.join(empty)}"
    if reason:
        return unmeasured((TOW, AVERAGE_GAP), reason)
    hits = [np.stack([_of(model, name) for model in (run, others[0], original)], axis=1) for name in HitSample]
    n = sum(len(found) for found in hits)
    accuracies = truth_ratio.Accuracies(*np.stack([found.mean(axis=0) for found in hits], axis=1))

    def valued(spec: MetricSpec, measure: Callable[[truth_ratio.Accuracies], FloatArray]) -> MetricValue:
        return number(
            spec.name, Group.ALL, float(measure(accuracies)), n=n, interval=truth_ratio.interval(measure, hits)
        )

    if not (accuracies.original > 0).all():
        nothing = "the original recommender has no hit on some set, so that nothing can be in proportion to it"
        return (*unmeasured((TOW,), nothing), valued(AVERAGE_GAP, truth_ratio.average_gap))
    return valued(TOW, truth_ratio.tug_of_war), valued(AVERAGE_GAP, truth_ratio.average_gap)


def _missing(oracles: Sequence[Measured], needed: int = 1) -> str:
    """Why ``needed`` oracles cannot be compared with; empty where they can."""
    if len(oracles) < needed:
        return _ALONE if needed == 1 else _ONE_ORACLE
    return next(
        (f"a retrained model was not measured: {found.reason}" for found in oracles[:needed] if found.reason), ""
    )


def _note(n: int) -> str | None:
    return f"on {n} examples instead of {FIXED}: the p-value is higher with fewer" if n < FIXED else None


def _of(model: Measured, name: RatioSample | HitSample) -> FloatArray:
    return np.asarray(model.samples[name], dtype=np.float64)


def _distributions(ratios: Mapping[str, NDArray[np.generic]]) -> pd.DataFrame:
    """Quantiles of the truth ratios by group, without the ends, which are single examples."""
    import pandas as pd

    there = {group: values.astype(np.float64) for group, values in ratios.items() if len(values)}
    found = {group: np.exp(np.quantile(values, QUANTILES)) for group, values in there.items()}
    return pd.DataFrame(
        {
            "group": np.repeat(list(found), len(QUANTILES)),
            "quantile": np.tile(QUANTILES, len(found)),
            "truth_ratio": np.concatenate(list(found.values())),
        }
    )


def _hits(subject: Subject, name: HitSample, examples: Examples, most: int, progress: Progress) -> FloatArray:
    """[n] hits of at most ``most`` examples as the model is served; the same examples for every model of a seed."""
    from genrec_unlearn_bench.evaluation.decode import decode, given_histories

    model = subject.recommender
    order = numpy_generator(subject.seed, "forget-quality", name.value).permutation(len(examples))
    chosen = examples.subset(order[:most])
    lists = decode(
        model, given_histories(model, chosen), beam=BEAM, label=f"forget quality, {name.value}", progress=progress
    )
    return np.asarray(lists.ranks(chosen.targets) > 0, dtype=np.float64)
