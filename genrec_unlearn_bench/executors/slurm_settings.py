"""Settings of a cluster, a strict YAML file with overrides for jobs that match, and the arrays that jobs make there.

A grid file says what its cells need on any machine; this file says what they get on one cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel, parse_yaml
from genrec_unlearn_bench.grid.schedule import Job
from genrec_unlearn_bench.grid.spec import Resources

JobField = Literal["task", "method", "backbone", "scale", "suite", "ruleset", "seed", "until"]
"""What an override may match: fields of a job's request, and the stage it ends with."""
MINUTES = 240
"""Time limit where nobody names one."""
RESUMED = ("original", "retrain")
"""Jobs that keep snapshots of their work (trainings)."""


class SlurmOptions(StrictModel):
    """What is handed to ``sbatch``; None leaves it to the cluster."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    """Features that a node must have (``a100``)."""
    memory_mib: int | None = Field(default=None, ge=1)
    """Memory of a job for which the grid names none."""
    minutes: float | None = Field(default=None, gt=0)
    """Time limit of a job for which the grid names none."""
    setup: tuple[str, ...] | None = None
    """Shell lines that are run on the node first: ``module load cuda``."""
    sbatch: dict[str, str | int | bool] = Field(default_factory=dict)
    """Any other options of sbatch by their long names: ``{mail-type: FAIL, nice: 100}``."""


class SlurmChanges(SlurmOptions):
    """What an override sets. Resources that are named here replace those of the grid file."""

    cores: int | None = Field(default=None, ge=1)
    gpus: int | None = Field(default=None, ge=0)
    fsdp: bool | None = None


class SlurmOverride(StrictModel):
    """Changes for some jobs; of two that set the same field, the later one wins."""

    where: dict[JobField, str | int | tuple[str | int, ...]]
    """Fields and what they have to be, patterns with ``*`` included; of several values one has to match. No field
    means every job."""
    set: SlurmChanges
    why: str = ""

    def matches(self, job: Job) -> bool:
        """Whether every field named has one of its values."""
        for name, wanted in self.where.items():
            value = str(job.until if name == "until" else getattr(job.request, name))
            patterns = wanted if isinstance(wanted, tuple) else (wanted,)
            if not any(fnmatchcase(value, str(pattern)) for pattern in patterns):
                return False
        return True


class SlurmSettings(SlurmOptions):
    """``bench grid run --executor slurm --slurm FILE``."""

    minutes: float | None = Field(default=MINUTES, gt=0)
    """Time limit of a job for which the grid names none."""
    max_parallel: int | None = Field(default=None, ge=1)
    """Jobs of one array that may run at once."""
    array_size: int = Field(default=1000, ge=1)
    """Jobs in one array at most; clusters refuse more than their ``MaxArraySize``, which is 1001 by default."""
    grace_seconds: int = Field(default=90, ge=5)
    """Time before its limit at which a job is asked to stop and, where it can go on, queued again."""
    restarts: int = Field(default=10, ge=0)
    """How often a training that reached its time limit is queued again; it resumes from its last snapshot."""
    python: str | None = None
    """Command that starts Python on a node, if not the one that submits: ``singularity exec image.sif python``."""
    overrides: tuple[SlurmOverride, ...] = ()
    """Later ones win."""

    def place(self, job: Job) -> Placement:
        """What a job gets."""
        given = self.model_dump(include={*SlurmOptions.model_fields}, exclude_none=True)
        given |= job.resources.model_dump(exclude_none=True)
        for changes in (override.set for override in self.overrides if override.matches(job)):
            sbatch = {**given["sbatch"], **changes.sbatch}
            given |= {**changes.model_dump(exclude_none=True), "sbatch": sbatch}
        wanted = Resources.model_validate({name: given[name] for name in Resources.model_fields if name in given})
        options = {name: given.get(name) for name in ("partition", "account", "qos", "constraint")}
        options |= {
            "time": math.ceil(wanted.minutes or MINUTES),
            "cpus-per-task": wanted.cores,
            "gpus-per-node": wanted.gpus or None,
            "mem": None if wanted.memory_mib is None else f"{wanted.memory_mib}M",
            "nodes": 1,
            "ntasks-per-node": 1,
            # After a preemption or the loss of a node; finished stages are in the store.
            "requeue": True,
            **given["sbatch"],
        }
        return Placement(
            resources=wanted,
            sbatch=tuple((name, value) for name, value in options.items() if value is not None),
            setup=tuple(given.get("setup", ())),
            restarts=self.restarts if job.until in RESUMED else min(1, self.restarts),
        )


@dataclass(frozen=True)
class Placement:
    """What Slurm is asked for; jobs that ask for the same may stand in one array.

    Attributes:
        sbatch: Options by their long names, without those of arrays and dependencies; ``time`` is in minutes.
        setup: Shell lines that are run on the node first.
        restarts: How often the job may be queued again after its time limit. What is no training begins its stage
            anew, so that more than one more attempt would only repeat the first.
    """

    resources: Resources
    sbatch: tuple[tuple[str, Any], ...]
    setup: tuple[str, ...]
    restarts: int


def read_slurm_settings(path: Path | None) -> SlurmSettings:
    """Settings from a file; the defaults where none is given. Raises ConfigError with all faults, OSError."""
    if path is None:
        return SlurmSettings()
    return parse_yaml(SlurmSettings, path.read_text(encoding="utf-8"), where=str(path))


@dataclass(frozen=True)
class JobArray:
    """Jobs that are submitted in one go; ``needs`` are the jobs that have to be over before any of them starts."""

    jobs: tuple[Job, ...]
    placement: Placement
    needs: tuple[str, ...]


def job_arrays(jobs: Sequence[Job], settings: SlurmSettings, queued: Iterable[str] = ()) -> list[JobArray]:
    """Divide jobs into arrays, in the order of submission: what is needed comes before what needs it.

    An array holds jobs of the same resources that need exactly the same, so that nothing waits for a stage that it does
    not use. Slurm bounds what runs at once for one array alone, so with ``max_parallel`` all such jobs of a level make
    one array, which waits for everything that any of them needs.

    Args:
        queued: Jobs that are in Slurm's queue, or run, since an earlier call.
    """
    levels: dict[str, int] = {}
    # Needs stand before what needs them.
    for job in jobs:
        levels[job.name] = max((levels[need] + 1 for need in job.needs if need in levels), default=0)
    waited = {*levels, *queued}
    grouped: dict[tuple[int, Placement, tuple[str, ...]], list[Job]] = {}
    for job in jobs:
        needs = () if settings.max_parallel else tuple(sorted(waited.intersection(job.needs)))
        grouped.setdefault((levels[job.name], settings.place(job), needs), []).append(job)
    arrays = []
    for (_, placement, _), members in sorted(grouped.items(), key=lambda group: group[0][0]):
        for start in range(0, len(members), settings.array_size):
            part = members[start : start + settings.array_size]
            needs = tuple(dict.fromkeys(need for job in part for need in job.needs if need in waited))
            arrays.append(JobArray(tuple(part), placement, needs))
    return arrays
