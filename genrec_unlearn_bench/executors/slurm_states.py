"""What Slurm says of jobs that have not said a last word themselves: cancelled in the queue, killed, gone with a node.

``sacct`` is asked first, by submitit's own reading of it. Sites without accounting have none; ``squeue`` then knows
what waits, runs, or has ended within minutes.
"""

from __future__ import annotations

import subprocess
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from genrec_unlearn_bench.errors import StorageError
from genrec_unlearn_bench.executors.slurm_task import EXECUTOR
from genrec_unlearn_bench.files import storage_error
from genrec_unlearn_bench.grid.event import Event, State
from genrec_unlearn_bench.grid.journal import Journal, latest
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["SlurmState", "slurm_states", "waiting"]

OPEN = ("queued", "running", "alive", "retried", "lost")
"""Last words after which more may come. One that was stopped politely is lost by its own word, and may yet be queued
again: it does not know whether it was cancelled or preempted."""
GONE = "GONE"
UNKNOWN = "UNKNOWN"
PATIENCE = 120.0
"""Seconds after a job's last word within which an end without another one may only not be seen yet: a job that lives
says so more often, and a network file system shows it within a minute."""

_ENDS: dict[str, tuple[State, bool, str]] = {
    "CANCELLED": ("lost", True, "it was cancelled"),
    "TIMEOUT": ("lost", False, "it was killed at its time limit\n  hint:  raise `minutes` for it"),
    "DEADLINE": ("lost", False, "it could not end before its deadline"),
    "OUT_OF_MEMORY": ("lost", False, "it was killed for using more memory than asked for\n  hint:  raise `memory_mib`"),
    "NODE_FAIL": ("lost", True, "its node failed"),
    "BOOT_FAIL": ("lost", True, "its node did not start"),
    "PREEMPTED": ("lost", True, "another job took its place, and it was not queued again"),
    "REVOKED": ("lost", True, "it was revoked"),
    "FAILED": ("failed", False, "it ended with an error before it could say which"),
    "COMPLETED": ("lost", True, "it ended without a word"),
    GONE: ("lost", True, "it is no longer in the queue, and left no word"),
}

_QUEUED_AGAIN: tuple[State, bool, str] = ("retried", True, "it is queued again")


@dataclass(frozen=True)
class SlurmState:
    """A job of a sweep as Slurm sees it.

    Attributes:
        place: Slurm's job id, ``123`` or ``123_4``.
        state: Slurm's word (PENDING, RUNNING, COMPLETED …); GONE where it has forgotten the job, UNKNOWN where it
            could not be asked.
        reason: Why it waits, where it does (Resources, Dependency, QOSMaxJobsPerUserLimit …).
    """

    place: str
    state: str
    reason: str = ""

    @property
    def waits(self) -> bool:
        """Whether it will go on by itself: queued, running or between the two."""
        return self.state not in _ENDS and self.state != UNKNOWN


def slurm_states(folder: SweepFolder, *, write: bool = True) -> dict[str, SlurmState]:
    """The jobs of a sweep that are in Slurm's hands by their own words, and what Slurm says of them.

    Of those that ended without a last word, one is written for them (``lost``, or ``failed`` with the end of what the
    job wrote to its error output), as far as the folder may be written. Nothing is asked where no job is in Slurm's
    hands, and where Slurm does not answer, states are UNKNOWN.

    Args:
        write: False for a mere look.
    """
    if not folder.slurm.is_dir():
        return {}
    journal = Journal(folder.events)
    open_jobs = _open(journal)
    if not open_jobs:
        return {}
    asked = _ask(sorted({event.place for event in open_jobs.values()}))
    found = {name: asked[event.place] for name, event in open_jobs.items()}
    if write:
        with suppress(StorageError):
            # What was said while Slurm was asked counts.
            for name, event in _open(journal).items():
                if name in found and event.place == found[name].place:
                    _amend(folder, journal, event, found[name].state)
        journal.close()
    # One that has just been cancelled is COMPLETING for a moment, and comes no more.
    return {
        name: state
        for name, state in found.items()
        if open_jobs[name].state != "lost" or (state.waits and state.state != "COMPLETING")
    }


