"""Tuning rule (protocol, sec. 5): validation numbers of the tried configurations, and the choice among them.

Feasible is a trial that keeps 97 % of the original's retain NDCG@10 and, where it was measured, 90 % of its NDCG@10 on
the retain rows near the concept. All numbers are from validation, and means over the tuning seeds.

Among the feasible, the lowest worst-case forget HR@10 sets the mark (``worst_case``). Those that cannot be told apart
from it are equally good at forgetting: a paired one-sided sign-flip test over users does not reject at 5 %
(``higher_than``). Of these the one with the best retain NDCG@10 is taken, the earlier one of equals. Without it, the
choice between .030 and .031 on a few hundred rows would be noise that costs retain quality.

If no trial is feasible, the nearest to it is taken and flagged. A trial that diverged, or whose numbers are NaN, is
never taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from genrec_unlearn_bench.config import StrictModel

TRIALS = 12
"""The most configurations that may be tried."""

FLOOR = 0.97
"""Share of the original's retain NDCG@10 that must be left."""

NEAR_FLOOR = 0.9
"""Share of the original's retain-near NDCG@10 that must be left."""

LEVEL = 0.05
"""One-sided level of the test against the lowest forget score; each trial is tested alone, without a correction."""

BEAM = 10
"""Beam width of the validation."""

ROWS = 5000
"""Largest number of validation examples of each part; the same ones for all trials and seeds."""

TIE = 1e-9
"""Differences below it are rounding."""

RULE = (
    f"retain-validation NDCG@10 >= {FLOOR} x original, and retain-near >= {NEAR_FLOOR} x original where measured; of "
    f"these, the trials whose worst-case forget-validation HR@10 a paired one-sided sign-flip test over users does not "
    f"find higher than the lowest (level {LEVEL}); of these, the highest retain NDCG@10, then the earlier trial; means "
    f"over the tuning seeds, beam {BEAM}, at most {ROWS} rows of each part; none feasible: the nearest"
)


class Scores(StrictModel):
    """Validation numbers; null where a trial diverged, or where they were not measured (at every seed)."""

    forget_hr: float | None
    """HR@10 of the forget part as served."""
    retain_ndcg: float | None
    """NDCG@10 of the retain part."""
    exposed_hr: float | None = None
    """HR@10 of the forget part in the original IDs without serving rules."""
    near_ndcg: float | None = None
    """NDCG@10 of the retain rows near the concept."""


class Measured(Scores):
    """One recommender on the validation parts, at one tuning seed."""

    seed: int
    forget_hits: tuple[int, ...] | None = None
    """User of every forget row with its target among the first ten, as served; null where it was not kept."""
    exposed_hits: tuple[int, ...] | None = None
    """The same in the original IDs."""
    unlearn_seconds: float = 0.0
    validate_seconds: float = 0.0
    diverged: bool = False


class Trial(Scores):
    """One configuration, with its means over all tuning seeds."""

    config: dict[str, Any]
    """Every field of the method's configuration; empty for the original."""
    seconds: float
    """Unlearning and validation, all seeds together."""
    diverged: bool
    seeds: tuple[Measured, ...]
    """By seed; a trial that diverged at one seed is not repeated at the next."""


def mean_trial(config: dict[str, Any], seeds: Sequence[Measured]) -> Trial:
    """A trial from what was measured at every seed."""
    diverged = any(one.diverged for one in seeds)
    return Trial(
        config=config,
        **{name: None if diverged else _mean([getattr(one, name) for one in seeds]) for name in Scores.model_fields},
        seconds=sum(one.unlearn_seconds + one.validate_seconds for one in seeds),
        diverged=diverged,
        seeds=tuple(seeds),
    )


def worst_case(trial: Trial) -> float | None:
    """The primary forget score: HR@10 as served or in the original IDs, whichever is higher."""
    known = [value for value in (trial.forget_hr, trial.exposed_hr) if value is not None]
    return None if trial.forget_hr is None else max(known)


