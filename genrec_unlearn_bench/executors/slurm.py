"""Hands a sweep to Slurm through submitit, and leaves: arrays of jobs that wait for what they need.

Nothing of a sweep depends on the process that submitted it. A job carries its assignment as JSON, writes its state into
the sweep's folder and finds finished stages in the store; so one that is queued again after a preemption, a time limit
or the loss of its node simply goes on.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import MissingExtra, StorageError, UsageError
from genrec_unlearn_bench.executors.task import PATIENCE, Assignment, SlurmTask
from genrec_unlearn_bench.grid.spec import Job, Resources, listed
from genrec_unlearn_bench.grid.state import JobState, SweepFolder, tail

if TYPE_CHECKING:
    from submitit import Executor as Submitter

JobField = Literal["task", "method", "backbone", "scale", "suite", "ruleset", "seed", "until"]
"""What an override may match: fields of a job's request, and the stage it ends with."""
MINUTES = 240
"""Time limit where nobody names one."""
GRACE = 90
"""Seconds before its limit at which a job is asked to stop and, where it can go on, queued again."""
RESTARTS = 10
"""How often a training in one process that reached its time limit is queued again; it resumes from its last snapshot.
What is no such training begins its stage anew, so that more than one more attempt would only repeat the first."""

UNKNOWN, GONE = "UNKNOWN", "GONE"
ENDS: tuple[str, ...] = ("CANCELLED", "COMPLETED", "DEADLINE", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED")
ENDS += ("TIMEOUT", "OUT_OF_MEMORY", "FAILED", GONE)
"""Slurm's words for the end of a job, and ours for one that it has forgotten."""


class SlurmOptions(StrictModel):
    """What is handed to ``sbatch`` besides cores and GPUs."""

    memory_mib: int | None = Field(default=None, ge=1)
    """Memory of a job for which the grid names none."""
    minutes: float | None = Field(default=None, gt=0)
    """Time limit of a job for which the grid names none."""
    setup: tuple[str, ...] | None = None
    """Shell lines that are run on the node first: ``module load cuda``."""
    sbatch: dict[str, str | int | bool | None] = Field(default_factory=dict)
    """Other options of sbatch, but ``time`` and ``nodes``, by their long names: ``{partition: gpu, mail-type: FAIL}``;
    null takes one back."""

    @model_validator(mode="after")
    def _refuse_limits(self) -> Self:
        if taken := sorted({"time", "nodes"} & set(self.sbatch)):
            what = f"sbatch cannot set {' and '.join(taken)}"
            raise ValueError(f"{what}: a job has one node, and `minutes` is its time limit")
        return self


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

    def matches(self, job: Job) -> bool:
        """Whether every field named has one of its values."""
        fields = {"until": job.until, **vars(job.request)}
        return all(
            any(fnmatchcase(str(fields[name]), str(pattern)) for pattern in listed(wanted))
            for name, wanted in self.where.items()
        )


class SlurmSettings(SlurmOptions):
    """What jobs get on one cluster: the file of ``bench grid run --executor slurm --slurm FILE``."""

    max_parallel: int | None = Field(default=None, ge=1)
    """Jobs of one array that may run at once."""
    array_size: int = Field(default=1000, ge=1)
    """Jobs in one array at most; clusters refuse more than their ``MaxArraySize``, which is 1001 by default."""
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
        options = {
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
        named = tuple((name, value) for name, value in options.items() if value is not None)
        alone = job.until in ("original", "retrain") and (wanted.gpus or 0) < 2
        restarts = RESTARTS if alone else 1
        return Placement(wanted, named, tuple(given.get("setup", ())), restarts)


class Placement(NamedTuple):
    """What Slurm is asked for; jobs that ask for the same may stand in one array.

    Attributes:
        sbatch: Options by their long names, without those of arrays and dependencies; ``time`` is in minutes.
        setup: Shell lines that are run on the node first.
        restarts: How often the job may be queued again after its time limit.
    """

    resources: Resources
    sbatch: tuple[tuple[str, Any], ...]
    setup: tuple[str, ...]
    restarts: int


class JobArray(NamedTuple):
    """Jobs that are submitted in one go; ``needs`` are the jobs that have to be over before any of them starts."""

    jobs: Sequence[Job]
    placement: Placement
    needs: tuple[str, ...]


def job_arrays(jobs: Sequence[Job], settings: SlurmSettings, queued: Iterable[str] = ()) -> list[JobArray]:
    """Divide jobs into arrays, in the order of submission: what is needed comes before what needs it.

    An array holds jobs of the same resources that need exactly the same, so that nothing waits for a stage that it does
    not use. ``queued`` jobs are in Slurm's queue, or run, since an earlier call.
    """
    waited = {*(job.name for job in jobs), *queued}
    grouped: dict[tuple[Placement, tuple[str, ...]], list[Job]] = defaultdict(list)
    for job in jobs:
        grouped[settings.place(job), tuple(need for need in job.needs if need in waited)].append(job)
    size = settings.array_size
    return [
        JobArray(members[start : start + size], placement, needs)
        for (placement, needs), members in grouped.items()
        for start in range(0, len(members), size)
    ]


@dataclass
class Slurm:
    """Submits jobs to Slurm; they run elsewhere and later. Nothing stops them but ``scancel --name=bench-GRID``.

    Raises MissingExtra where submitit is not installed, UsageError where this machine has no Slurm.
    """

    folder: SweepFolder
    settings: SlurmSettings = field(default_factory=SlurmSettings)
    work: str = ""
    info: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        self._check_installed()
        # Jobs start in folders of their own choice.
        self.folder = SweepFolder(self.folder.root.absolute())

    def submit(self, jobs: Sequence[Job]) -> None:
        """Submit all jobs that are not in the queue, or running, since an earlier call.

        Raises UsageError in Slurm's words, StorageError.
        """
        states, words = self.folder.states(), slurm_states(self.folder)
        ids = {name: states[name].place for name, word in words.items() if waits(word) or word == UNKNOWN}
        fresh = [job for job in jobs if job.name not in ids]
        if len(fresh) < len(jobs):
            self.info(f"{len(jobs) - len(fresh)} jobs are in Slurm's queue, or running, since an earlier call")
        arrays = job_arrays(fresh, self.settings, ids)
        for array in arrays:
            self._submit(array, ids)
        if fresh:
            self.info(f"submitted {len(fresh)} jobs to Slurm in {len(arrays)} arrays")

    def _check_installed(self) -> None:
        try:
            import submitit  # noqa: F401
        except ImportError:
            raise MissingExtra("submitit", "slurm", "the executor 'slurm'") from None
        if shutil.which("sbatch") is None:
            hint = "start the sweep on a login node of the cluster, or use --executor local on this machine"
            raise UsageError("this machine has no Slurm: the command 'sbatch' is not found", hint=hint)

    def _submit(self, array: JobArray, ids: dict[str, str]) -> None:
        """Submit an array, and add Slurm's ids of its jobs to those of the jobs that they may wait for."""
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        given = []
        for job in array.jobs:
            # What is done by now, or was never a job, is nothing to wait for.
            own = {"needs": array.needs, "resources": array.placement.resources}
            given.append(Assignment(job=job.model_copy(update=own), folder=self.folder.root, work=self.work))
            # Before a job can start and write its own; its id follows, unless it has started by then.
            self.folder.write(given[-1].state("queued"))
        # Not afterok: a job whose need has failed would stay in the queue for ever (DependencyNeverSatisfied), or be
        # removed without a word. So it starts, sees what became of its needs, writes that it is skipped, and ends.
        waited = ":".join(dict.fromkeys(ids[need] for need in array.needs))
        executor = self._executor(array, f"afterany:{waited}" if waited else None)
        try:
            handles = executor.submit_array([SlurmTask(one.model_dump_json()) for one in given])
        except (FailedJobError, FailedSubmissionError) as fault:
            raise UsageError(
                f"Slurm refuses an array of {len(given)} jobs: {str(fault).strip() or 'it does not say why'}",
                where=" ".join(f"--{name}={value}" for name, value in array.placement.sbatch),
                hint="change resources in the grid file, or sbatch, array_size, overrides in the file of --slurm; what "
                "was submitted before goes on, and the same call submits the rest",
            ) from fault
        for one, handle in zip(given, handles, strict=True):
            name, ids[one.job.name] = one.job.name, str(handle.job_id)
            state = self.folder.state(name)
            if state is not None and state.state == "queued" and not state.place:
                self.folder.write(one.model_copy(update={"place": ids[name]}).state("queued"))

    def _executor(self, array: JobArray, dependency: str | None) -> Submitter:
        import submitit

        placement = array.placement
        executor = submitit.SlurmExecutor(self.folder.slurm, max_num_timeout=placement.restarts)
        options = dict(placement.sbatch)
        executor.update_parameters(
            # By these submitit tells whether a job has reached its time limit; it passes the others on as they are.
            **{name: options.pop(name) for name in ("time", "nodes")},
            job_name=f"bench-{self.folder.root.name}",
            # A short job is not asked to stop before it has begun.
            signal_delay_s=min(GRACE, math.ceil((placement.resources.minutes or MINUTES) * 30)),
            setup=list(placement.setup),
            dependency=dependency,
            array_parallelism=self.settings.max_parallel or len(array.jobs),
            additional_parameters=options,
            # From Slurm 22.05 on a step does not take over how many cores its job has.
            srun_args=[f"--cpus-per-task={placement.resources.cores}"],
        )
        return executor


def waits(word: str) -> bool:
    """Whether a job of which Slurm says this goes on by itself: queued, running or between the two."""
    return word not in ENDS and word not in (UNKNOWN, "COMPLETING")


def slurm_states(folder: SweepFolder) -> dict[str, str]:
    """The jobs of a sweep that are in Slurm's hands by their state files, and what Slurm says of them.

    The words are Slurm's own (PENDING, RUNNING, COMPLETED …), GONE for a job that it has forgotten, UNKNOWN where it
    does not answer. Of jobs that ended without writing it themselves, the end is written for them, as far as the folder
    may be written. Nothing is asked where no job is in Slurm's hands.
    """
    # A preempted job has written that it is lost, and is queued again by Slurm.
    watched = {
        name: state
        for name, state in (folder.states() if folder.slurm.is_dir() else {}).items()
        if state.place and state.state in ("queued", "running", "lost")
    }
    if not watched:
        return {}
    words = _queue({state.place.partition("_")[0] for state in watched.values()})
    found = {name: UNKNOWN if words is None else words.get(state.place, GONE) for name, state in watched.items()}
    for name in watched:
        with suppress(StorageError):
            # What was written while Slurm was asked counts.
            state = folder.state(name)
            if state is not None and state.place == watched[name].place:
                _amend(folder, state, found[name])
    return {name: found[name] for name, state in watched.items() if state.state != "lost" or waits(found[name])}


def _queue(arrays: Iterable[str]) -> dict[str, str] | None:
    """Slurm's word for each job of some arrays; None where it does not answer."""
    command = ["squeue", "--noheader", "--states=all", "--array", "--format=%i|%T", "--jobs", ",".join(sorted(arrays))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0 and "Invalid job id" not in done.stderr:
        return None
    return {row[0].strip(): row[1] for row in (line.split("|") for line in done.stdout.splitlines()) if len(row) > 1}


def _amend(folder: SweepFolder, state: JobState, word: str) -> None:
    """Write what Slurm knows better than the job, which may not have been able to."""
    # Its own last word may only not be seen yet.
    unseen = word in ("COMPLETED", GONE) and time.time() - state.updated < PATIENCE
    if state.state == "lost" and word == "PENDING":
        change = {"state": "queued", "error": "it is queued again"}
    elif state.state in ("queued", "running") and word in ENDS and not unseen:
        output = tail(folder.slurm / f"{state.place}_0_log.err") if word == "FAILED" else []
        error = "\n".join([f"Slurm says of the job {state.place}: {word}", *output])
        change = {"state": "failed" if word == "FAILED" else "lost", "error": error}
    else:
        return
    folder.write(state.model_copy(update={**change, "updated": time.time()}))
