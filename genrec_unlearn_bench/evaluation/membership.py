"""Membership inference: can forgotten interactions be distinguished from never-trained ones?

Both are of the same concept. After unlearning they should be distinguished no better than under the retrained model,
which saw neither.

Higher scores mean: more likely a member. Open-unlearning, whose attacks these are, labels forget examples 0 and scores
by loss; the AUC is the same number. Scores that compress text (zlib) mean nothing for semantic IDs.

Examples of one user or item are not independent. The intervals hold all the same where nothing was memorised: the
never-trained interactions were drawn at random, so that labels are exchangeable under that hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import BoolArray
from genrec_unlearn_bench.data.forget import ConceptKind
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
    unmeasured,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    import pandas as pd


MemberScores = tuple[FloatArray, FloatArray]
"""Scores of members [m] and of non-members [n]."""

LOSS, MIN_K, MIN_K_PLUS_PLUS, REFERENCE = "loss", "min-k", "min-k++", "reference"

OWN, OLD = "own", "original-sids"
"""In which semantic IDs histories and targets are written: the model's own, or the original recommender's."""

LEAST_VARIANCE = 1e-6
"""Below it Min-K%++ would divide by nothing where the model is sure of one token."""

ONE_IN = 100
"""The true-positive rate is read at one false positive in so many non-members (Carlini et al. 2022, arXiv 2112.03570).
With fewer non-members than that, a single false positive is already too many, and the rate means nothing."""
ERROR = 0.05

RESAMPLES = 1000
BLOCK = 100


SPECS = tuple(spec for spec in family("membership.") if not spec.name.endswith(".u-lira"))
"""``membership.<statistic>.<score>``, with a SID space other than the model's own in between."""

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


def _stored(samples: Mapping[str, NDArray[np.generic]], group: Group, space: str, score: str) -> MemberScores | None:
    """The scores that ``Membership.measure`` stored; None where a group or space has none."""
    members, holdout = (samples.get(f"{group.value}.{space}.{score}.{side}") for side in ("members", "holdout"))
    if members is None or holdout is None:
        return None
    return members.astype(np.float64), holdout.astype(np.float64)


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
            for side, examples in (("members", members), ("holdout", holdout)):
                for (space, score), values in _scores(parts[examples], config.share):
                    samples[f"{group.value}.{space}.{score}.{side}"] = values[: config.examples]
        return Measured(curve=_curve(samples), samples=samples)

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        run = own[""]
        if run.reason:
            return unmeasured(self.specs, run.reason)
        oracles = [parts[""] for parts in independent_oracles(own, references)]
        return tuple(_value(spec.name, group, run, oracles) for spec in SPECS for group in spec.better)


def _scores(part: Scored, share: float) -> Iterator[tuple[tuple[str, str], FloatArray]]:
    yield (OWN, LOSS), likelihood(part.log_probs, part.real)
    yield (OWN, MIN_K), min_k(part.log_probs, part.real, share)
    yield (OWN, MIN_K_PLUS_PLUS), min_k_plus_plus(part.log_probs, part.mean, part.sd, part.real, share)
    if part.old is not None and part.old_real is not None:
        yield (OLD, LOSS), likelihood(part.old, part.old_real)


def _curve(samples: Mapping[str, NDArray[np.generic]]) -> pd.DataFrame:
    """A row for every group, space and score. The reference score is no property of one model."""
    import pandas as pd

    rows, unknown = [], IntervalEstimate(np.nan, np.nan, np.nan)
    for group in _SIDES:
        for space, score in ((OWN, LOSS), (OWN, MIN_K), (OWN, MIN_K_PLUS_PLUS), (OLD, LOSS)):
            scores = _stored(samples, group, space, score)
            if scores is None:
                continue
            row: dict[str, object] = {"score": score, "space": space, "group": group.value}
            row |= area(*scores).columns("auc")
            row |= (rate(*scores) if len(scores[1]) >= ONE_IN else unknown).columns("tpr")
            rows.append({**row, "n_members": len(scores[0]), "n_holdout": len(scores[1])})
    return pd.DataFrame(rows)


def _value(name: str, group: Group, run: Measured, oracles: Sequence[Measured]) -> MetricValue:
    _, statistic, *between, score = name.split(".")
    space = between[0] if between else OWN
    try:
        scores = _scores_of(run, space, score, group, oracles)
        if statistic == "auc":
            found = area(*scores)
        elif statistic == "privleak":
            found = _leak_from(oracles, score, group, scores)
        elif len(scores[1]) < ONE_IN:
            raise NotMeasurable(
                f"a false-positive rate of 1 in {ONE_IN} cannot be resolved with {len(scores[1])} non-members"
            )
        else:
            found = rate(*scores)
    except NotMeasurable as fault:
        return MetricValue(metric=name, group=group, value=None, note=fault.what)
    return found.metric(name, group, n=sum(map(len, scores)))


