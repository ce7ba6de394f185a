"""Which jobs make one Slurm array, and which arrays wait for which.

Shared stages stand in earlier arrays than what needs them. Without ``max_parallel`` an array holds jobs that need
exactly the same, so that nothing waits for a stage that it does not use and the first table comes early. A bound on
what runs at once is Slurm's for one array alone, so with ``max_parallel`` all jobs of a level that ask for the same
make one array, which waits for everything that any of them needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.executors.slurm_settings import Placement, SlurmSettings
from genrec_unlearn_bench.grid.job import Job

__all__ = ["JobArray", "dependency", "job_arrays"]


@dataclass(frozen=True)
class JobArray:
    """Jobs that are submitted in one go.

    Attributes:
        jobs: At least one.
        needs: Names of the jobs that have to be over before any of these may start.
    """

    jobs: tuple[Job, ...]
    placement: Placement
    needs: tuple[str, ...]


def job_arrays(jobs: Sequence[Job], settings: SlurmSettings, queued: Collection[str] = ()) -> list[JobArray]:
    """Arrays in the order in which they are to be submitted: what is needed comes before what needs it.

    Args:
        jobs: What is to be submitted, in the order of the schedule; what is done is not among them.
        queued: Jobs that are in Slurm's queue, or run, since an earlier call.

    Raises UsageError where jobs need each other in a circle.
    """
    levels = _levels(jobs)
    waited = {*levels, *queued}
    grouped: dict[tuple[int, Placement, tuple[str, ...]], list[Job]] = {}
    for job in jobs:
        needs = () if settings.max_parallel else tuple(sorted(waited.intersection(job.needs)))
        grouped.setdefault((levels[job.name], settings.place(job), needs), []).append(job)
    arrays = []
    # Stable: within a level the schedule's order stays.
    for (_, placement, _), members in sorted(grouped.items(), key=lambda group: group[0][0]):
        for start in range(0, len(members), settings.array_size):
            part = members[start : start + settings.array_size]
            of_any = dict.fromkeys(need for job in part for need in job.needs if need in waited)
            arrays.append(JobArray(tuple(part), placement, tuple(of_any)))
    return arrays


def dependency(needs: Sequence[str], places: Mapping[str, str]) -> str | None:
    """Slurm's words for waiting until jobs are over, however they ended; None where there is nothing to wait for.

    Not ``afterok``: a job whose need has failed would stay in the queue for ever (DependencyNeverSatisfied), or be
    removed without a word, by the cluster's settings. So it starts, sees what became of its needs, says that it is
    skipped and why, and ends within seconds.

    Args:
        places: Slurm's job ids by name.
    """
    ids = dict.fromkeys(places[need] for need in needs)
    return f"afterany:{':'.join(ids)}" if ids else None


def _levels(jobs: Sequence[Job]) -> dict[str, int]:
    """How many jobs have to follow one another before each; 0 where nothing does."""
    needs = {job.name: list(job.needs) for job in jobs}
    levels: dict[str, int] = {}
    left = dict(needs)
    while left:
        ready = {
            name: max((levels[need] + 1 for need in needed if need in levels), default=0)
            for name, needed in left.items()
            if not any(need in left for need in needed)
        }
        if not ready:
            raise UsageError(
                f"these jobs need each other in a circle: {', '.join(sorted(left)[:5])}",
                hint="this is a fault of the suite: please report it with the grid file",
            )
        levels |= ready
        left = {name: needed for name, needed in left.items() if name not in ready}
    return levels
