"""Hands a sweep to Slurm through submitit, and leaves: arrays of jobs that wait for what they need.

Nothing of a sweep depends on the process that submitted it. A job carries its assignment as JSON, writes its state into
the sweep's folder and finds finished stages in the store; so one that is queued again after a preemption, a time limit
or the loss of its node simply goes on.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import BenchError, MissingExtra, StorageError, UsageError
from genrec_unlearn_bench.executors.slurm_settings import MINUTES, JobArray, Placement, SlurmSettings, job_arrays
from genrec_unlearn_bench.executors.task import Assignment, perform
from genrec_unlearn_bench.grid.schedule import Job
from genrec_unlearn_bench.grid.state import JobState, JobStates, State, SweepFolder, tail

if TYPE_CHECKING:
    from submitit import Executor as Submitter
    from submitit.helpers import DelayedSubmission

SLURM = "slurm"
UNKNOWN, GONE = "UNKNOWN", "GONE"
PATIENCE = 60.0
"""Seconds for which a state that another node wrote may not be seen yet: NFS caches folders for up to a minute."""
LOOK = 2.0

_ENDS = {
    "CANCELLED": "it was cancelled",
    "TIMEOUT": "it was killed at its time limit\n  hint:  raise `minutes` for it",
    "DEADLINE": "it could not end before its deadline",
    "OUT_OF_MEMORY": "it was killed for using more memory than asked for\n  hint:  raise `memory_mib`",
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node did not start",
    "PREEMPTED": "another job took its place, and it was not queued again",
    "REVOKED": "it was revoked",
    "FAILED": "it ended with an error before it could say which",
    "COMPLETED": "it ended without a word",
    GONE: "it is no longer in the queue, and left no word",
}
"""Slurm's words for the end of a job."""


@dataclass(frozen=True)
class SlurmTask:
    """One job as it is submitted: plain strings and numbers, which submitit pickles.

    Attributes:
        assignment: An ``Assignment`` as JSON.
        restarted: How often it was queued again after a time limit.
    """

    assignment: str
    restarted: int = 0

    def __call__(self) -> None:
        """Do the job. Ends the process with 1 where it is not done, so that Slurm's own tools show it too."""
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        given = Assignment.model_validate_json(self.assignment)
        # Slurm counts its own restarts, which come after preemptions and lost nodes too.
        counted = os.environ.get("SLURM_RESTART_COUNT", "")
        attempt = given.attempt + (int(counted) if counted.isdigit() else self.restarted)
        given = given.model_copy(update={"place": _job_id(), "attempt": attempt})
        folder = SweepFolder(given.folder)
        error = _failed_need(given.job, folder)
        if error:
            folder.write(given.state("skipped", error=error))
            sys.exit(1)
        if perform(given).how != "done":
            sys.exit(1)

    def checkpoint(self) -> DelayedSubmission:
        """What submitit queues in its place when its time is over, until ``max_num_timeout`` is reached."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(replace(self, restarted=self.restarted + 1))


def _job_id() -> str:
    """The scheduler's name for this job; empty where submitit has not started it."""
    from submitit import JobEnvironment

    try:
        return str(JobEnvironment().job_id)
    except RuntimeError:
        return ""


def _failed_need(job: Job, folder: SweepFolder) -> str:
    """Why the job cannot be done, by the states of what it waited for; empty where it can."""
    until = time.monotonic() + PATIENCE
    while True:
        states = {need: state for need in job.needs if (state := folder.state(need)) is not None}
        for need, state in states.items():
            if state.state in ("failed", "lost", "skipped"):
                return f"needs {need!r}, which was not done: {state.error.partition(chr(10))[0] or state.state}"
        silent = [need for need, state in states.items() if state.state in ("queued", "running")]
        if not silent:
            return ""
        if time.monotonic() > until:
            return f"needs {silent[0]!r}, which ended without a word (see `bench grid status`)"
        time.sleep(LOOK)