def _scores_of(model: Measured, space: str, score: str, group: Group, oracles: Sequence[Measured]) -> MemberScores:
    """Member and non-member scores of a model; for the reference score, minus those of the last oracle."""
    if model.reason:
        raise NotMeasurable(f"the retrained model was not measured: {model.reason}")
    found = _stored(model.samples, group, space, LOSS if score == REFERENCE else score)
    if found is None:
        raise NotMeasurable(
            "the model's semantic IDs are no reassignment of the original ones"
            if space == OLD
            else f"too few {group} interactions, trained on or not"
        )
    if score != REFERENCE:
        return found
    if not oracles:
        raise NotMeasurable("there is no retrained model, other than the run itself, to calibrate the score by")
    reference = _scores_of(oracles[-1], space, LOSS, group, oracles)
    return found[0] - reference[0], found[1] - reference[1]


def _leak_from(oracles: Sequence[Measured], score: str, group: Group, scores: MemberScores) -> IntervalEstimate:
    if not oracles:
        raise NotMeasurable("there is no retrained model, other than the run itself, to compare with")
    if score == REFERENCE and len(oracles) == 1:
        raise NotMeasurable("the one retrained model at hand would calibrate its own score")
    retrained = _scores_of(oracles[0], OWN, score, group, oracles)
    if area(*retrained).value >= 1.0:
        raise NotMeasurable("the retrained model tells members perfectly, so that it leaves nothing to compare with")
    return privleak(scores, retrained)


def likelihood(log_probs: FloatArray, real: BoolArray) -> FloatArray:
    """[n] mean log-probability of the real tokens of each target, i.e. minus its loss (Yeom et al. 2018), from [n, L].

    The mean, not the sum: with semantic IDs of different length a sum would tell short targets from long ones.
    """
    return np.asarray(np.where(real, log_probs, 0.0).sum(axis=1) / np.maximum(real.sum(axis=1), 1))


def min_k(values: FloatArray, real: BoolArray, share: float) -> FloatArray:
    """[n] mean of the lowest ``share`` of each target's tokens [n, L], at least one (Min-K%, Shi et al. 2024,
    arXiv 2310.16789, eq. 1). At .2, a semantic ID of three or four tokens is scored by its least likely token alone.
    """
    counts = np.maximum(1, (share * real.sum(axis=1)).astype(np.int64))
    lowest = np.sort(np.where(real, values, np.inf), axis=1)
    taken = np.arange(values.shape[1]) < counts[:, None]
    return np.asarray(np.where(taken, lowest, 0.0).sum(axis=1) / counts)


def min_k_plus_plus(
    log_probs: FloatArray, mean: FloatArray, sd: FloatArray, real: BoolArray, share: float
) -> FloatArray:
    """[n] Min-K% of the z-scores of the tokens' log-probabilities (Min-K%++, Zhang et al. 2024, arXiv 2404.02936,
    eq. 3 and 4). ``mean``, ``sd``: [n, L] of log p(v) with v drawn from the model's own distribution at that position.
    """
    scale = np.sqrt(np.maximum(np.square(sd), LEAST_VARIANCE))
    return min_k((log_probs - mean) / scale, real, share)


