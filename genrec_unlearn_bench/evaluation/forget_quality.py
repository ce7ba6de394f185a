"""Forget quality: are the run's answers to forgotten examples distributed as the retrained model's?

TOFU (arXiv 2401.06121) asks that of truth ratios; ToW-rel and the average gap ask the same of accuracies. Truth ratios
are defined in one SID space: every model is scored under its own table, so that a run with reassigned items is compared
by how sure it is of items, not of tokens.

Truth ratio. TOFU (Maini et al. 2024, arXiv 2401.06121, eq. 1) divides the mean over five perturbed answers of
P(answer)^(1/tokens) by that of a paraphrase of the right answer. An item has no paraphrase, so the right answer itself
is used; the perturbed answers are the five semantic neighbours P(i). The mean is arithmetic, as in the paper; its
code takes the geometric one.

Tug-of-War. Zhao et al. 2024 (arXiv 2406.01257): the product over what is forgotten, kept and new of
1 - |a(run) - a(retrained)|. Accuracy is HR@10 here, of the order of .1, so each difference is divided by the original
recommender's accuracy on the same set first and cut at 1 (ours). Deviation: forget accuracy is on forget test examples
instead of the forget set, which is membership inference's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.evaluation.catalogue import family
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
    values_or_reason,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricSpec, MetricValue
from genrec_unlearn_bench.evaluation.ranking import user_mean
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    import pandas as pd

FIXED = 400
"""Examples of a truth-ratio sample; a note says where there are fewer."""
QUANTILES = np.arange(1, 50) / 50
"""Quantiles of the published distributions."""
BEAM = 10
"""Beam of the hits, and length of the lists."""
RESAMPLES = 1000
BLOCK = 100
_ALONE = "there is no retrained model, other than the run itself, to compare with"
_ONE_ORACLE = "the ceiling is between two retrained models, and there is one"
_NO_TRAIN = "no train examples in this group"

SPECS = KS_P, KS_D, SPLIT_P, CEILING_P, CEILING_D, TRUTH_RATIO, TOW, AVERAGE_GAP = family("forget-quality.")


FORGET_RATIOS, MORE_FORGET_RATIOS, RETAIN_RATIOS = "ratios.forget", "ratios.forget-second", "ratios.retain"
"""Samples of log truth ratios; no forget example is in both."""
HITS = ("hits.forget-test", "hits.retain-train", "hits.retain-test")
"""Samples of hits among the first ten, 1 or 0."""


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
        forget = log_truth_ratios(scored(subject.pass_arrays, ExampleGroup.FORGET_TRAIN))
        retain = log_truth_ratios(scored(subject.pass_arrays, ExampleGroup.RETAIN_TRAIN))
        if len(forget) < config.least:
            raise NotMeasurable(f"there are {len(forget)} forget train interactions, and {config.least} are needed")
        if not np.isfinite(forget).all():
            raise NotMeasurable(
                "some forgotten item has no other item in the catalogue that could be a wrong answer to it"
            )
        samples: dict[str, NDArray[np.generic]] = {
            FORGET_RATIOS: forget[: config.examples],
            MORE_FORGET_RATIOS: forget[config.examples :][: config.examples],
            RETAIN_RATIOS: retain[np.isfinite(retain)][: config.examples],
        }
        split = subject.split
        for name, examples in zip(HITS, (split.test.forget, split.train.retain, split.test.retain), strict=True):
            samples[name] = _hits(subject, name, examples, config.decoded, progress)
        return Measured(_distributions({"forget": samples[FORGET_RATIOS], "retain": samples[RETAIN_RATIOS]}), samples)

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        run, original = own[""], references.original[""]
        if run.reason:
            return unmeasured(self.specs, run.reason)
        others = [parts[""] for parts in independent_oracles(own, references)]
        oracles = [parts[""] for parts in references.oracles]
        return (
            *values_or_reason((KS_P, KS_D, SPLIT_P), lambda: _against(run, *_measured(others, 1))),
            *values_or_reason((CEILING_P, CEILING_D), lambda: _distances(CEILING_P, CEILING_D, *_measured(oracles, 2))),
            *(
                user_mean(TRUTH_RATIO.name, group, values, beam=None, empty=_NO_TRAIN, interval=True)
                for group, values in (
                    (Group.FORGET, forget_aggregate(_of(run, FORGET_RATIOS))),
                    (Group.RETAIN, retain_aggregate(_of(run, RETAIN_RATIOS))),
                )
            ),
            *values_or_reason((TOW, AVERAGE_GAP), lambda: _trade_off(run, others, original)),
        )


def _measured(oracles: Sequence[Measured], needed: int) -> Sequence[Measured]:
    """The first oracles. Raises NotMeasurable where there are fewer, or one was not measured."""
    if len(oracles) < needed:
        raise NotMeasurable(_ALONE if needed == 1 else _ONE_ORACLE)
    for found in oracles[:needed]:
        if found.reason:
            raise NotMeasurable(f"a retrained model was not measured: {found.reason}")
    return oracles[:needed]


def _against(run: Measured, oracle: Measured) -> tuple[MetricValue, ...]:
    """On the same examples; for the p-value of ``SPLIT_P`` on different ones, or halves where these are too few."""
    first, second = _of(run, FORGET_RATIOS), _of(oracle, MORE_FORGET_RATIOS)
    if len(second) < len(first):
        half = (len(first) + len(second)) // 2
        first, second = first[:half], np.concatenate([_of(oracle, FORGET_RATIOS), second])[half:][:half]
    split = number(SPLIT_P.name, Group.FORGET, p_value(first, second), n=len(first), note=_note(len(first)))
    return (*_distances(KS_P, KS_D, run, oracle), split)


def _distances(p: MetricSpec, d: MetricSpec, one: Measured, other: Measured) -> tuple[MetricValue, ...]:
    distance, chance = ks_distance(_of(one, FORGET_RATIOS), _of(other, FORGET_RATIOS))
    note = _note(distance.n or 0)
    return (
        number(p.name, Group.FORGET, chance, n=distance.n, note=note),
        distance.metric(d.name, Group.FORGET, note=note),
    )


def _trade_off(run: Measured, others: Sequence[Measured], original: Measured) -> tuple[MetricValue, ...]:
    empty = [name for name in HITS if not len(_of(run, name))]
    if empty:
        raise NotMeasurable(f"there are no examples for {', '.join(empty)}")
    (oracle,) = _measured(others, 1)
    if original.reason:
        raise NotMeasurable(original.reason)
    hits = [np.stack([_of(model, name) for model in (run, oracle, original)], axis=1) for name in HITS]
    n = sum(len(found) for found in hits)
    accuracies = np.stack([found.mean(axis=0) for found in hits], axis=1)

    def valued(spec: MetricSpec, measure: AccuracyDistance) -> MetricValue:
        return number(spec.name, Group.ALL, float(measure(*accuracies)), n=n, interval=interval(measure, hits))

    if not (accuracies[2] > 0).all():
        nothing = "the original recommender has no hit on some set, so that nothing can be in proportion to it"
        return (*unmeasured((TOW,), nothing), valued(AVERAGE_GAP, average_gap))
    return valued(TOW, tug_of_war), valued(AVERAGE_GAP, average_gap)


def _note(n: int) -> str | None:
    return f"on {n} examples instead of {FIXED}: the p-value is higher with fewer" if n < FIXED else None


def _of(model: Measured, name: str) -> FloatArray:
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


def _hits(subject: Subject, name: str, examples: Examples, most: int, progress: Progress) -> FloatArray:
    """[n] hits of at most ``most`` examples as the model is served; the same examples for every model of a seed."""
    from genrec_unlearn_bench.evaluation.decode import decode, given_histories

    model = subject.recommender
    order = numpy_generator(subject.seed, "forget-quality", name).permutation(len(examples))
    chosen = examples.subset(order[:most])
    histories, label = given_histories(model, chosen), f"forget quality, {name}"
    lists = decode(model, histories, beam=BEAM, label=label, progress=progress)
    return np.asarray(lists.ranks(chosen.targets) > 0, dtype=np.float64)


def log_truth_ratios(part: Scored) -> FloatArray:
    """[w] natural logarithm of the truth ratio of the first w examples; NaN for one without any wrong item.

    Lengths are those under the model's own semantic IDs: a truth ratio is defined in one SID space alone, so that
    after a reassignment the run and the retrained model are each scored under their own.
    """
    w = len(part.wrong)
    there = part.wrong_lengths > 0
    wrong = np.where(there, part.wrong / np.maximum(part.wrong_lengths, 1), -np.inf)
    count = there.sum(axis=1)
    right = part.log_probs[:w].sum(axis=1) / np.maximum(part.real[:w].sum(axis=1), 1)
    mean = np.logaddexp.reduce(wrong, axis=1, initial=-np.inf) - np.log(np.maximum(count, 1))
    return np.asarray(np.where(count > 0, mean - right, np.nan))


def forget_aggregate(log_ratios: FloatArray) -> FloatArray:
    """[w] min(TR, 1/TR): 1 where right and wrong answers are equally likely, 0 where either is certain."""
    return np.asarray(np.exp(-np.abs(log_ratios)))


def retain_aggregate(log_ratios: FloatArray) -> FloatArray:
    """[w] max(0, 1 - TR): 1 where the right answer is certain, 0 where wrong ones are at least as likely."""
    return np.asarray(np.maximum(0.0, -np.expm1(np.minimum(log_ratios, 0.0))))


def ks_distance(first: FloatArray, second: FloatArray) -> tuple[IntervalEstimate, float]:
    """Kolmogorov-Smirnov distance between two models' values [n] of the same examples, in the same order, and p-value.

    The p-value is that of independent samples, as in TOFU, and so too high for samples of the same examples. The
    interval is D -+ the 95 % point of the largest error of F - G anywhere, by bootstrap over examples (pairs stay
    together). D's own percentiles would not do: resampling can only push a maximum up where both distributions agree.
    """
    from scipy.stats import ks_2samp

    n = len(first)
    values = np.unique(np.concatenate([first, second]))
    steps = (first[:, None] <= values).astype(np.float64) - (second[:, None] <= values)  # [n, values]
    between = steps.mean(axis=0)
    drawn = numpy_generator(0, "forget-quality", "distance").multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
    half = float(np.quantile(np.abs(drawn @ steps - between).max(axis=1), 0.95))
    found = ks_2samp(first, second)
    d = float(found.statistic)
    return IntervalEstimate(d, max(0.0, d - half), min(1.0, d + half), n), float(found.pvalue)


def p_value(first: FloatArray, second: FloatArray) -> float:
    from scipy.stats import ks_2samp

    return float(ks_2samp(first, second).pvalue)


AccuracyDistance = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""[...] from the accuracies of the run, the retrained and the original model on the three sets, [..., 3] each."""


