"""A block's methods against one row: differences paired by seed, corrected together, each with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.numbers import finite
from genrec_unlearn_bench.reporting.orders import scores
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.holm import holm
from genrec_unlearn_bench.reporting.statistics.paired import PairedTests, paired_tests
from genrec_unlearn_bench.reporting.statistics.sign_flip import sign_flip

__all__ = ["Difference", "Verdict", "against"]

FloatArray = NDArray[np.float64]


class Verdict(StrEnum):
    """What a test against the baseline says."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SEPARABLE = "not separable"
    UNDERPOWERED = "underpowered"
    """Too few seeds for any result to reach alpha."""


@dataclass(frozen=True)
class Difference:
    """A row minus the baseline row, paired by seed; estimate and interval in the measure's unit.

    Attributes:
        p: Two-sided paired t over seeds.
        p_holm: Corrected over the family.
        p_sign_flip: Exact sign-flip, from the protocol's number of seeds up.
        effect: Standardised difference (see ``statistics.paired``); None without variance.
        exact: The difference is the same in every seed, so that there is no variance to test against.
    """

    estimate: float
    low: float | None
    high: float | None
    n: int
    p: float | None
    p_holm: float | None
    p_sign_flip: float | None
    effect: float | None
    exact: bool
    verdict: Verdict


def against(
    values: FloatArray,
    measures: Sequence[Measure],
    family: Sequence[int],
    base: int | None,
    ranked: Sequence[int],
    protocol: StatisticsProtocol,
) -> dict[tuple[int, int], Difference]:
    """Differences from the baseline, corrected over rows × measures of one family."""
    rows = [row for row in ranked if row != base]
    if base is None or not rows or not family:
        return {}
    places = [(m, r) for m in family for r in rows]
    raw = np.stack([values[m, r] - values[m, base] for m, r in places])
    oriented = {m: scores(values[m], measures[m]) for m in family}
    turned = np.stack([oriented[m][r] - oriented[m][base] for m, r in places])
    tests = paired_tests(turned, confidence=protocol.confidence)
    shown = paired_tests(raw, confidence=protocol.confidence)
    corrected = holm(tests.p)
    enough = tests.n >= protocol.sign_flip_from
    flips = np.full(len(places), np.nan)
    if enough.any():
        flips[enough] = sign_flip(turned[enough])
    out = {}
    for i, place in enumerate(places):
        if not tests.n[i]:
            continue
        out[place] = Difference(
            estimate=float(shown.estimate[i]),
            low=finite(shown.low[i]),
            high=finite(shown.high[i]),
            n=int(tests.n[i]),
            p=finite(tests.p[i]),
            p_holm=finite(corrected[i]),
            p_sign_flip=finite(flips[i]),
            effect=finite(shown.effect[i]),
            exact=bool(tests.exact[i]),
            verdict=_verdict(tests, corrected, i, protocol),
        )
    return out


def _verdict(tests: PairedTests, corrected: FloatArray, i: int, protocol: StatisticsProtocol) -> Verdict:
    if tests.n[i] < 2:
        return Verdict.UNDERPOWERED
    if corrected[i] <= protocol.alpha:
        return Verdict.BETTER if tests.estimate[i] > 0 else Verdict.WORSE
    # Without variance the p is the sign-flip's smallest, which few seeds cannot bring below alpha.
    if tests.exact[i] and tests.p[i] > protocol.alpha:
        return Verdict.UNDERPOWERED
    return Verdict.NOT_SEPARABLE