@dataclass
class Slurm:
    """Submits jobs to Slurm; they run elsewhere and later.

    Args:
        work: ``module:function`` that does a job, in place of ``task.run_job``.
        info: Shows lines to the user.

    Raises:
        MissingExtra: submitit is not installed.
        UsageError: There is no Slurm on this machine.
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

    def has_capacity(self, job: Job) -> bool:
        """Always: the queue takes everything."""
        return True

    def submit(self, jobs: Sequence[Job], attempts: Sequence[int]) -> None:
        """Submit all jobs that are not in the queue, or running, since an earlier call.

        Each kind of request is tried with ``sbatch --test-only`` first, so that nothing is submitted where something
        cannot be. Raises UsageError in Slurm's words, StorageError.
        """
        attempt = {job.name: number for job, number in zip(jobs, attempts, strict=True)}
        words = slurm_states(self.folder)
        queued = {name for name, word in words.items() if waits(word) or word == UNKNOWN}
        ids = {name: state.place for name in queued if (state := self.folder.state(name)) is not None}
        fresh = [job for job in jobs if job.name not in ids]
        if len(fresh) < len(jobs):
            self.info(f"{len(jobs) - len(fresh)} jobs are in Slurm's queue, or running, since an earlier call")
        arrays = job_arrays(fresh, self.settings, ids)
        for placement, array in {array.placement: array for array in reversed(arrays)}.items():
            self._test(array.jobs[0], placement)
        for array in arrays:
            ids |= self._submit(array, ids, attempt)
        if fresh:
            self.info(f"submitted {len(fresh)} jobs to Slurm in {len(arrays)} arrays")

    def ended(self, timeout: float) -> list[JobState]:
        """Nothing ends here."""
        return []

    def close(self, hurry: threading.Event | None = None) -> None:
        """Nothing is stopped: what was submitted goes on (``scancel --name=…`` stops it)."""

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

    def _submit(self, array: JobArray, ids: Mapping[str, str], attempt: Mapping[str, int]) -> dict[str, str]:
        given = []
        place: dict[str, Any] = {"folder": self.folder.root, "cache": self.cache, "work": self.work}
        for job in array.jobs:
            # What is done by now, or was never a job, is nothing to wait for.
            needs = tuple(need for need in job.needs if need in ids)
            own = job.model_copy(update={"needs": needs, "resources": array.placement.resources})
            given.append(Assignment(job=own, attempt=attempt[job.name], executor=SLURM, **place))
            # Before a job can start and write its own; its id follows, unless it has started by then.
            self.folder.write(given[-1].state("queued"))
        # Not afterok: a job whose need has failed would stay in the queue for ever (DependencyNeverSatisfied), or be
        # removed without a word. So it starts, sees what became of its needs, writes that it is skipped, and ends.
        waited = ":".join(dict.fromkeys(ids[need] for need in array.needs))
        executor = self._executor(array, f"afterany:{waited}" if waited else None)
        tasks = [SlurmTask(one.model_dump_json()) for one in given]
        found = {}
        for one, handle in zip(given, _submitted(executor, tasks), strict=True):
            found[one.job.name] = str(handle.job_id)
            state = self.folder.state(one.job.name)
            if state is not None and state.state == "queued" and not state.place:
                self.folder.write(one.model_copy(update={"place": found[one.job.name]}).state("queued"))
        return found

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
        command = ["sbatch", "--test-only", *options, "--wrap", "true"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as fault:
            raise BenchError(f"Slurm does not answer: {fault}", where="sbatch --test-only") from fault
        if done.returncode != 0:
            words = [line.split("error: ", 1)[-1] for line in done.stderr.splitlines() if line.strip()]
            raise UsageError(
                f"Slurm refuses the job {job.name!r}: {'; '.join(words) or f'sbatch ended with {done.returncode}'}",
                where=" ".join(options),
                hint="change its resources in the grid file, or partition, account, overrides in the file of --slurm",
            )


def _submitted(executor: Submitter, tasks: Sequence[SlurmTask]) -> Sequence[Any]:
    """Submitit's handles, one for each task. Raises UsageError where Slurm refuses, in its words."""
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        return executor.submit_array(tasks)
    except (FailedJobError, FailedSubmissionError) as fault:
        raise UsageError(
            f"Slurm refuses an array of {len(tasks)} jobs: {str(fault).strip() or 'it does not say why'}",
            where="sbatch",
            hint="what was submitted before goes on; start the sweep again for the rest, with smaller arrays "
            "(`array_size` in the file of --slurm) or when the queue has room",
        ) from fault


def waits(word: str) -> bool:
    """Whether a job of which Slurm says this goes on by itself: queued, running or between the two."""
    return word not in _ENDS and word not in (UNKNOWN, "COMPLETING")


def slurm_states(folder: SweepFolder) -> dict[str, str]:
    """The jobs of a sweep that are in Slurm's hands by their state files, and what Slurm says of them.

    The words are Slurm's own (PENDING, RUNNING, COMPLETED …), GONE for a job that it has forgotten, UNKNOWN where it
    does not answer. Of jobs that ended without writing it themselves, the end is written for them, as far as the folder
    may be written. Nothing is asked where no job is in Slurm's hands.
    """
    if not folder.slurm.is_dir():
        return {}
    # A preempted job has written that it is lost, and is queued again by Slurm.
    watched = {
        name: state
        for name, state in JobStates(folder).look().items()
        if state.executor == SLURM and state.place and state.state in ("queued", "running", "lost")
    }
    if not watched:
        return {}
    words = _squeue(state.place for state in watched.values())
    found = {name: UNKNOWN if words is None else words.get(state.place, GONE) for name, state in watched.items()}
    for name in watched:
        with suppress(StorageError):
            # What was written while Slurm was asked counts.
            state = folder.state(name)
            if state is not None and state.place == watched[name].place:
                _amend(folder, state, found[name])
    return {name: found[name] for name, state in watched.items() if state.state != "lost" or waits(found[name])}


def _amend(folder: SweepFolder, state: JobState, word: str) -> None:
    now = time.time()
    if state.state == "lost" and word == "PENDING":
        again = {"state": "queued", "updated": now, "error": "it is queued again"}
        folder.write(state.model_copy(update=again))
    if state.state not in ("queued", "running") or word not in _ENDS:
        return
    if word in ("COMPLETED", GONE) and now - state.updated < PATIENCE:
        # Its own last word may only not be seen yet.
        return
    ends: State = "failed" if word == "FAILED" else "lost"
    output = tail(folder.slurm / f"{state.place}_0_log.err") if ends == "failed" else []
    error = "\n".join([f"Slurm says of the job {state.place}: {_ENDS[word]}", *output])
    folder.write(state.model_copy(update={"state": ends, "updated": now, "error": error}))


def _squeue(places: Iterable[str]) -> dict[str, str] | None:
    """Slurm's words by job id; None where it does not answer."""
    # One id for a whole array: asking for each of its jobs would take long.
    bases = ",".join(sorted({place.partition("_")[0] for place in places}))
    command = ["squeue", "--noheader", "--states=all", "--array", "--format=%i|%T", f"--jobs={bases}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0 and "Invalid job id" not in done.stderr:
        return None
    rows = [line.strip().split("|") for line in done.stdout.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) > 1}