def tug_of_war(run: FloatArray, retrained: FloatArray, original: FloatArray) -> FloatArray:
    """[...] product over the sets of 1 - min(1, |a(run) - a(retrained)| / a(original)): 1 is the retrained model.

    NaN where the original recommender hits nothing on some set.
    """
    gaps = np.minimum(1.0, np.abs(run - retrained) / np.where(original > 0, original, np.nan))
    return np.asarray(np.prod(1.0 - gaps, axis=-1))


def average_gap(run: FloatArray, retrained: FloatArray, original: FloatArray) -> FloatArray:
    """[...] mean over the sets of |a(run) - a(retrained)|, in absolute accuracies (Fan et al. 2024,
    arXiv 2310.12508, who have more of them)."""
    return np.asarray(np.abs(run - retrained).mean(axis=-1))


def interval(measure: AccuracyDistance, hits: Sequence[FloatArray]) -> tuple[float, float]:
    """95 % percentile bootstrap of ``tug_of_war`` or ``average_gap``, paired: examples are drawn anew within each set.

    As a distance is never below 0, samples lean away from the retrained model where the run is about as good; the
    interval is widened to hold the measured value. ``hits``: for each set, [n, 3] of the run, the retrained and the
    original model.
    """
    generator = numpy_generator(0, "forget-quality", "trade-off")
    sets = []
    for found in hits:
        n = len(found)
        drawn = (generator.multinomial(n, np.full(n, 1 / n), size=BLOCK) for _ in range(RESAMPLES // BLOCK))
        sets.append(np.concatenate([counts @ found / n for counts in drawn]))
    low, high = np.nanquantile(measure(*np.moveaxis(np.stack(sets, axis=1), 2, 0)), [0.025, 0.975])
    measured = float(measure(*np.stack([found.mean(axis=0) for found in hits], axis=1)))
    return float(np.fmin(low, measured)), float(np.fmax(high, measured))
