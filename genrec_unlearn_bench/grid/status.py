"""How a sweep stands, and its results gathered in one folder: at any time, from any machine that sees its folder.

The status is read from the sweep's folder alone. A result is copied whole or not at all, its digests checked on both
sides; what the folder of gathered results holds is never overwritten, and ``collected.json`` beside them names every
cell, with the reason where its result is not there.
"""

from __future__ import annotations

import platform
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

from genrec_unlearn_bench import __version__
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.files import atomic_folder, atomic_text
from genrec_unlearn_bench.grid.plan import PlannedCell
from genrec_unlearn_bench.grid.spec import RESULT
from genrec_unlearn_bench.grid.state import SILENCE, JobState, State, SweepFolder, tail
from genrec_unlearn_bench.pipeline.results import read_record, result_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import REFERENCE_ROWS

FILE = "collected.json"
OPTION = "--out"


class RunningJob(StrictModel):
    """A job that runs."""

    job: str
    stage: str
    host: str
    place: str
    """Slurm's own name for it; empty elsewhere."""
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
    """Last lines of its log."""


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
    cells: int
    """Cells of the grid that can be run, those that were done before included."""
    ready: int
    """Of those, how many are done."""
    running: tuple[RunningJob, ...]
    failed: tuple[FailedJob, ...]
    seconds_left: float | None = None
    """Wall-clock until the rest is done, as many at a time as now; None where nothing runs or nothing is known."""
    moves: bool
    """Whether anything is still going to happen, as far as can be seen from here."""


def sweep_status(
    folder: SweepFolder, *, jobs: Sequence[Mapping[str, Any]] | None = None, now: float | None = None
) -> SweepStatus:
    """The sweep as it stands. Of one folder's object, a later call reads only the states that have changed.

    ``jobs``, with at least ``name``, ``until``, ``seconds`` and the request's ``backbone`` and ``method``, are those of
    the latest call where none are given; ``now`` defaults to the clock's time.
    """
    now = time.time() if now is None else now
    facts, states, listed = folder.facts(), folder.states(), folder.jobs() if jobs is None else jobs
    known = {job["name"]: states[job["name"]] for job in listed if job["name"] in states}
    shown = {job["name"]: _shown(known.get(job["name"]), facts.started) for job in listed}
    counts = Counter(shown.values())
    cells = [job["name"] for job in listed if job["until"] == RESULT]
    running = [_running(state, now) for name, state in known.items() if shown[name] == "running"]
    waits = any(shown[name] == "queued" and state.owned for name, state in known.items())
    return SweepStatus(
        grid=folder.root.name,
        folder=str(folder.root),
        results=facts.results_dir,
        command=facts.command,
        last=max((state.updated for state in known.values()), default=None),
        counts={name: counts[name] for name in get_args(State)},
        cells=max(facts.cells, len(cells) + facts.done),
        ready=sum(name in known and known[name].state == "done" for name in cells) + facts.done,
        running=tuple(sorted(running, key=lambda one: -one.seconds)),
        failed=tuple(
            _failed(folder, state, shown[name])
            for name, state in known.items()
            if shown[name] in ("failed", "skipped", "lost")
        ),
        seconds_left=_seconds_left(listed, known, shown, now),
        moves=waits or any(not job.late for job in running),
    )


def _seconds_left(
    listed: Iterable[Mapping[str, Any]], states: Mapping[str, JobState], shown: Mapping[str, State], now: float
) -> float | None:
    """Seconds of wall-clock until all jobs are done, if as many run at a time as now; None where that is unknown.

    A job takes the median of finished jobs of its kind (stage, backbone), else its estimate. A reference row is ready
    in a moment, and no measure of a method.
    """
    took: dict[Any, list[float]] = defaultdict(list)
    waiting = []
    for job in listed:
        state, request = states.get(job["name"]), job["request"]
        kind = (job["until"], request["backbone"], request["method"] in REFERENCE_ROWS and job["until"] == RESULT)
        if shown[job["name"]] in ("queued", "running"):
            began = state.started if state is not None and state.state == "running" else None
            waiting.append((kind, job.get("seconds"), now - (began or now)))
        elif state is not None and state.state == "done" and state.seconds is not None:
            took[kind].append(state.seconds)
    left = 0.0
    for kind, estimate, elapsed in waiting:
        whole = median(took[kind]) if took[kind] else estimate
        if whole is None:
            return None
        left += max(0.0, whole - elapsed)
    at_a_time = sum(each == "running" for each in shown.values())
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