def is_feasible(trial: Trial, original: Trial) -> bool:
    """Whether the trial keeps enough of the original's quality on the retain part, and near the concept."""
    return _kept(trial, original) >= 1 - TIE


def choose(trials: Sequence[Trial], original: Trial) -> tuple[int, bool] | None:
    """Index of the trial that the rule takes, and whether it is feasible; None where every one diverged."""
    scores = [_number(worst_case(trial)) + _number(trial.retain_ndcg) for trial in trials]
    known = [index for index, trial in enumerate(trials) if not trial.diverged and math.isfinite(scores[index])]
    if not known:
        return None
    feasible = [index for index in known if is_feasible(trials[index], original)]
    if not feasible:
        return _first_highest(known, [_kept(trials[index], original) for index in known]), False
    forget = [_number(worst_case(trials[index])) for index in feasible]
    # Of several at the mark, the one that keeps most.
    level = [index for index, score in zip(feasible, forget, strict=True) if score <= min(forget) + TIE]
    lowest = trials[_first_highest(level, [_number(trials[index].retain_ndcg) for index in level])]
    equal = [index for index in feasible if not higher_than(trials[index], lowest)]
    return _first_highest(equal, [_number(trials[index].retain_ndcg) for index in equal]), True


def higher_than(trial: Trial, lowest: Trial) -> bool:
    """Whether the trial's worst-case forget score is higher than the lowest one's, at ``LEVEL``.

    Without kept rows there is nothing to test, and any difference counts.
    """
    if _number(worst_case(trial)) <= _number(worst_case(lowest)) + TIE:
        return False
    hits, least = _worst_hits(trial), _worst_hits(lowest)
    if hits is None or least is None:
        return True
    return sign_flip_p([hits[user] - least[user] for user in {*hits, *least}]) <= LEVEL


def sign_flip_p(differences: Sequence[int]) -> float:
    """One-sided p of a positive sum, if each difference could as well have the other sign.

    Exact: the distribution of the sum is built by convolution. Where all differences are -1, 0 or 1 it is McNemar's.
    """
    sizes = [abs(difference) for difference in differences if difference]
    weights = np.ones(1)
    for size in sizes:
        weights = (np.pad(weights, (0, 2 * size)) + np.pad(weights, (2 * size, 0))) / 2
    # weights[k] is the probability of the sum k - sum(sizes).
    return min(1.0, float(weights[sum(differences) + sum(sizes) :].sum()))


def _worst_hits(trial: Trial) -> Counter[int] | None:
    """Hits of each user over all seeds, from the decoding that ``worst_case`` takes; None where they were not kept."""
    exposed = trial.exposed_hr is not None and trial.exposed_hr > _number(trial.forget_hr)
    parts = [one.exposed_hits if exposed else one.forget_hits for one in trial.seeds]
    known = [part for part in parts if part is not None]
    return Counter(user for part in known for user in part) if known and len(known) == len(parts) else None


def _kept(trial: Trial, original: Trial) -> float:
    """What is left of the original's quality as a share of what must be left, the smaller of retain and retain-near."""
    shares = []
    for name, floor in (("retain_ndcg", FLOOR), ("near_ndcg", NEAR_FLOOR)):
        left, whole = _number(getattr(trial, name)), _number(getattr(original, name))
        if original.near_ndcg is None and name == "near_ndcg":
            continue
        # Near rows that were measured of the original and not of the trial are a fault, not a pass.
        if not math.isfinite(left + whole):
            return -math.inf
        shares.append(left / (floor * whole) if whole > 0 else math.inf)
    return min(shares)


def _first_highest(indices: Sequence[int], scores: Sequence[float]) -> int:
    """The first index whose score is the highest, up to rounding."""
    return next(index for index, score in zip(indices, scores, strict=True) if score >= max(scores) - TIE)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
