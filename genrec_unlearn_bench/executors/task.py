"""Runs one job in this process; every executor ends in ``perform``, Slurm's jobs through ``SlurmTask``.

``python -m genrec_unlearn_bench.executors.task ASSIGNMENT.json`` is one of the processes that accelerate starts for a
job of several GPUs: the first keeps log, state and result, the others compute along.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError, DataFault, OutOfMemory, ProtocolMismatch, StorageError, UsageError
from genrec_unlearn_bench.executors.job_progress import JobProgress, tensorboard
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.grid.spec import RESULT, Job
from genrec_unlearn_bench.grid.state import OPTION, STOPPED, JobState, State, SweepFolder
from genrec_unlearn_bench.pipeline.error_mapping import is_out_of_memory, to_user_error
from genrec_unlearn_bench.pipeline.stage import Stage, StageContext, materialise, topological
from genrec_unlearn_bench.progress import Progress, launched, process_index
from genrec_unlearn_bench.registry import imported
from genrec_unlearn_bench.store.store import StageStore

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

HEARTBEAT = 10.0
"""Seconds between two signs of life, which also say how far the job has come."""
REQUEUED = (-1, 144)
"""Exit codes with which submitit ends a job that is preempted or at its time limit, once it is queued again."""
PATIENCE = 60.0
"""Seconds that launched processes have to end once they were asked to; also those for which a state that another node
wrote may not be seen yet, as NFS caches folders for up to a minute."""
LOOK = 2.0


class Assignment(StrictModel):
    """A job and where it is run."""

    job: Job
    folder: Path
    """Root of the sweep's folder."""
    place: str = ""
    """Slurm's own name for the attempt."""
    work: str = ""
    """``module:function`` that does the job, in place of ``run_job``."""

    def state(self, state: State, **fields: Any) -> JobState:
        """The state of the job, written by this process now."""
        attempts = {"attempts": SweepFolder(self.folder).attempts(self.job.name)}
        return JobState.now(self.job.name, state, place=self.place, **{**attempts, **fields})


@dataclass(frozen=True)
class WorkResult:
    """What a job came to: the result's folder, for a cell, and whether it diverged."""

    folder: Path | None = None
    diverged: bool = False


def run_job(job: Job, store: StageStore, progress: Progress) -> WorkResult:
    """Compute a cell's result or a shared stage; what is in the store is taken from there."""
    # Heavy: the first sign of life is written before these are imported.
    from genrec_unlearn_bench.pipeline.environment import determinism
    from genrec_unlearn_bench.pipeline.graph import build_result
    from genrec_unlearn_bench.pipeline.resolve import resolve
    from genrec_unlearn_bench.pipeline.run import run_cell

    if job.until == RESULT:
        finished = run_cell(job.request, store, progress)
        return WorkResult(finished.folder, finished.record.diverged)
    resolved = resolve(job.request)
    with determinism(resolved.threads):
        stages = topological([build_result(resolved)])
        make_stage(job, stages, StageContext(store, progress, device=resolved.device))
    return WorkResult()


def make_stage(job: Job, stages: Iterable[Stage], context: StageContext) -> None:
    """Make the stage of a job by its key. Raises UsageError where it is no longer part of the cell."""
    stage = next((stage for stage in stages if stage.key == job.key), None)
    if stage is None:
        raise UsageError(
            f"the stage {job.until!r} is no longer made this way: data, code or configuration have changed",
            where=job.name,
            hint="start the sweep again, which plans anew",
        )
    materialise(stage, context)


