"""Metric values of the full suite and of streams for synthetic records, from the share of the concept that is kept."""

from __future__ import annotations

from collections.abc import Iterable

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue

__all__ = ["full_metrics", "stream_metrics"]

ATTACKS = ("mixed", "forget-1", "forget-10", "forget-100", "benign")
SITES = ("prompt", "pooled", "history", "embedding")
SCORES = ("loss", "min-k", "min-k++", "reference")


def full_metrics(kept: float, shift: float) -> Iterable[MetricValue]:
    """Headline metrics of every family; ``kept``: share of the original's trace that is left, ``shift``: of a seed."""
    model = {
        **{f"probing.auroc.{site}": 0.5 + 0.4 * kept for site in SITES},
        **{f"probing.selectivity.{site}": 0.3 * kept for site in SITES},
        "forget-quality.tow": 0.9 - 0.4 * kept,
    }
    forget = {
        **{f"relearning.{part}.{attack}": 0.3 * kept for attack in ATTACKS for part in ("hr@10", "area", "recovery")},
        **{
            f"relearning.original-sids.{part}.{attack}": 0.4 * kept
            for attack in ATTACKS
            for part in ("hr@10", "area", "recovery")
        },
        **{f"membership.auc.{score}": 0.5 + 0.2 * kept for score in SCORES},
        **{f"membership.tpr.{score}": 0.02 + 0.1 * kept for score in SCORES},
        **{f"membership.privleak.{score}": -40.0 * kept for score in SCORES},
        "forget-quality.ks.p": 0.05,
        "forget-quality.ks.d": 0.3 * kept,
        "forget-quality.ceiling.d": 0.08,
        "forget-quality.truth-ratio": 0.6 - 0.3 * kept,
        **{f"quantisation.hr@10.int{bits}": 0.02 + 0.1 * kept for bits in (8, 4)},
        **{f"quantisation.recovery.int{bits}": 0.5 * kept for bits in (8, 4)},
    }
    retain = {f"quantisation.damage.int{bits}": -0.05 for bits in (8, 4)}
    yield from _values(((Group.ALL, model), (Group.FORGET, forget), (Group.RETAIN, retain)), shift)


def stream_metrics(kept: float, shift: float) -> Iterable[MetricValue]:
    """What a stream of requests reports."""
    model = {"stream.seconds": 100.0, "stream.share-of-retraining": 0.2, "stream.seconds-growth": 1.1}
    forget = {
        f"stream.{lists}{name}": factor * kept
        for name, factor in (("forget-hr@10.last", 0.2), ("resurfaced", 0.05))
        for lists in ("", "exposed.", "worst-case.")
    }
    retain = {"stream.retain-drift": -0.01, "stream.retain-change": -0.012, "stream.retain-slope": -0.002}
    yield from _values(((Group.ALL, model), (Group.FORGET, forget), (Group.RETAIN, retain)), shift)


def _values(groups: Iterable[tuple[Group, dict[str, float]]], shift: float) -> Iterable[MetricValue]:
    for group, numbers in groups:
        for name, value in numbers.items():
            yield MetricValue(metric=name, group=group, value=float(f"{value + shift:.6g}"), n=400)
