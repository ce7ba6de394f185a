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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel, parse_yaml
from genrec_unlearn_bench.errors import BenchError, MissingExtra, StorageError, UsageError
from genrec_unlearn_bench.executors.base import Executor
from genrec_unlearn_bench.executors.task import PATIENCE, Assignment, SlurmTask
from genrec_unlearn_bench.grid.spec import Job, Resources, listed
from genrec_unlearn_bench.grid.state import JobState, SweepFolder, tail

if TYPE_CHECKING:
    from submitit import Executor as Submitter

SLURM = "slurm"
JobField = Literal["task", "method", "backbone", "scale", "suite", "ruleset", "seed", "until"]
"""What an override may match: fields of a job's request, and the stage it ends with."""
MINUTES = 240
"""Time limit where nobody names one."""
RESUMED = ("original", "retrain")
"""Jobs that keep snapshots of their work: trainings, in one process."""

UNKNOWN, GONE = "UNKNOWN", "GONE"
ENDS = {
    **dict.fromkeys(("CANCELLED", "COMPLETED", "DEADLINE", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED"), ""),
    "TIMEOUT": "\n  hint:  raise `minutes` for it",
    "OUT_OF_MEMORY": "\n  hint:  raise `memory_mib` for it",
    "FAILED": " (it ended with an error before it could say which)",
    GONE: " (it is no longer in the queue, and left no word)",
}
"""Slurm's words for the end of a job, and what there is to add."""


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
        named = tuple((name, value) for name, value in options.items() if value is not None)
        restarts = self.restarts if job.until in RESUMED and (wanted.gpus or 0) < 2 else min(1, self.restarts)
        return Placement(wanted, named, tuple(given.get("setup", ())), restarts)


class Placement(NamedTuple):
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
class Slurm(Executor):
    """Submits jobs to Slurm; they run elsewhere and later. Nothing stops them but ``scancel --name=bench-GRID``.

    Raises MissingExtra where submitit is not installed, UsageError where this machine has no Slurm.
    """

    folder: SweepFolder
    cache: Path
    settings: SlurmSettings = field(default_factory=SlurmSettings)
    work: str = ""
    info: Callable[[str], None] = lambda text: None
    name: str = SLURM
    detached: bool = True

    def __post_init__(self) -> None:
        self._check_installed()
        # Jobs start in folders of their own choice.
        self.folder = SweepFolder(self.folder.root.absolute())
        self.cache = self.cache.absolute()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Submit all jobs that are not in the queue, or running, since an earlier call.

        Each kind of request is tried with ``sbatch --test-only`` first, so that nothing is submitted where something
        cannot be. Raises UsageError in Slurm's words, StorageError.
        """
        states, words = self.folder.states(), slurm_states(self.folder)
        ids = {name: states[name].place for name, word in words.items() if waits(word) or word == UNKNOWN}
        fresh = [job for job in jobs if job.name not in ids]
        if len(fresh) < len(jobs):
            self.info(f"{len(jobs) - len(fresh)} jobs are in Slurm's queue, or running, since an earlier call")
        arrays = job_arrays(fresh, self.settings, ids)
        for placement, array in {array.placement: array for array in reversed(arrays)}.items():
            self._test(array.jobs[0], placement)
        for array in arrays:
            self._submit(array, ids)
        if fresh:
            self.info(f"submitted {len(fresh)} jobs to Slurm in {len(arrays)} arrays")

    def _check_installed(self) -> None:
        try:
            import submitit  # noqa: F401
        except ImportError:
            raise MissingExtra("submitit", "slurm", "the executor 'slurm'") from None
        for tool in ("sbatch", "srun", "squeue"):
            if shutil.which(tool) is None:
                raise UsageError(
                    f"this machine has no Slurm: the command {tool!r} is not found",
                    where="--executor slurm",
                    hint="start the sweep on a login node of the cluster, or use --executor local on this machine",
                )

    def _submit(self, array: JobArray, ids: dict[str, str]) -> None:
        """Submit an array, and add Slurm's ids of its jobs to those of the jobs that they may wait for."""
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        given = []
        place: dict[str, Any] = {"folder": self.folder.root, "cache": self.cache, "work": self.work}
        for job in array.jobs:
            # What is done by now, or was never a job, is nothing to wait for.
            own = {"needs": array.needs, "resources": array.placement.resources}
            one = Assignment(job=job.model_copy(update=own), executor=SLURM, **place)
            given.append(one)
            # Before a job can start and write its own; its id follows, unless it has started by then.
            self.folder.write(one.state("queued"))
        # Not afterok: a job whose need has failed would stay in the queue for ever (DependencyNeverSatisfied), or be
        # removed without a word. So it starts, sees what became of its needs, writes that it is skipped, and ends.
        waited = ":".join(dict.fromkeys(ids[need] for need in array.needs))
        executor = self._executor(array, f"afterany:{waited}" if waited else None)
        try:
            handles = executor.submit_array([SlurmTask(one.model_dump_json()) for one in given])
        except (FailedJobError, FailedSubmissionError) as fault:
            raise UsageError(
                f"Slurm refuses an array of {len(given)} jobs: {str(fault).strip() or 'it does not say why'}",
                where="sbatch",
                hint="what was submitted before goes on; start the sweep again for the rest, with smaller arrays "
                "(`array_size` in the file of --slurm) or when the queue has room",
            ) from fault
        for one, handle in zip(given, handles, strict=True):
            name, ids[one.job.name] = one.job.name, str(handle.job_id)
            state = self.folder.state(name)
            if state is not None and state.state == "queued" and not state.place:
                self.folder.write(one.model_copy(update={"place": ids[name]}).state("queued"))

    def _grace(self, array: JobArray) -> int:
        """Seconds; a short job is not asked to stop before it has begun."""
        return min(self.settings.grace_seconds, math.ceil((array.placement.resources.minutes or MINUTES) * 30))

    def _executor(self, array: JobArray, dependency: str | None) -> Submitter:
        import submitit

        placement, settings = array.placement, self.settings
        executor = submitit.SlurmExecutor(self.folder.slurm, max_num_timeout=placement.restarts, python=settings.python)
        options = dict(placement.sbatch)
        executor.update_parameters(
            # By these submitit tells whether a job has reached its time limit; it passes the others on as they are.
            **{name: options.pop(name) for name in ("time", "nodes")},
            job_name=f"bench-{self.folder.root.name}",
            signal_delay_s=self._grace(array),
            setup=list(placement.setup),
            dependency=dependency,
            array_parallelism=settings.max_parallel or len(array.jobs),
            additional_parameters=options,
            # From Slurm 22.05 on a step does not take over how many cores its job has.
            srun_args=[f"--cpus-per-task={placement.resources.cores}"],
        )
        return executor

    def _test(self, job: Job, placement: Placement) -> None:
        options = [f"--{name}" if value is True else f"--{name}={value}" for name, value in placement.sbatch]
        done = _call("sbatch", "--test-only", *options, "--wrap", "true")
        if done is None:
            raise BenchError("Slurm does not answer", where="sbatch --test-only")
        if done.returncode != 0:
            words = [line.split("error: ", 1)[-1] for line in done.stderr.splitlines() if line.strip()]
            raise UsageError(
                f"Slurm refuses the job {job.name!r}: {'; '.join(words) or f'sbatch ended with {done.returncode}'}",
                where=" ".join(options),
                hint="change its resources in the grid file, or partition, account, overrides in the file of --slurm",
            )


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
        if state.executor == SLURM and state.place and state.state in ("queued", "running", "lost")
    }
    if not watched:
        return {}
    # One id for a whole array: asking for each of its jobs would take long.
    bases = ",".join(sorted({state.place.partition("_")[0] for state in watched.values()}))
    done = _call("squeue", "--noheader", "--states=all", "--array", "--format=%i|%T", f"--jobs={bases}")
    answers = done is not None and (done.returncode == 0 or "Invalid job id" in done.stderr)
    rows = [line.strip().split("|") for line in done.stdout.splitlines()] if done is not None and answers else []
    words = {row[0]: row[1] for row in rows if len(row) > 1}
    found = {name: words.get(state.place, GONE if answers else UNKNOWN) for name, state in watched.items()}
    for name in watched:
        with suppress(StorageError):
            # What was written while Slurm was asked counts.
            state = folder.state(name)
            if state is not None and state.place == watched[name].place:
                _amend(folder, state, found[name])
    return {name: found[name] for name, state in watched.items() if state.state != "lost" or waits(found[name])}


def _amend(folder: SweepFolder, state: JobState, word: str) -> None:
    """Write what Slurm knows better than the job, which may not have been able to."""
    now = time.time()
    change: dict[str, Any] = {}
    # Its own last word may only not be seen yet.
    unseen = word in ("COMPLETED", GONE) and now - state.updated < PATIENCE
    if state.state == "lost" and word == "PENDING":
        change = {"state": "queued", "error": "it is queued again"}
    elif state.state in ("queued", "running") and word in ENDS and not unseen:
        output = tail(folder.slurm / f"{state.place}_0_log.err") if word == "FAILED" else []
        error = "\n".join([f"Slurm says of the job {state.place}: {word}{ENDS[word]}", *output])
        change = {"state": "failed" if word == "FAILED" else "lost", "error": error}
    if change:
        folder.write(state.model_copy(update={**change, "updated": now}))


def _call(*command: str) -> subprocess.CompletedProcess[str] | None:
    """Call one of Slurm's commands; None where it does not answer."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
