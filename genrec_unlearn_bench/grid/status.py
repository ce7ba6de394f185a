"""The status of a sweep: counts, what runs and since when, what failed, and the time left.

Read from the sweep's folder alone, so that any terminal of any machine that sees the folder can ask.
"""

from __future__ import annotations

import platform
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, Literal

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.grid.schedule import RESULT
from genrec_unlearn_bench.grid.state import SILENCE, JobState, State, SweepFolder, tail
from genrec_unlearn_bench.registry import REFERENCE_ROWS

Axis = Literal["backbone", "task", "method", "stage"]

STATES: tuple[State, ...] = ("queued", "running", "done", "failed", "skipped", "lost")


class RunningJob(StrictModel):
    """A job that runs."""

    job: str
    stage: str
    host: str
    place: str
    """A scheduler's own name for it; empty without one."""
    executor: str
    attempt: int
    seconds: float
    """Since the attempt began."""
    late: str = ""
    """Why it may not run any more; empty where it does."""


class FailedJob(StrictModel):
    """A job that ended otherwise than done."""

    job: str
    state: State
    attempt: int
    error: str
    log: str
    tail: tuple[str, ...] = ()
    """Last lines of its log, where they were asked for."""


class SweepStatus(StrictModel):
    """A sweep at one moment."""

    grid: str
    folder: str
    results: str = ""
    """Folder of the results; empty where it is unknown."""
    command: str = ""
    """The call that continues it."""
    last: float | None = None
    """When a state was last written, in seconds since the epoch."""
    counts: dict[State, int]
    groups: dict[str, dict[State, int]]
    """The same by value of an axis."""
    cells: int
    """Cells of the grid that can be run, those that were done before included."""
    ready: int
    """Of those, how many are done."""
    running: tuple[RunningJob, ...]
    failed: tuple[FailedJob, ...]
    queued: tuple[str, ...] = Field(default=(), exclude=True)
    """Names of the jobs that have not begun."""
    seconds_left: float | None = None
    """Wall-clock until the rest is done, as many at a time as now; None where nothing runs or nothing is known."""
    waits: bool = False
    """Whether jobs wait in a scheduler's queue, or for a sweep that lives."""

    @property
    def moves(self) -> bool:
        """Whether anything is still going to happen, as far as can be seen from here."""
        return any(not job.late for job in self.running) or self.waits


def sweep_status(
    folder: SweepFolder, *, by: Axis = "backbone", tails: int = 0, now: float | None = None
) -> SweepStatus:
    """The sweep as it stands. Of one folder's object, a later call reads only the states that have changed.

    Args:
        by: The axis by which jobs are counted.
        tails: Lines of a failed job's log.
        now: Seconds since the epoch; None takes the clock's.
    """
    now = time.time() if now is None else now
    facts, listed, states = folder.facts(), folder.jobs(), folder.states()
    counts: Counter[State] = Counter()
    groups: dict[str, Counter[State]] = defaultdict(Counter)
    running, failed, queued, waits = [], [], [], False
    for job in listed:
        state = states.get(job["name"])
        shown = _shown(state, facts.started if facts else 0.0)
        if state is not None and shown == "running":
            running.append(_running(state, now))
        elif state is not None and shown in ("failed", "skipped", "lost"):
            failed.append(_failed(folder, state, shown, tails))
        elif shown == "queued":
            queued.append(job["name"])
            waits = waits or (state is not None and state.owned)
        counts[shown] += 1
        groups[_group(job, by)][shown] += 1
    known = {job["name"]: states[job["name"]] for job in listed if job["name"] in states}
    cells = [job["name"] for job in listed if job["until"] == RESULT]
    ready = sum(name in known and known[name].state == "done" for name in cells)
    done = facts.done if facts else 0
    return SweepStatus(
        grid=facts.grid if facts else folder.root.name,
        folder=str(folder.root),
        results=facts.results_dir if facts else "",
        command=facts.command if facts else "",
        last=max((state.updated for state in known.values()), default=None),
        counts={name: counts[name] for name in STATES},
        groups={name: {state: found[state] for state in STATES} for name, found in sorted(groups.items())},
        cells=max(facts.cells if facts else 0, len(cells) + done),
        ready=ready + done,
        running=tuple(sorted(running, key=lambda one: -one.seconds)),
        failed=tuple(failed),
        queued=tuple(queued),
        seconds_left=_seconds_left(listed, known, now),
        waits=waits,
    )


def _seconds_left(listed: Iterable[Mapping[str, Any]], states: Mapping[str, JobState], now: float) -> float | None:
    """Seconds of wall-clock until all jobs are done, if as many run at a time as now; None where that is unknown.

    A job takes the median of finished jobs of its kind, else its estimate.
    """
    at_a_time = sum(state.state == "running" for state in states.values())
    took, waiting = defaultdict(list), []
    for job in listed:
        state = states.get(job["name"])
        if state is None or state.state in ("queued", "running"):
            waiting.append((job, state))
        elif state.state == "done" and state.seconds is not None:
            took[_kind(job)].append(state.seconds)
    left = 0.0
    for job, state in waiting:
        alike = took[_kind(job)]
        whole = median(alike) if alike else job.get("seconds")
        if whole is None:
            return None
        began = state.started if state is not None and state.state == "running" else None
        left += max(0.0, whole - (now - began if began is not None else 0.0))
    return left / at_a_time if at_a_time else None


def _kind(job: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Jobs that take about as long. A reference row is ready in a moment, and no measure of a method."""
    request = job["request"]
    return job["until"], request["backbone"], request["method"] in REFERENCE_ROWS and job["until"] == RESULT


def _shown(state: JobState | None, started: float) -> State:
    """The state of a job in the sweep that started then: what an earlier one left behind is tried again."""
    if state is None:
        return "queued"
    if state.state == "running" and state.host == platform.node() and not state.place and not state.process_alive:
        return "lost"
    if state.state in ("failed", "skipped", "lost") and state.updated < started:
        return "queued"
    return state.state


def _group(job: Mapping[str, Any], by: Axis) -> str:
    if by == "stage":
        return str(job["until"])
    # A shared stage has the request of any one of the cells that share it.
    return str(job["request"][by]) if by != "method" or job["until"] == RESULT else "(shared stages)"


def _running(state: JobState, now: float) -> RunningJob:
    silent = now - state.updated
    return RunningJob(
        **state.model_dump(include={"job", "stage", "host", "place", "executor"}),
        attempt=state.attempts,
        seconds=max(0.0, now - (state.started or state.updated)),
        late=f"silent for {silent:.0f} s" if silent > SILENCE else "",
    )


def _failed(folder: SweepFolder, state: JobState, shown: State, tails: int) -> FailedJob:
    log = folder.log(state.job)
    return FailedJob(
        job=state.job,
        state=shown,
        attempt=state.attempts,
        error=state.error or ("its process is gone" if shown == "lost" else ""),
        log=str(log),
        tail=tuple(tail(log, tails)) if tails and shown != "skipped" else (),
    )
