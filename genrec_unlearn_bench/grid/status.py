"""How a sweep stands: counts, what runs and since when, what failed, and how long the rest will take.

Read from the sweep's folder alone, so that any terminal of any machine that sees the folder may ask, while it runs and
afterwards. Whether a job that claims to run still does is known of this machine by its process, of others by silence.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.grid.elsewhere import SILENCE
from genrec_unlearn_bench.grid.journal import host_name
from genrec_unlearn_bench.grid.log import tail
from genrec_unlearn_bench.grid.remaining import remaining
from genrec_unlearn_bench.grid.standing_jobs import StandingJobs
from genrec_unlearn_bench.grid.sweep_facts import read_facts
from genrec_unlearn_bench.grid.writers import Writers

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.event import Event
    from genrec_unlearn_bench.grid.standing_jobs import JobStanding, ListedJob
    from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["SHOWN", "Axis", "FailedJob", "RunningJob", "Shown", "SweepStatus", "SweepView"]

Axis = Literal["backbone", "task", "method", "stage"]

Shown = Literal["queued", "running", "done", "failed", "skipped", "lost"]
SHOWN: tuple[Shown, ...] = ("queued", "running", "done", "failed", "skipped", "lost")
"""``queued``: listed and not begun, or to be tried again. ``lost``: began, and ended without a word."""

_AS_SHOWN: dict[str, Shown] = {"alive": "running", "retried": "queued"}


class RunningJob(StrictModel):
    """A job that says it runs."""

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
    state: Shown
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
    """Folder of the results; empty where the sweep has not said."""
    command: str = ""
    """The call that goes on with it."""
    last: float | None = None
    """When something was last told, in seconds since the epoch."""
    counts: dict[Shown, int]
    groups: dict[str, dict[Shown, int]]
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

    @property
    def moves(self) -> bool:
        """Whether anything is still going to happen by itself, as far as can be seen from here."""
        return any(not job.late for job in self.running) or self.waits

    waits: bool = False
    """Whether jobs wait in a scheduler's queue, or for a sweep that lives."""


class SweepView:
    """Looks at one sweep again and again; each look reads only what is new."""

    def __init__(self, folder: SweepFolder) -> None:
        self._folder = folder
        self._jobs = StandingJobs(folder)

    def look(self, *, by: Axis = "backbone", tails: int = 0, now: float | None = None) -> SweepStatus:
        """The sweep as it stands.

        Args:
            by: The axis by which jobs are counted.
            tails: Lines of a failed job's log.
            now: Seconds since the epoch; None takes the clock's.
        """
        self._jobs.look()
        now = time.time() if now is None else now
        listed, told = self._jobs.listed, self._jobs.told
        writers = Writers()
        counts: Counter[Shown] = Counter()
        groups: dict[str, Counter[Shown]] = {}
        running, failed, queued, waits = [], [], [], False
        for job in listed.values():
            standing = told.get(job.name)
            shown = _shown(standing)
            if standing is not None and shown == "running":
                one = _running(standing, now, writers)
                running.append(one)
                shown = "lost" if one.late == GONE else shown
            if standing is not None and shown in ("failed", "skipped", "lost"):
                failed.append(self._failed(standing, shown, tails))
            if shown == "queued":
                queued.append(job.name)
            waits = waits or (standing is not None and shown == "queued" and _waits(standing.last, writers))
            counts[shown] += 1
            groups.setdefault(_group(job, by), Counter())[shown] += 1
        running = [one for one in running if one.late != GONE]
        facts = read_facts(self._folder)
        done = sum(job.until == "result" and _shown(told.get(job.name)) == "done" for job in listed.values())
        cells = sum(job.until == "result" for job in listed.values())
        return SweepStatus(
            grid=facts.grid if facts else self._folder.root.name,
            folder=str(self._folder.root),
            results=facts.results_dir if facts else "",
            command=facts.command if facts else "",
            last=max((one.last.time for one in told.values()), default=None),
            counts={name: counts[name] for name in SHOWN},
            groups={name: {shown: found[shown] for shown in SHOWN} for name, found in sorted(groups.items())},
            cells=max(facts.cells if facts else 0, cells + (facts.done if facts else 0)),
            ready=done + (facts.done if facts else 0),
            running=tuple(sorted(running, key=lambda one: -one.seconds)),
            failed=tuple(failed),
            queued=tuple(queued),
            seconds_left=remaining(listed, told, now, at_a_time=len(running)),
            waits=waits,
        )

    def _failed(self, standing: JobStanding, shown: Shown, tails: int) -> FailedJob:
        event = standing.last
        log = self._folder.log(event.job)
        return FailedJob(
            job=event.job,
            state=shown,
            attempt=event.attempt,
            error=event.error or ("its process ended without a word" if shown == "lost" else ""),
            log=str(log),
            tail=tuple(tail(log, tails)) if tails and shown != "skipped" else (),
        )


GONE = "its process is gone"


def _shown(standing: JobStanding | None) -> Shown:
    if standing is None:
        return "queued"
    return _AS_SHOWN.get(standing.last.state) or standing.last.state  # type: ignore[return-value]


def _group(job: ListedJob, by: Axis) -> str:
    values = {"backbone": job.backbone, "task": job.task, "method": job.method, "stage": job.until}
    # A shared stage has the request of any one of the cells that share it.
    return values[by] if by != "method" or job.until == "result" else "(shared stages)"


def _running(standing: JobStanding, now: float, writers: Writers) -> RunningJob:
    event = standing.last
    late = ""
    if event.host == host_name():
        late = "" if writers.alive(event) else GONE
    if not late and now - event.time > SILENCE:
        late = f"silent for {now - event.time:.0f} s"
    return RunningJob(
        job=event.job,
        stage=event.stage,
        host=event.host,
        place=event.place,
        executor=event.executor,
        attempt=event.attempt,
        seconds=max(0.0, now - (standing.began or event.time)),
        late=late,
    )


def _waits(event: Event, writers: Writers) -> bool:
    """Whether a job that has not begun will be begun without anybody doing anything."""
    return bool(event.place) or event.host != host_name() or writers.alive(event)