def _running(state: JobState, now: float) -> RunningJob:
    silent = now - state.updated
    return RunningJob(
        **state.model_dump(include={"job", "stage", "host", "place"}),
        attempt=state.attempts,
        seconds=max(0.0, now - (state.started or state.updated)),
        late=f"silent for {silent:.0f} s" if silent > SILENCE else "",
    )


def _failed(folder: SweepFolder, state: JobState, shown: State) -> FailedJob:
    log = folder.log(state.job)
    error = state.error or ("its process is gone" if shown == "lost" else "")
    end = tuple(tail(log)) if shown != "skipped" else ()
    return FailedJob(job=state.job, state=shown, attempt=state.attempts, error=error, log=str(log), tail=end)


Whereabouts = Literal["there", "damaged", "running", "failed", "lost", "skipped", "missing", "impossible"]
"""``there``: gathered. ``damaged``: its result does not match its digests. ``missing``, ``impossible``: as in a plan.
The others are states of its job."""


class CollectedCell(StrictModel):
    """One cell of the grid."""

    cell: str
    state: Whereabouts
    reason: str = ""
    """Why it is not there, in a sentence."""
    place: str = ""
    """Folder of its result, relative to this file, with ``/``."""
    diverged: bool = False


class Collected(StrictModel):
    """A grid as far as it was gathered. Holds no time: gathered twice with nothing new, it is the same."""

    grid: str
    suite_version: str
    cells: tuple[CollectedCell, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Number of cells by state, without states that no cell is in."""
        return dict(Counter(cell.state for cell in self.cells))

    def of(self, *states: Whereabouts) -> tuple[CollectedCell, ...]:
        """The cells in one of these states."""
        return tuple(cell for cell in self.cells if cell.state in states)


def collect(grid: str, cells: Sequence[PlannedCell], sweep: SweepFolder, out: Path, progress: Progress) -> Collected:
    """Gather the results of a grid's cells into ``out``, as ``<task>/<backbone>/<method>/…``, with ``collected.json``.

    The sweep, where there is one, explains cells that are not done. Raises StorageError.
    """
    status = sweep_status(sweep)
    states = {job.job: ("running", f"{job.stage} on {job.host} {job.late}".strip()) for job in status.running}
    states |= {job.job: (job.state, job.error.partition("\n")[0]) for job in status.failed}
    found = []
    for planned in progress.track("gathering", cells):
        found.append(cell := _looked_at(planned, states))
        if planned.result is not None and cell.place and not (out / cell.place).exists():
            with atomic_folder(out / cell.place, OPTION) as draft:
                shutil.copytree(planned.result, draft, dirs_exist_ok=True, copy_function=shutil.copyfile)
                read_record(draft)
    collected = Collected(grid=grid, suite_version=__version__, cells=tuple(found))
    atomic_text(out / FILE, collected.model_dump_json(indent=1) + "\n", OPTION)
    return collected


def _looked_at(planned: PlannedCell, states: Mapping[str, tuple[str, str]]) -> CollectedCell:
    name, unknown = planned.cell.name, (planned.status, planned.reason)
    if planned.result is None:
        state, reason = states.get(name, unknown) if planned.status == "missing" else unknown
        return CollectedCell.model_validate({"cell": name, "state": state, "reason": reason})
    try:
        record = read_record(planned.result)
    except CorruptArtefact as fault:
        return CollectedCell(cell=name, state="damaged", reason=f"{fault.what} ({fault.where})")
    place = result_folder(Path(), record.cell, record.key).as_posix()
    return CollectedCell(cell=name, state="there", place=place, diverged=record.diverged)