def _open(journal: Journal) -> dict[str, Event]:
    last = latest(journal.events())
    return {
        name: event
        for name, event in last.items()
        if event.executor == EXECUTOR and event.place and event.state in OPEN
    }


def _amend(folder: SweepFolder, journal: Journal, event: Event, state: str) -> None:
    """Write down what Slurm knows and the events do not."""
    if event.state == "lost":
        if state != "PENDING":
            return
        word, transient, error = _QUEUED_AGAIN
    elif state not in _ENDS or (state in ("COMPLETED", GONE) and time.time() - event.time < PATIENCE):
        return
    else:
        word, transient, error = _ENDS[state]
    tail = _tail(folder.slurm / f"{event.place}_0_log.err") if word == "failed" else ""
    journal.append(
        event.model_copy(
            update={
                "time": time.time(),
                "state": word,
                "transient": transient,
                "error": f"Slurm says of the job {event.place}: {error}" + (f"\n{tail}" if tail else ""),
                "host": "",
                "pid": 0,
            }
        )
    )


def _ask(places: Sequence[str]) -> dict[str, SlurmState]:
    """Slurm's states by job id; every id that was asked for has one."""
    try:
        found = _by_sacct(places) or _by_squeue(places)
    except (OSError, subprocess.SubprocessError):
        found = {place: SlurmState(place, UNKNOWN) for place in places}
    return {place: found.get(place, SlurmState(place, GONE)) for place in places}


def _by_sacct(places: Sequence[str]) -> dict[str, SlurmState]:
    """By Slurm's accounting; empty where there is none, or no submitit to read it."""
    command = ["sacct", "-X", "-o", "JobID,State,NodeList", "--parsable2", "-j", ",".join(_bases(places))]
    try:
        from submitit.slurm.slurm import SlurmInfoWatcher

        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    except (ImportError, FileNotFoundError):
        return {}
    if done.returncode != 0:
        return {}
    with warnings.catch_warnings():
        # It warns of ids that it cannot read; those count as not told.
        warnings.simplefilter("ignore", DeprecationWarning)
        told = SlurmInfoWatcher().read_info(done.stdout)
    wanted = set(places)
    return {place: SlurmState(place, _word(row["State"])) for place, row in told.items() if place in wanted}


def _by_squeue(places: Sequence[str]) -> dict[str, SlurmState]:
    """By the queue. Raises CalledProcessError where it cannot be asked."""
    command = [
        "squeue",
        "--noheader",
        "--states=all",
        "--array",
        "--format=%i|%T|%r",
        f"--jobs={','.join(_bases(places))}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    if done.returncode != 0 and "Invalid job id" not in done.stderr:
        done.check_returncode()
    found = {}
    for line in done.stdout.splitlines():
        place, state, reason = line.strip().split("|", 2)
        found[place] = SlurmState(place, _word(state), "" if reason == "None" else reason)
    return found


def _bases(places: Iterable[str]) -> list[str]:
    """One id for a whole array: asking for each of its jobs would take long."""
    return sorted({place.partition("_")[0] for place in places})


def _word(state: str) -> str:
    """``CANCELLED by 1000`` and ``FAILED+`` without what follows."""
    return state.split()[0].rstrip("+") if state else UNKNOWN


def _tail(path: Path, lines: int = 12) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as fault:
        refusal = storage_error(fault, path, "--cache-dir")
        return refusal.what if refusal is not None else ""
    return "\n".join(text.splitlines()[-lines:])


def waiting(states: Mapping[str, SlurmState]) -> dict[str, str]:
    """Slurm's ids of the jobs that will go on by themselves, by name."""
    return {name: state.place for name, state in states.items() if state.waits or state.state == UNKNOWN}