def perform(given: Assignment) -> JobState:
    """Do a job, keep its log and state, and return how it ended; the job's faults are returned, not raised."""
    job = given.job
    if job.resources.gpus > 1 and launched() == 1:
        return _launch(given)
    began, first = time.time(), process_index() == 0
    folder = SweepFolder(given.folder)
    log = folder.log(job.name)
    progress = JobProgress(log if first else log.with_name(f"{log.stem}.process{process_index()}.log"))
    store = StageStore(folder.cache, progress)
    leaving: SystemExit | None = None
    try:
        attempt = folder.attempts(job.name) + 1
        progress.info(f"attempt {attempt} on {platform.node()}: {job.until} of {job.request.command()}")
        if first:
            folder.write(given.state("running", started=began, attempts=attempt))
        with _heartbeat(given if first else None, folder, progress, began):
            result = _work(given, folder, progress, store)
        fields: dict[str, Any] = {
            "how": "done",
            "key": job.key,
            "result": str(result.folder or ""),
            "diverged": result.diverged,
        }
    except (Exception, SystemExit, KeyboardInterrupt) as fault:
        fields = _failed(fault, progress)
        leaving = fault if isinstance(fault, SystemExit) and fault.code in REQUEUED else None
    state: State = "queued" if leaving else "lost" if fields["how"] == "stopped" else fields["how"]
    ended = given.state(
        state, started=began, seconds=time.time() - began, quarantined=tuple(store.quarantined), **fields
    )
    # Where the disk is full these two cannot be written either, and the return value says so.
    with suppress(StorageError, OSError):
        progress.info(f"{ended.how} after {ended.seconds:.1f} s {ended.result}")
    with suppress(StorageError, OSError):
        if first:
            folder.write(ended)
    if leaving is not None:
        raise leaving
    return ended


def _work(given: Assignment, folder: SweepFolder, progress: Progress, store: StageStore) -> WorkResult:
    job, board = given.job, folder.facts().tensorboard
    followed = tensorboard(progress, Path(board) if board else None, job.name)
    # Sums depend on the number of threads in their last bits, so it is the same under every executor.
    threads = job.request.threads or job.resources.cores
    own = job.model_copy(update={"request": job.request.model_copy(update={"threads": threads})})
    work = imported(given.work) if given.work else run_job
    with followed as reporting:
        result: WorkResult = work(own, store, reporting)
    return result


def _failed(fault: BaseException, progress: Progress) -> dict[str, Any]:
    """How an attempt ended by an exception."""
    if isinstance(fault, KeyboardInterrupt) or (isinstance(fault, SystemExit) and fault.code in REQUEUED):
        return {"how": "stopped", "error": STOPPED}
    if isinstance(fault, SystemExit):
        error = BenchError(f"the job's code ended its process (exit code {fault.code})", hint="it must return or raise")
    elif type(fault).__name__ == "UncompletedJobError":
        # Submitit's word for a job at its time limit that may not be queued again.
        error = BenchError(f"its time was over: {fault}", hint="raise `minutes` for it, in the grid file or for Slurm")
    else:
        error = to_user_error(fault) if isinstance(fault, Exception) else BenchError(repr(fault))
    with suppress(StorageError, OSError):
        progress.info(f"error: {error.render()}\n{''.join(traceback.format_exception(fault))}")
    storage = isinstance(error, StorageError)
    return {"how": "failed", "error": error.render(), "transient": is_transient(fault), "storage": storage}


@contextmanager
def _heartbeat(given: Assignment | None, folder: SweepFolder, progress: JobProgress, began: float) -> Iterator[None]:
    """Write the job's state again and again while it runs; with None, nothing."""
    over = threading.Event()

    def beat() -> None:
        while given is not None and not over.wait(HEARTBEAT):
            # A full disk is reported by the job itself.
            with suppress(StorageError, OSError):
                folder.write(given.state("running", started=began, stage=progress.position))

    thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


_PASSING = re.compile(
    "connection|timeout|timed out|stale file handle|input/output error|temporarily unavailable|network is|no route to"
    "|launch failure|uncorrectable ecc|hardware error|fallen off the bus|busy or unavailable",
    re.IGNORECASE,
)
"""How networks, file servers and CUDA's devices report faults of their own, in a fault's type or text. (An illegal
address in a kernel is a fault of the code.)"""


