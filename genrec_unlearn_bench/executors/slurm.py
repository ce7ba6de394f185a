"""Hands a sweep to Slurm, through submitit, and leaves: arrays of jobs that wait for what they need.

Nothing of a sweep depends on the process that submitted it. Jobs read themselves from the sweep's folder, tell of
themselves there, and find what was done in the store; so one may be queued again after a preemption, a time limit or
the loss of its node, and simply goes on.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import BenchError, MissingExtra, UsageError
from genrec_unlearn_bench.executors.executor import Ended
from genrec_unlearn_bench.executors.slurm_arrays import JobArray, dependency, job_arrays
from genrec_unlearn_bench.executors.slurm_folder import keep_job
from genrec_unlearn_bench.executors.slurm_settings import Placement, SlurmSettings
from genrec_unlearn_bench.executors.slurm_states import slurm_states, waiting
from genrec_unlearn_bench.executors.slurm_task import EXECUTOR, SlurmTask
from genrec_unlearn_bench.grid.event import Event
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.journal import Journal
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

if TYPE_CHECKING:
    from submitit import Executor as Submitter

__all__ = ["Slurm"]

OWN_ARGUMENTS = (
    "account",
    "constraint",
    "partition",
    "qos",
    "time",
    "cpus-per-task",
    "gpus-per-node",
    "mem",
    "nodes",
    "ntasks-per-node",
)
"""Options of sbatch that submitit knows by name; it passes the others on as they are."""


class Slurm:
    """Submits jobs to Slurm. They are done elsewhere and later.

    Args:
        cluster: ``local`` runs submitit's own executor on this machine, one process a job and nothing waiting for
            anything: for tests.
        work: ``module:function`` that does a job, in place of ``runs.grid.work:do``.
        say: Where lines for people go.

    Raises:
        MissingExtra: submitit is not installed.
        UsageError: There is no Slurm on this machine.
    """

    name = EXECUTOR
    returns_at_once = True

    def __init__(
        self,
        folder: SweepFolder,
        cache: Path,
        settings: SlurmSettings | None = None,
        *,
        cluster: str = EXECUTOR,
        work: str = "",
        info: Callable[[str], None] = lambda text: None,
    ) -> None:
        try:
            import submitit  # noqa: F401
        except ImportError:
            raise MissingExtra("submitit", "slurm", "the executor 'slurm'") from None
        self._local = cluster != EXECUTOR
        missing = [] if self._local else [tool for tool in ("sbatch", "srun", "squeue") if shutil.which(tool) is None]
        if missing:
            raise UsageError(
                f"this machine has no Slurm: the command {missing[0]!r} is not found",
                where="--executor slurm",
                hint="start the sweep on a login node of the cluster, or use --executor local on this machine",
            )
        # Jobs start in folders of their own choice.
        self._folder = SweepFolder(folder.root.absolute())
        self._cache = cache.absolute()
        self._settings = settings or SlurmSettings()
        self._work = work
        self._say = info
        self._tested: set[Placement] = set()

    def room_for(self, job: Job) -> bool:
        """Always: the queue takes everything. Raises UsageError where Slurm would refuse it, in Slurm's own words."""
        placement = self._settings.place(job)
        if not self._local and placement not in self._tested:
            _test(job, placement)
            self._tested.add(placement)
        return True

    def submit(self, jobs: Sequence[Job], attempts: Sequence[int]) -> None:
        """Submit all jobs that are not in the queue, or running, since an earlier call.

        Each kind of request is tried with ``sbatch --test-only`` first, so that nothing is submitted where something
        cannot be. Raises UsageError in Slurm's words, StorageError.
        """
        attempt = {job.name: number for job, number in zip(jobs, attempts, strict=True)}
        places = {} if self._local else waiting(slurm_states(self._folder))
        fresh = [job for job in jobs if job.name not in places]
        if len(fresh) < len(jobs):
            self._say(f"{len(jobs) - len(fresh)} jobs are in Slurm's queue, or running, since an earlier call")
        for job in fresh:
            self.room_for(job)
        arrays = job_arrays(fresh, self._settings, places)
        for array in arrays:
            places |= self._submit(array, places, attempt)
        if fresh:
            self._say(f"submitted {len(fresh)} jobs to Slurm in {len(arrays)} arrays")

    def ended(self, timeout: float) -> list[Ended]:
        """Nothing ends here."""
        return []

    def close(self) -> None:
        """Nothing is stopped: what was submitted goes on (``scancel --name=…`` stops it)."""

    def _submit(self, array: JobArray, places: Mapping[str, str], attempt: Mapping[str, int]) -> dict[str, str]:
        tasks = []
        for job in array.jobs:
            needs = tuple(need for need in job.needs if need in places)
            keep_job(self._folder, job.model_copy(update={"needs": needs, "resources": array.placement.resources}))
            tasks.append(
                SlurmTask(
                    folder=str(self._folder.root),
                    job=job.name,
                    cache=str(self._cache),
                    attempt=attempt[job.name],
                    restarts=array.placement.restarts,
                    work=self._work,
                )
            )
        # Before a job can start and say that it runs.
        now = time.time()
        submitted = _submitted(self._executor(array, dependency(array.needs, places)), tasks)
        journal = Journal(self._folder.events)
        found = {}
        for job, handle in zip(array.jobs, submitted, strict=True):
            found[job.name] = str(handle.job_id)
            journal.append(
                Event(
                    time=now,
                    job=job.name,
                    state="queued",
                    attempt=attempt[job.name],
                    executor=self.name,
                    place=found[job.name],
                )
            )
        journal.close()
        return found

    def _executor(self, array: JobArray, waits: str | None) -> Submitter:
        """Submitit's executor for one array. Raises UsageError."""
        import submitit

        placement, settings = array.placement, self._settings
        # A short job is not asked to stop before it has begun.
        grace = min(settings.grace_seconds, placement.minutes * 30)
        if self._local:
            local = submitit.LocalExecutor(self._folder.slurm, max_num_timeout=placement.restarts)
            local.update_parameters(timeout_min=placement.minutes, signal_delay_s=grace, setup=list(placement.setup))
            return local
        executor = submitit.SlurmExecutor(
            self._folder.slurm, max_num_timeout=placement.restarts, python=settings.python
        )
        options = placement.options()
        own: dict[str, Any] = {name.replace("-", "_"): options.pop(name) for name in OWN_ARGUMENTS if name in options}
        executor.update_parameters(
            **own,
            job_name=f"bench-{self._folder.root.name}",
            signal_delay_s=grace,
            setup=list(placement.setup),
            dependency=waits,
            array_parallelism=settings.max_parallel or len(array.jobs),
            additional_parameters=options,
            # From Slurm 22.05 on a step does not take over how many cores its job has.
            srun_args=[f"--cpus-per-task={placement.resources.cores}"],
        )
        return executor


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


def _test(job: Job, placement: Placement) -> None:
    """Ask Slurm whether it would take such a job. Raises UsageError in its words."""
    options = [f"--{name}" if value is True else f"--{name}={value}" for name, value in placement.options().items()]
    command = ["sbatch", "--test-only", *options, "--wrap", "true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise BenchError(f"Slurm does not answer: {fault}", where="sbatch --test-only") from fault
    if done.returncode == 0:
        return
    words = [line.split("error: ", 1)[-1] for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    raise UsageError(
        f"Slurm refuses the job {job.name!r}: {'; '.join(words) or f'sbatch ended with {done.returncode}'}",
        where=" ".join(options),
        hint="change its resources in the grid file, or partition, account and overrides in the file of --slurm",
    )
