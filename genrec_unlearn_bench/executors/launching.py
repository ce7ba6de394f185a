"""Starting a job on several GPUs: the command line of ``accelerate launch``, the same for every executor.

A job of one GPU or none is done in the process that has it. A job of several is done by as many processes, started by
accelerate, of which the first keeps log, events and result (``launched``); the others compute along.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.executors.executor import Ended, How
from genrec_unlearn_bench.executors.worker import STOPPED
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.grid.event import Event, State
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.journal import Journal, latest
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder, file_name

__all__ = ["Assignment", "launch", "launch_command", "stop"]

PATIENCE = 60.0
"""Seconds that processes have to end by themselves once they were asked to."""

_HOW: dict[State, How] = {"done": "done", "failed": "failed", "lost": "stopped"}
"""How an attempt ended, by the last word of its first process."""


class Assignment(StrictModel):
    """A job for processes that are started for it."""

    job: Job
    folder: Path
    """Root of the sweep's folder."""
    cache: Path
    attempt: int = 1
    executor: str
    place: str = ""


def launch_command(assignment: Assignment) -> list[str]:
    """The command line that does a job with as many processes as it has GPUs. Writes the file that they read.

    Any free port is taken, so that several jobs may be launched on one machine.

    Raises StorageError.
    """
    job = assignment.job
    path = assignment.folder / "launched" / f"{file_name(job.name)}.json"
    atomic_text(path, assignment.model_dump_json(), "--cache-dir")
    processes = max(1, job.resources.gpus)
    config = resources.files(__package__) / ("fsdp.yaml" if job.resources.fsdp else "multi_gpu.yaml")
    # Read by accelerate from a path: the package is never run from an archive.
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(config)]
    launcher += ["--num_processes", str(processes), "--main_process_port", "0"]
    launcher += ["--num_cpu_threads_per_process", str(max(1, job.resources.cores // processes))]
    return [*launcher, "--module", "genrec_unlearn_bench.executors.launched", str(path)]


def launch(assignment: Assignment) -> Ended:
    """Do a job with several processes and wait for them; as ``worker.perform``, but for the processes.

    An interrupt (Ctrl-C, or a signal that was made one) stops them politely. Raises StorageError.
    """
    began = time.time()
    job = assignment.job
    launcher = subprocess.Popen(launch_command(assignment), start_new_session=True)  # noqa: S603
    try:
        code = launcher.wait()
    except KeyboardInterrupt:
        stop(launcher)
        return Ended(job.name, "stopped", time.time() - began, error=STOPPED)
    journal = Journal(SweepFolder(assignment.folder).events)
    told = latest(journal.events()).get(job.name)
    seconds = time.time() - began
    how = _HOW.get(told.state) if told is not None and told.time >= began else None
    if told is not None and how is not None:
        return Ended(job.name, how, seconds, result=told.result, error=told.error, transient=told.transient)
    error = f"one of the job's {job.resources.gpus} processes ended with {code} before the first had a word to say"
    journal.append(
        Event(
            time=time.time(),
            job=job.name,
            state="lost",
            attempt=assignment.attempt,
            executor=assignment.executor,
            place=assignment.place,
            seconds=seconds,
            error=error,
        )
    )
    journal.close()
    return Ended(job.name, "died", seconds, error=error)


def stop(launcher: subprocess.Popen[bytes]) -> None:
    """Have launched processes end: politely, and after a while by force."""
    launcher.send_signal(signal.SIGTERM)
    try:
        launcher.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
