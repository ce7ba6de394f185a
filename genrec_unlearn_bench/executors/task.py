"""Runs one job in this process; every executor ends in ``perform``.

``python -m genrec_unlearn_bench.executors.task ASSIGNMENT.json`` is one of the processes that accelerate starts for a
job of several GPUs: the first keeps log, state and result, the others compute along.
"""

from __future__ import annotations

import errno
import importlib
import os
import platform
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
from types import FrameType
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench import launch
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError, DataFault, OutOfMemory, ProtocolMismatch, StorageError, UsageError
from genrec_unlearn_bench.executors.base import STOPPED
from genrec_unlearn_bench.executors.trackers import JobLog, JobProgress, Tracking, tracked
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.grid.schedule import RESULT, Job
from genrec_unlearn_bench.grid.state import OPTION, JobState, State, SweepFolder
from genrec_unlearn_bench.pipeline.error_mapping import is_out_of_memory, to_user_error
from genrec_unlearn_bench.pipeline.stage import StageContext, materialise, topological
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.stage import Stage

HEARTBEAT = 20.0
"""Seconds between two signs of life; a stage that has begun is reported within ``LOOK``."""
LOOK = 5.0
REQUEUED = (-1, 144)
"""Exit codes with which submitit ends a job that is preempted or at its time limit, once it is queued again."""
PATIENCE = 60.0
"""Seconds that launched processes have to end once they were asked to."""


class Assignment(StrictModel):
    """A job and where it is run."""

    job: Job
    folder: Path
    """Root of the sweep's folder."""
    cache: Path
    attempt: int = 1
    executor: str
    place: str = ""
    """A scheduler's own name for the attempt."""
    work: str = ""
    """``module:function`` that does the job, in place of ``run_job``."""

    def state(self, state: State, **fields: Any) -> JobState:
        """The state of the job, written by this process now."""
        return JobState.now(self.job.name, state, self.executor, attempts=self.attempt, place=self.place, **fields)


@dataclass(frozen=True)
class WorkResult:
    """What a job came to: the result's folder, for a cell, and whether it diverged."""

    folder: Path | None = None
    diverged: bool = False


def run_job(job: Job, store: StageStore, progress: Progress) -> WorkResult:
    """Compute a cell's result or shared stages; what is in the store is taken from there."""
    # Heavy: the first sign of life is written before these are imported.
    from genrec_unlearn_bench.pipeline.environment import determinism
    from genrec_unlearn_bench.pipeline.graph import build_result
    from genrec_unlearn_bench.pipeline.resolve import resolve
    from genrec_unlearn_bench.pipeline.run import run_cell

    if job.until == RESULT:
        finished = run_cell(job.request, store, progress)
        return WorkResult(finished.folder, finished.record.diverged)
    resolved = resolve(job.request)
    context = StageContext(store, progress, device=resolved.device)
    with determinism(resolved.threads):
        make_stages(job, topological([build_result(resolved)]), context)
    return WorkResult()


def make_stages(job: Job, stages: Iterable[Stage], context: StageContext) -> None:
    """Make the stages of a job by their keys. Raises UsageError where one is no longer part of the cell."""
    by_key = {stage.key: stage for stage in stages}
    for key in job.keys:
        if key not in by_key:
            raise UsageError(
                f"the stage {job.until!r} is no longer made this way: data, code or configuration have changed",
                where=job.name,
                hint="start the sweep again, which plans anew",
            )
        materialise(by_key[key], context)


def perform(given: Assignment) -> JobState:
    """Do a job, keep its log and state, and return how it ended; the job's faults are returned, not raised.

    A job of several GPUs is started in as many processes.
    """
    job = given.job
    if job.resources.gpus > 1 and launch.launched() == 1:
        return _launch(given)
    began, first = time.time(), launch.place() == 0
    folder = SweepFolder(given.folder)
    path = folder.log(job.name)
    log = JobLog(path if first else path.with_name(f"{path.stem}.process{launch.place()}.log"))
    progress = JobProgress(log)
    store = StageStore(given.cache, progress)
    leaving: SystemExit | None = None
    try:
        log.write(f"attempt {given.attempt} on {platform.node()}: {job.until} of {job.request.command()}")
        if first:
            folder.write(given.state("running", started=began))
        with _heartbeat(given if first else None, folder, progress, began):
            result = _work(given, folder, progress, store)
        place = str(result.folder) if result.folder is not None else ""
        fields: dict[str, Any] = {"how": "done", "result": place, "diverged": result.diverged}
    except (Exception, SystemExit, KeyboardInterrupt) as fault:
        fields = _failed(fault, log)
        leaving = fault if isinstance(fault, SystemExit) and fault.code in REQUEUED else None
    damaged = tuple(f"the stored stage {one.name!r} was damaged ({one.what})" for one in store.quarantined)
    state: State = "queued" if leaving else "lost" if fields["how"] == "stopped" else fields["how"]
    ended = given.state(state, started=began, seconds=time.time() - began, quarantined=damaged, **fields)
    # Where the disk is full these two cannot be written either, and the return value says so.
    with suppress(StorageError, OSError):
        log.write(f"{ended.how} after {ended.seconds:.1f} s {ended.result}")
    with suppress(StorageError, OSError):
        if first:
            folder.write(ended)
    if leaving is not None:
        raise leaving
    return ended


