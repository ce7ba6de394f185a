"""Performs one job in this process, whichever executor brought it here: every executor ends in ``perform``.

What the job says goes into its log, that it lives into the sweep's events, and what came of it into both.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench import launch
from genrec_unlearn_bench.errors import BenchError, StorageError
from genrec_unlearn_bench.executors.executor import Ended
from genrec_unlearn_bench.executors.job_progress import JobProgress, WatchedStore
from genrec_unlearn_bench.executors.trackers import tracked
from genrec_unlearn_bench.executors.transient import is_transient
from genrec_unlearn_bench.grid.event import Event, State
from genrec_unlearn_bench.grid.journal import Journal
from genrec_unlearn_bench.grid.log import JobLog
from genrec_unlearn_bench.grid.sweep_facts import read_facts
from genrec_unlearn_bench.pipeline.error_mapping import to_user_error
from genrec_unlearn_bench.pipeline.shelf import Shelf

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.job import Job
    from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["STOPPED", "Work", "perform", "threads_of"]

Work = Callable[["Job", "StageStore", "Progress", Shelf | None], Any]
"""What a job is done by: ``runs.grid.work.do``, or something lighter in tests. What it returns has a ``folder`` where
the job ended in a result."""

HEARTBEAT = 20.0
"""Seconds between two signs of life; a stage that has begun is told within ``LOOK``."""
LOOK = 5.0

STOPPED = "stopped before it was done; finished stages are kept"


def perform(
    job: Job,
    folder: SweepFolder,
    cache: Path,
    *,
    attempt: int,
    executor: str,
    place: str = "",
    shelf: Shelf | None = None,
    work: Work | None = None,
) -> Ended:
    """Do a job, tell of it, and say how it ended. Raises nothing for what is the job's own fault.

    Args:
        attempt: Counts from 1.
        place: A scheduler's own name for the attempt.
        shelf: What earlier jobs of this process left in memory; None where the job is to stand alone.
    """
    began = time.perf_counter()
    # Of several processes that compute one job together, the first speaks for all.
    number = launch.place()
    journal = Journal(folder.events) if number == 0 else None
    path = folder.log(job.name)
    log = JobLog(path if number == 0 else path.with_name(f"{path.stem}.process{number}{path.suffix}"), attempt)
    teller = _Teller(
        journal, Event(time=0.0, job=job.name, state="running", attempt=attempt, executor=executor, place=place)
    )
    try:
        ended = _attempt(job, folder, cache, log, teller, shelf, work)
    except KeyboardInterrupt:
        ended = Ended(job.name, "stopped", 0.0, error=STOPPED)
    except (Exception, SystemExit) as fault:
        ended = _failed(job, fault, log)
    ended = Ended(**{**vars(ended), "seconds": time.perf_counter() - began})
    # Where the disk is full these two cannot be written either, and what was returned says so.
    with suppress(StorageError, OSError):
        log.write("end", f"{ended.how} after {ended.seconds:.1f} s {ended.result}".rstrip())
    with suppress(StorageError, OSError):
        teller.end(ended)
    log.close()
    if journal is not None:
        journal.close()
    return ended


def threads_of(job: Job) -> int:
    """CPU threads of a job. They are the same under every executor, as sums depend on them in their last bits."""
    return job.request.threads or job.resources.cores


def _attempt(
    job: Job,
    folder: SweepFolder,
    cache: Path,
    log: JobLog,
    teller: _Teller,
    shelf: Shelf | None,
    work: Work | None,
) -> Ended:
    log.write("begin", f"attempt {log.attempt}, {job.until} of {job.request.command()}")
    progress = JobProgress(log)
    teller.tell("running")
    with _heartbeat(teller, progress), _warnings_into(log):
        work = work or _work()
        threads = threads_of(job)
        facts = read_facts(folder)
        with _threads(threads), tracked(progress, facts.tracking if facts else None, job.name) as told:
            own = job.model_copy(update={"request": job.request.model_copy(update={"threads": threads})})
            finished = work(own, WatchedStore(cache, progress, log), told, shelf)
    return Ended(job.name, "done", 0.0, result=str(finished.folder) if finished is not None else "")


def _work() -> Work:
    # Heavy: the first sign of life is out before it is imported.
    from genrec_unlearn_bench.grid.work import do

    return do


def _failed(job: Job, fault: BaseException, log: JobLog) -> Ended:
    if isinstance(fault, SystemExit):
        told = BenchError(f"the job's code ended its process (exit code {fault.code})", hint="it must return or raise")
    else:
        told = to_user_error(fault) if isinstance(fault, Exception) else BenchError(repr(fault))
    with suppress(StorageError, OSError):
        log.write("error", f"{told.render()}\n{''.join(traceback.format_exception(fault)).rstrip()}")
    return Ended(
        job.name,
        "failed",
        0.0,
        error=told.render(),
        transient=is_transient(fault),
        storage=isinstance(told, StorageError),
    )


class _Teller:
    """Writes a job's events, each like the first but for what changed."""

    def __init__(self, journal: Journal | None, event: Event) -> None:
        self._journal = journal
        self._event = event

    def tell(self, state: State, **changes: Any) -> None:
        if self._journal is not None:
            self._journal.append(self._event.model_copy(update={"time": time.time(), "state": state, **changes}))

    def end(self, ended: Ended) -> None:
        states: dict[str, State] = {"done": "done", "failed": "failed"}
        self.tell(
            states.get(ended.how, "lost"),
            seconds=ended.seconds,
            result=ended.result,
            error=ended.error,
            transient=ended.transient,
        )


@contextmanager
def _heartbeat(teller: _Teller, progress: JobProgress) -> Iterator[None]:
    over = threading.Event()

    def beat() -> None:
        told, stage = time.monotonic(), ""
        while not over.wait(LOOK):
            standing = progress.standing
            current = standing.partition(" · ")[0]
            if current != stage or time.monotonic() - told >= HEARTBEAT:
                told, stage = time.monotonic(), current
                # A full disk is told by the job itself.
                with suppress(StorageError, OSError):
                    teller.tell("alive", stage=standing)

    thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _warnings_into(log: JobLog) -> Iterator[None]:
    """Python's warnings go into the log and not to a terminal that several jobs share."""
    with warnings.catch_warnings():

        def write(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
            with suppress(StorageError, OSError):
                log.write("warning", f"{category.__name__}: {message} ({Path(filename).name}:{lineno})")

        warnings.showwarning = write  # type: ignore[assignment]
        yield


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """As many threads for BLAS and OpenMP, also of libraries that torch knows nothing of."""
    from threadpoolctl import threadpool_limits

    if "torch" in sys.modules:
        # Brings its own OpenMP, which counts only once it is loaded.
        import sklearn.utils  # noqa: F401
    with threadpool_limits(limits=count):
        yield
