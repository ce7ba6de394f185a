"""The status of a sweep: counts, what runs and since when, what failed, and the time left.

Read from the sweep's folder alone, so that any terminal of any machine that sees the folder can ask.
"""

from __future__ import annotations

import platform
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, Literal, get_args

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.grid.spec import RESULT
from genrec_unlearn_bench.grid.state import SILENCE, JobState, State, SweepFolder, tail
from genrec_unlearn_bench.registry import REFERENCE_ROWS

Axis = Literal["backbone", "task", "method", "stage"]

STATES: tuple[State, ...] = get_args(State)


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

    Jobs are counted by an axis; of a failed job's log, ``tails`` lines are read; ``now`` defaults to the clock's time.
    """
    now = time.time() if now is None else now
    facts, listed = folder.facts(), folder.jobs()
    states = folder.states()
    known = {job["name"]: states[job["name"]] for job in listed if job["name"] in states}
    shown = {job["name"]: _shown(known.get(job["name"]), facts.started) for job in listed}
    groups: dict[str, Counter[State]] = defaultdict(Counter)
    for job in listed:
        groups[_group(job, by)][shown[job["name"]]] += 1
    counts = Counter(shown.values())
    queued = [name for name, state in shown.items() if state == "queued"]
    cells = [job["name"] for job in listed if job["until"] == RESULT]
    running = [_running(state, now) for name, state in known.items() if shown[name] == "running"]
    return SweepStatus(
        grid=facts.grid,
        folder=str(folder.root),
        results=facts.results_dir,
        command=facts.command,
        last=max((state.updated for state in known.values()), default=None),
        counts={name: counts[name] for name in STATES},
        groups={name: {state: found[state] for state in STATES} for name, found in sorted(groups.items())},
        cells=max(facts.cells, len(cells) + facts.done),
        ready=sum(name in known and known[name].state == "done" for name in cells) + facts.done,
        running=tuple(sorted(running, key=lambda one: -one.seconds)),
        failed=tuple(
            _failed(folder, state, shown[name], tails)
            for name, state in known.items()
            if shown[name] in ("failed", "skipped", "lost")
        ),
        queued=tuple(queued),
        seconds_left=_seconds_left(listed, known, now),
        waits=any(name in known and known[name].owned for name in queued),
    )


def _seconds_left(listed: Iterable[Mapping[str, Any]], states: Mapping[str, JobState], now: float) -> float | None:
    """Seconds of wall-clock until all jobs are done, if as many run at a time as now; None where that is unknown.

    A job takes the median of finished jobs of its kind (stage, backbone), else its estimate. A reference row is ready
    in a moment, and no measure of a method.
    """
    took: dict[Any, list[float]] = defaultdict(list)
    waiting = []
    for job in listed:
        state, request = states.get(job["name"]), job["request"]
        kind = (job["until"], request["backbone"], request["method"] in REFERENCE_ROWS and job["until"] == RESULT)
        if state is None or state.state in ("queued", "running"):
            began = state.started if state is not None and state.state == "running" else None
            waiting.append((kind, job.get("seconds"), now - (began or now)))
        elif state.state == "done" and state.seconds is not None:
            took[kind].append(state.seconds)
    left = 0.0
    for kind, estimate, elapsed in waiting:
        whole = median(took[kind]) if took[kind] else estimate
        if whole is None:
            return None
        left += max(0.0, whole - elapsed)
    at_a_time = sum(state.state == "running" for state in states.values())
    return left / at_a_time if at_a_time else None


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
    error = state.error or ("its process is gone" if shown == "lost" else "")
    end = tuple(tail(log, tails)) if tails and shown != "skipped" else ()
    return FailedJob(job=state.job, state=shown, attempt=state.attempts, error=error, log=str(log), tail=end)