def _work(given: Assignment, folder: SweepFolder, progress: Progress, store: StageStore) -> WorkResult:
    job = given.job
    facts = folder.facts()
    tracking = Tracking(names=facts.trackers, folder=facts.tracker_dir) if facts and facts.trackers else None
    # Sums depend on the number of threads in their last bits, so it is the same under every executor.
    threads = job.request.threads or job.resources.cores
    own = job.model_copy(update={"request": job.request.model_copy(update={"threads": threads})})
    module, _, name = given.work.partition(":")
    work = getattr(importlib.import_module(module), name) if module else run_job
    with _thread_limit(threads), tracked(progress, tracking, job.name) as reporting:
        result: WorkResult = work(own, store, reporting)
    return result


def _failed(fault: BaseException, log: JobLog) -> dict[str, Any]:
    if isinstance(fault, KeyboardInterrupt) or (isinstance(fault, SystemExit) and fault.code in REQUEUED):
        return {"how": "stopped", "error": STOPPED}
    if isinstance(fault, SystemExit):
        error = BenchError(f"the job's code ended its process (exit code {fault.code})", hint="it must return or raise")
    else:
        error = to_user_error(fault) if isinstance(fault, Exception) else BenchError(repr(fault))
    if type(fault).__name__ == "UncompletedJobError":
        # Submitit's word for a job at its time limit that may not be queued again.
        hint = "raise `minutes` for it, in the grid's resources or in the file of --slurm (or `restarts` there)"
        error = BenchError(f"its time was over: {fault}", hint=hint)
    with suppress(StorageError, OSError):
        log.write(f"error: {error.render()}\n{''.join(traceback.format_exception(fault))}")
    storage = isinstance(error, StorageError)
    return {"how": "failed", "error": error.render(), "transient": is_transient(fault), "storage": storage}


@contextmanager
def _heartbeat(given: Assignment | None, folder: SweepFolder, progress: JobProgress, began: float) -> Iterator[None]:
    over = threading.Event()

    def beat() -> None:
        written, stage = time.monotonic(), ""
        while given is not None and not over.wait(LOOK):
            position = progress.position
            current = position.partition(" · ")[0]
            if current != stage or time.monotonic() - written >= HEARTBEAT:
                written, stage = time.monotonic(), current
                # A full disk is reported by the job itself.
                with suppress(StorageError, OSError):
                    folder.write(given.state("running", started=began, stage=position))

    thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _thread_limit(count: int) -> Iterator[None]:
    """As many threads for BLAS and OpenMP, also of libraries that torch does not control."""
    from threadpoolctl import threadpool_limits

    if "torch" in sys.modules:
        # Brings its own OpenMP, which counts only once it is loaded.
        import sklearn.utils  # noqa: F401
    with threadpool_limits(limits=count):
        yield


_CODES = (errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH)
"""Of a file server or a network; refused, reset and timed-out connections have classes of their own."""
_GPU = ("launch failure", "uncorrectable ecc", "hardware error", "fallen off the bus", "busy or unavailable")
"""How CUDA names faults of the device. An illegal address or a failed assertion in a kernel is a fault of the code."""
_NETWORK = frozenset(["ConnectionError", "ConnectTimeout", "ReadTimeout", "Timeout", "ChunkedEncodingError"])
"""Errors of HTTP libraries, which give them no error number."""


def is_transient(fault: BaseException) -> bool:
    """Whether another attempt may not meet a fault: a network that hiccups, a file server that restarts, a GPU that
    fell over, by the fault itself and its causes. Anything else would come back and is not tried again."""
    if isinstance(fault, UsageError | DataFault | OutOfMemory | ProtocolMismatch) or is_out_of_memory(fault):
        return False
    if isinstance(fault, ConnectionError | TimeoutError) or type(fault).__name__ in _NETWORK:
        return True
    if isinstance(fault, OSError) and fault.errno in _CODES:
        return True
    if isinstance(fault, RuntimeError) and any(sign in str(fault).lower() for sign in _GPU):
        return True
    cause = fault.__cause__ or (None if fault.__suppress_context__ else fault.__context__)
    return cause is not None and is_transient(cause)


def launch_command(given: Assignment, path: Path) -> list[str]:
    """The call of ``accelerate launch`` that does a job with as many processes as it has GPUs.

    Args:
        path: File of the assignment, which the processes read.
    """
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
    began = time.time()
    job, folder = given.job, SweepFolder(given.folder)
    path = given.folder / "launched" / folder.state_file(job.name).name
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
    ended = folder.state(job.name)
    if ended is None or not ended.ends(began):
        error = f"one of the job's {job.resources.gpus} processes ended with {code} before the first could report"
        ended = given.state("lost", how="died", seconds=time.time() - began, error=error)
        folder.write(ended)
    return ended


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Once: a second one would cut short what the first has started.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def interruptible() -> None:
    """Turn SIGTERM into KeyboardInterrupt, so that drafts are removed and the state is written."""
    signal.signal(signal.SIGTERM, _interrupt)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    interruptible()
    given_ = Assignment.model_validate_json(Path(sys.argv[1]).read_bytes())
    code_ = 0 if perform(given_).how == "done" else 1
    # Not through the interpreter's end: a library's threads may hang there, and everything is written.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code_)