def area(members: FloatArray, others: FloatArray) -> IntervalEstimate:
    """AUC of member scores [m] against non-member scores [n], ties counting half, with DeLong's interval.

    DeLong, DeLong & Clarke-Pearson 1988, by ranks (Sun & Xu 2014, algorithm 2); normal, cut to [0, 1] as in pROC. Its
    variance is 0 where the two are separated perfectly, and the interval then a point. Needs two of each.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    m, n = len(members), len(others)
    ranks = rankdata(np.concatenate([members, others]))
    above = (ranks[:m] - rankdata(members)) / n
    below = 1.0 - (ranks[m:] - rankdata(others)) / m
    value = float(above.mean())
    half = float(-ndtri(ERROR / 2) * np.sqrt(above.var(ddof=1) / m + below.var(ddof=1) / n))
    return IntervalEstimate(value, max(0.0, value - half), min(1.0, value + half))


def rate(members: FloatArray, others: FloatArray) -> IntervalEstimate:
    """True-positive rate at a false-positive rate of at most 1 %, from scores [m] and [n]: the empirical ROC curve's.

    The interval takes both rates for estimates. How many of the n non-members lie above the threshold whose true
    false-positive rate is 1 % is binomial; Clopper-Pearson's bounds of the true-positive rate are mixed over it. By
    simulation (n of 190 to 2,000, m of 1,700, AUC of .5 to .998) it holds the true rate in 97 to 99 of 100 cases; a
    stratified bootstrap in only 86 to 90 at n = 190. With fewer than 368 non-members there is none above the true
    threshold in more than 2.5 of 100 cases: the lower end is then 0, whatever the scores. n is at
    least ``ONE_IN``.
    """
    m, n = len(members), len(others)
    falling = np.sort(others)[::-1]
    rising = np.sort(members)
    value = _above(rising, falling[n // ONE_IN], "right") / m
    missed = np.arange(n)
    # With c non-members above it, the true threshold lies between the c-th and the next of them.
    stricter = np.concatenate([[np.inf], falling[:-1]])
    low, high = _above(rising, stricter, "left"), _above(rising, falling, "right")
    return IntervalEstimate(float(value), *_mixed_bounds(missed, n, low, high, m))


def _above(rising: FloatArray, thresholds: FloatArray | float, side: Literal["left", "right"]) -> FloatArray:
    """Number of the sorted scores above each threshold; "left" counts those that equal it."""
    return np.asarray(len(rising) - np.searchsorted(rising, thresholds, side=side), dtype=np.float64)


def _mixed_bounds(counts: NDArray[np.int64], n: int, low: FloatArray, high: FloatArray, m: int) -> tuple[float, float]:
    """2.5 % point of the lower and 97.5 % point of the upper Clopper-Pearson bounds, mixed over binomial counts."""
    from scipy.optimize import brentq
    from scipy.special import betainc
    from scipy.stats import binom

    weight = binom.pmf(counts, n, 1 / ONE_IN)
    kept = weight > 1e-12
    weight, low, high = weight[kept] / weight[kept].sum(), low[kept], high[kept]

    def lower(rate: float) -> float:
        return float(weight @ np.where(low > 0, betainc(np.maximum(low, 1), m - low + 1, rate), 1.0)) - ERROR / 2

    def upper(rate: float) -> float:
        return float(weight @ np.where(high < m, betainc(high + 1, np.maximum(m - high, 1), rate), 0.0)) - 1 + ERROR / 2

    return (
        0.0 if lower(0.0) >= 0 else float(brentq(lower, 0.0, 1.0)),
        1.0 if upper(1.0) <= 0 else float(brentq(upper, 0.0, 1.0)),
    )


def privleak(own: MemberScores, retrained: MemberScores) -> IntervalEstimate:
    """PrivLeak: 100 [(1 - AUC) - (1 - AUC_re)] / (1 - AUC_re) (MUSE, Shi et al. 2024, arXiv 2407.06460).

    In per cent. 0 is the retrained model; -100 a model that gives every member away (too little unlearned). Above 0,
    forgotten interactions score below never-trained ones, which gives them away as well (too much unlearned).

    The interval is a stratified percentile bootstrap over examples; both models, scored on the same examples in the
    same order, share each draw. The retrained model's AUC is below 1.
    """
    # [m, n] 1 where a member scores above a non-member, .5 where they tie: its mean is the AUC.
    grids = [(np.sign(members[:, None] - others) + 1.0) / 2.0 for members, others in (own, retrained)]
    own_area, area_of_retrained = (float(grid.mean()) for grid in grids)
    value = 100.0 * ((1.0 - own_area) - (1.0 - area_of_retrained)) / (1.0 - area_of_retrained)
    m, n = grids[0].shape
    generator = numpy_generator(0, "membership", "privleak")
    drawn = []
    for _ in range(RESAMPLES // BLOCK):
        rows = generator.multinomial(m, np.full(m, 1 / m), size=BLOCK) / m
        columns = generator.multinomial(n, np.full(n, 1 / n), size=BLOCK) / n
        drawn.append([np.einsum("bn,bn->b", rows @ grid, columns) for grid in grids])
    own_rest, rest = 1.0 - np.concatenate(drawn, axis=1)
    leaks = 100.0 * (own_rest - rest)[rest > 0] / rest[rest > 0]
    low, high = np.quantile(leaks, [0.025, 0.975])
    return IntervalEstimate(value, float(low), float(high))