def is_transient(fault: BaseException) -> bool:
    """Whether another attempt may not meet a fault: a network that hiccups, a file server that restarts, a GPU that
    fell over, by the fault itself and its causes. Anything else would come back and is not tried again."""
    if isinstance(fault, UsageError | DataFault | OutOfMemory | ProtocolMismatch) or is_out_of_memory(fault):
        return False
    text = f": {fault}" if isinstance(fault, OSError | RuntimeError) else ""
    if _PASSING.search(f"{type(fault).__name__}{text}"):
        return True
    cause = fault.__cause__ or (None if fault.__suppress_context__ else fault.__context__)
    return cause is not None and is_transient(cause)


@dataclass(frozen=True)
class SlurmTask:
    """One job as it is submitted: an ``Assignment`` as JSON, which submitit pickles."""

    assignment: str

    def __call__(self) -> None:
        """Do the job. Ends the process with 1 where it is not done, so that Slurm's own tools show it too."""
        from submitit import JobEnvironment

        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        given = Assignment.model_validate_json(self.assignment)
        given = given.model_copy(update={"place": str(JobEnvironment().job_id)})
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

        return DelayedSubmission(self)


def _failed_need(job: Job, folder: SweepFolder) -> str:
    """Why the job cannot be done, by the states of what it waited for; empty where it can."""
    until = time.monotonic() + PATIENCE
    while True:
        states = {need: state for need in job.needs if (state := folder.state(need)) is not None}
        for need, state in states.items():
            if state.state in ("failed", "lost", "skipped"):
                return f"needs {need!r}, which was not done: {state.reason}"
        silent = [need for need, state in states.items() if state.state in ("queued", "running")]
        if not silent:
            return ""
        if time.monotonic() > until:
            return f"needs {silent[0]!r}, which ended without a word (see `bench grid status`)"
        time.sleep(LOOK)


def launch_command(given: Assignment, path: Path) -> list[str]:
    """The call of ``accelerate launch`` that does the job of the file ``path`` in as many processes as it has GPUs."""
    resources_ = given.job.resources
    processes = max(1, resources_.gpus)
    # Read by accelerate from a path: the package is never run from an archive.
    config = resources.files(__package__) / ("fsdp.yaml" if resources_.fsdp else "multi_gpu.yaml")
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(config)]
    # Any free port, so that several jobs may be launched on one machine.
    launcher += ["--num_processes", str(processes), "--main_process_port", "0"]
    launcher += ["--num_cpu_threads_per_process", str(max(1, resources_.cores // processes))]
    return [*launcher, "--module", __spec__.name if __spec__ else __name__, str(path)]


def _launch(given: Assignment) -> JobState:
    """Do a job with several processes and wait for them; an interrupt stops them politely. Raises StorageError."""
    began, folder = time.time(), SweepFolder(given.folder)
    path = given.folder / "launched" / folder.state_file(given.job.name).name
    atomic_text(path, given.model_dump_json(), OPTION)
    launcher = subprocess.Popen(launch_command(given, path), start_new_session=True)  # noqa: S603
    try:
        code = launcher.wait()
    except (KeyboardInterrupt, SystemExit) as fault:
        launcher.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            launcher.wait(PATIENCE)
        launcher.kill()
        if isinstance(fault, SystemExit):
            folder.write(given.state("queued"))
            raise
        return given.state("lost", how="stopped", seconds=time.time() - began, error=STOPPED)
    ended = folder.state(given.job.name)
    if ended is None or not ended.ends(began):
        processes = given.job.resources.gpus
        error = f"one of the job's {processes} processes ended with {code} before the first could report"
        ended = given.state("lost", how="died", seconds=time.time() - began, error=error)
        folder.write(ended)
    return ended


def interruptible() -> None:
    """Turn SIGTERM into KeyboardInterrupt, so that drafts are removed and the state is written."""

    def interrupt(*_: object) -> None:
        # Once: a second one would cut short what the first has started.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def leave(code: int) -> NoReturn:
    """End the process without the interpreter's end, where a library's threads may hang; everything is written."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    interruptible()
    given_ = Assignment.model_validate_json(Path(sys.argv[1]).read_bytes())
    leave(0 if perform(given_).how == "done" else 1)
