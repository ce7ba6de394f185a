"""How long the rest of a sweep will take: estimates of its jobs, set right by how long the finished ones took."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

from genrec_unlearn_bench.registry import REFERENCE_ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genrec_unlearn_bench.grid.standing_jobs import JobStanding, ListedJob

__all__ = ["remaining"]

OPEN = ("queued", "running", "alive", "retried")


def remaining(
    listed: Mapping[str, ListedJob], told: Mapping[str, JobStanding], now: float, *, at_a_time: int
) -> float | None:
    """Seconds of wall-clock, if as many jobs go on at a time as do now; waiting for shared stages is left out.

    None where nothing runs, or where of some job nothing is known: neither an estimate nor one like it that is done.
    """
    if at_a_time < 1:
        return None
    done = [
        (listed[name], standing.last.seconds)
        for name, standing in told.items()
        if name in listed and standing.last.state == "done" and standing.last.seconds is not None
    ]
    ratio = _ratio([(job.seconds, seconds) for job, seconds in done if job.seconds])
    alike: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for job, seconds in done:
        for kind in _kinds(job):
            alike[kind].append(seconds)
    typical = {kind: fmean(values) for kind, values in alike.items()}
    total = 0.0
    for job in listed.values():
        standing = told.get(job.name)
        if standing is not None and standing.last.state not in OPEN:
            continue
        whole = job.seconds * ratio if job.seconds is not None else _typical(job, typical)
        if whole is None:
            return None
        spent = now - standing.began if standing is not None and standing.began is not None else 0.0
        total += max(0.0, whole - spent)
    return total / at_a_time


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """How much slower than estimated (expected, took) jobs went: the machine, and other work on it, slow all alike.

    The median by expected time: one job that found more to do than the one it was estimated from (texts to be encoded
    that were in a cache then) says nothing about the others.
    """
    half, sofar = sum(expected for expected, _ in pairs) / 2, 0.0
    for ratio, expected in sorted((took / expected, expected) for expected, took in pairs):
        sofar += expected
        if sofar >= half:
            return ratio
    return 1.0


def _kinds(job: ListedJob) -> tuple[tuple[str, ...], ...]:
    """From the closest kin to the furthest. A reference row is ready in a moment, and no measure of a method."""
    row = ""
    if job.until == "result":
        row = "reference" if job.method in REFERENCE_ROWS else "method"
    return (
        (job.until, job.task, job.backbone, job.method),
        (job.until, job.backbone, job.method),
        (job.until, job.backbone, row),
        (job.until, row),
    )


def _typical(job: ListedJob, typical: Mapping[tuple[str, ...], float]) -> float | None:
    return next((typical[kind] for kind in _kinds(job) if kind in typical), None)
