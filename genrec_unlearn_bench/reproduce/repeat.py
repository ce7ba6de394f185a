"""Repetition of a record: run its cell again from the record's own settings, and compare number by number.

Nothing is taken from today's defaults, presets or tuned choices: configurations are the record's. Its row is recomputed
and measured again even where a cache holds it, as a copy would only agree with itself; what it is built on (dataset,
IDs, original, oracles) may come from the cache, whose keys say that it was made by the same code from the same inputs.

With the same kind of processor, packages, threads and stage keys the suite promises the same bits, and anything less is
a fault. Elsewhere, and on a GPU, a training takes another path from its first rounded sum on and ends as another seed
would; then a number may differ by as much as two runs on independent users of the same number do at 95 %, and HR@10 and
NDCG@10 of both sides decide (docs/submit.md).
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import ProtocolMismatch, UnknownName, UsageError
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.suites import find_measurement, find_suite
from genrec_unlearn_bench.features.encoder_spec import parse_encoder
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ConfigSource
from genrec_unlearn_bench.pipeline.run import run_cell
from genrec_unlearn_bench.pipeline.stages.shadows import STAGE
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import REFERENCE_ROWS, find_method, methods
from genrec_unlearn_bench.reproduce.isolated import run_isolated
from genrec_unlearn_bench.store.store import StageStore

Verdict = Literal["identical", "within", "differs", "not judged", "new"]
"""``new``: the suite measures it now, and the record is older than that; nothing is said against the record."""

LIMIT = 1.96 * math.sqrt(2)
"""Standard errors that the difference of two independent means of one spread keeps to at 95 %: the repeatability limit,
2.8 standard deviations, of ISO 5725-6."""

ZERO_COUNT = 3.0
"""Where every user has the same value the standard error is 0 and says nothing: none of n users leaves room for up to
3 / n at 95 % (the rule of three: Hanley and Lippman-Hand, JAMA 249, 1983)."""

DECIDING = frozenset({"hr@10", "ndcg@10"})
"""They decide where the same bits are not required. Of the hundred other numbers a few leave their limits by chance."""

OTHER_TIME, SHORTEST = 10.0, 0.5
"""A recorded time is doubted where it differs by more than so many times; below half a second clocks say little."""

HARMLESS = frozenset({"git_commit", "python", "platform", "source of the method"})
"""Differences of environments that change no digit by themselves."""

COST = ("cost.", "stream.seconds", "stream.share-of-retraining")
"""Prefixes of metrics that depend on the clock, or on a tuning that is not repeated."""


class EnvironmentChange(NamedTuple):
    """A difference between the environments of two runs; ``bits``: whether it can change the last digits by itself."""

    what: str
    then: str
    now: str
    bits: bool

    def __str__(self) -> str:
        return f"{self.what}: {self.then} then, {self.now} now"


class Compared(NamedTuple):
    """One number then and now; ``allowed``: the largest difference that is within tolerance, None where unknown."""

    metric: str
    group: Group
    beam: int | None
    then: float | None
    now: float | None
    allowed: float | None
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Repetition:
    """A record, the record of its repetition, and how they compare; ``bitwise``: whether the same bits are required."""

    then: RunRecord
    now: RunRecord
    rows: tuple[Compared, ...]
    bitwise: bool
    changes: list[EnvironmentChange]

    @property
    def first_difference(self) -> str:
        """The first stage, upstream first, whose content came out differently, in words; empty where none did."""
        after = {stage.name: stage for stage in self.now.stages}
        for stage in self.then.stages:
            other = after.get(stage.name)
            if other is None:
                return f"the stage {stage.name!r} is no longer made"
            if other.digest != stage.digest:
                why = "the same inputs and code" if other.key == stage.key else "other inputs, settings or code"
                return f"the stage {stage.name!r} came out differently, from {why}"
        return ""

    @property
    def reused(self) -> tuple[str, ...]:
        """Stages that were read from the cache."""
        return tuple(stage.name for stage in self.now.stages if stage.cached)

    @property
    def matches(self) -> bool:
        """Whether the record holds: to the bit where that is required, within tolerance elsewhere."""
        if self.then.diverged != self.now.diverged:
            return False
        if self.bitwise:
            return _table(self.then) == _table(self.now) and set(self.counts) <= {"identical", "new"}
        sides = (Group.FORGET, Group.RETAIN)
        deciding = (row for row in self.rows if row.metric in DECIDING and row.group in sides)
        return all(row.verdict != "differs" for row in deciding)

    @property
    def counts(self) -> dict[Verdict, int]:
        found = Counter(row.verdict for row in self.rows if not row.metric.startswith(COST))
        return {verdict: found[verdict] for verdict in get_args(Verdict) if found[verdict]}

    @property
    def time_fault(self) -> str:
        """How the recorded time of unlearning differs from the repetition's, where that is by more than ten times."""
        then, now = (max(one.cost.unlearn_seconds, SHORTEST) for one in (self.then, self.now))
        differs = max(then, now) > OTHER_TIME * min(then, now)
        return f"unlearning took {now:.3g} s, and the record says {then:.3g} s" if differs else ""


def compare(then: RunRecord, now: RunRecord) -> Repetition:
    """Compare a repetition with its record."""
    keys = {stage.name: stage.key for stage in now.stages}
    same_keys = all(keys.get(stage.name) == stage.key for stage in then.stages)
    changes = environment_changes(then, now)
    bitwise = now.environment.device == "cpu" and same_keys and not any(change.bits for change in changes)
    recorded, measured = ({(one.metric, one.group, one.beam): one for one in run.metrics} for run in (then, now))
    rows = []
    for number in {**recorded, **measured}:
        was, found = recorded.get(number), measured.get(number)
        # A record that leaves out its spread is held to that of the repetition.
        allowed = (_allowed(was) or (_allowed(found) if found else None)) if was else None
        values = (was.value if was else None, found.value if found else None)
        rows.append(Compared(*number, *values, allowed, _verdict(was, found, allowed)))
    return Repetition(then, now, tuple(rows), bitwise, changes)


def environment_changes(then: RunRecord, now: RunRecord) -> list[EnvironmentChange]:
    """How the environments of two runs differ: machine, packages, instructions for sums, source of the method."""
    # Older records do not say how they added.
    both = then.arithmetic.keys() & now.arithmetic.keys()
    was, here = (
        {
            **one.environment.model_dump(exclude={"packages", "git_dirty"}),
            **one.environment.packages,
            **{name: one.arithmetic[name] for name in sorted(both)},
            "source of the method": one.method_digest[:10],
        }
        for one in (then, now)
    )
    names = [name for name in {**was, **here} if was.get(name) != here.get(name)]
    return [EnvironmentChange(one, str(was.get(one)), str(here.get(one)), one not in HARMLESS) for one in names]


def _table(record: RunRecord) -> str:
    """Digest of what was measured: the evaluation stage's, as a published table has other bytes than the run's."""
    return next((stage.digest for stage in record.stages if stage.name == "evaluation"), record.per_user_digest)


def _verdict(then: MetricValue | None, now: MetricValue | None, allowed: float | None) -> Verdict:
    if then is None and now is not None:
        return "identical" if now.value is None else "differs" if now.metric in DECIDING else "new"
    if then is None or now is None:
        return "identical" if then is None or then.value is None else "differs"
    # Metrics have been given intervals since the first records were published.
    same_interval = then.interval is None or then.interval == now.interval
    if (then.value, then.n, then.sd) == (now.value, now.n, now.sd) and same_interval:
        return "identical"
    if then.value is None or now.value is None:
        return "differs"
    if allowed is None:
        return "not judged"
    return "within" if abs(then.value - now.value) <= allowed else "differs"


def _allowed(value: MetricValue) -> float | None:
    """The repeatability limit of a mean over users; None for a number that is no such mean."""
    if value.n is None or value.sd is None or value.n < 2:
        return None
    return LIMIT * value.sd / math.sqrt(value.n) if value.sd > 0 else ZERO_COUNT / value.n


ROW = frozenset({"unlearned", "evaluation", "stream", "u-lira-metrics"})
"""Stages that are recomputed for a method's row; a reference row's own stage carries its name."""

SHORTEST_LIMIT, PATIENCE = 1800.0, 30.0
"""Seconds after which an isolated method is ended: so many, and so many times what its record says it took."""


class _RedoingStore(StageStore):
    """A store that keeps stages of some names in a folder of their own, and looks for them nowhere else: neither in the
    cache nor in the shared one, as either may be the cache that the record was made in."""

    def __init__(self, root: Path, progress: Progress, names: frozenset[str], aside: Path) -> None:
        super().__init__(root, progress)
        self._names, self._aside = names, [aside]

    def _roots(self, name: str) -> list[Path]:
        return self._aside if name in self._names else super()._roots(name)


def repeat_record(
    record: RunRecord, *, cache_dir: Path, progress: Progress, sandboxed: bool | None = None, **settings: Any
) -> Repetition:
    """Run the cell of a record again and compare the outcome with it.

    Args:
        cache_dir: Stages the row is built on are read from here where they are there, and kept here where not.
        sandboxed: For a submitted method: run it in a process of its own, before any oracle is there, in a sandbox or
            with this user's rights; None trusts the method's code as one's own.
        settings: Where the method, the data and the encoder lie, threads and device, as of ``request_of``.

    Raises ProtocolMismatch for a record of another protocol, UsageError where the data, method, task, encoder or device
    is not here or a configuration does not fit today's code, BenchError where the run failed.
    """
    if record.protocol_version != PROTOCOL_VERSION:
        what = f"the record follows protocol {record.protocol_version}, and this suite is protocol {PROTOCOL_VERSION}"
        made = f"version {record.suite_version}, commit {record.environment.git_commit or 'unknown'}"
        raise ProtocolMismatch(what, where=record.key[:10], hint=f"repeat it with the suite that made it: {made}")
    with tempfile.TemporaryDirectory(prefix="bench-repeat-") as place:
        request = request_of(record, results_dir=Path(place) / "results", **settings)
        store = _RedoingStore(cache_dir, progress, _own(record), Path(place) / "cache")
        where = f"the record {record.key[:10]}, method_config"
        source = ConfigSource(record.cell.ruleset, record.method_config, where)
        if sandboxed is None:
            done = run_cell(request, store, progress, source=source)
        else:
            limit = SHORTEST_LIMIT + PATIENCE * record.cost.unlearn_seconds
            done = run_isolated(request, source, store, progress, sandboxed=sandboxed, seconds=limit)
    return compare(record, done.record)


def request_of(
    record: RunRecord,
    *,
    results_dir: Path,
    method: str | None = None,
    data_dir: Path | None = None,
    threads: int | None = None,
    device: str | None = None,
    encoder: str | None = None,
    sids: Path | None = None,
) -> RunRequest:
    """Build the request that repeats a record, with the record's own configurations in full.

    Args:
        method: ``path/to/file.py:Class`` where the method is none that is installed here.
        threads: CPU threads; None takes the record's, as another number may change the last digits.
        device: None takes the record's.
        encoder: Where the text encoder lies, for one that a record can only name by its content.
        sids: Where the index file lies, for a record whose semantic IDs were read from one.

    Raises UsageError where the method, the task or the encoder is not to be had here.
    """
    cell = record.cell
    # A record of a dataset folder that is elsewhere fails before anything else.
    try:
        find_task(cell.task, data_dir)
    except UnknownName:
        hint = "if it is on imported data, give their folder with --data-dir, or import them under the same name"
        raise UsageError(f"the record's task {cell.task!r} is not known here", hint=hint) from None
    return RunRequest(
        **cell.model_dump(include={"task", "backbone", "seed", "scale", "suite", "requests"}),
        method=_method(record, method),
        measure=tuple(record.measuring),
        measure_set={f"{name}.{field}": v for name, fields in record.measuring.items() for field, v in fields.items()},
        data_dir=data_dir,
        sids=None if sids is None else sids.resolve(),
        encoder=encoder or _encoder(record.encoder),
        device=device or record.environment.device,
        threads=threads or record.environment.threads,
        backbone_set=record.backbone_config,
        sid_set=record.sid_config,
        oracle_seeds=_oracles(record),
        sasrec=record.original_over_sasrec is not None,
        shadows=sum(stage.name.startswith(f"{STAGE}: ") for stage in record.stages),
        results_dir=results_dir,
    )


def _method(record: RunRecord, given: str | None) -> str:
    name = record.cell.method
    if given is None and name not in methods():
        raise UsageError(
            f"the method {name!r} of the record is not installed here",
            where=record.command or None,
            hint="name its file: --method path/to/file.py:ClassName",
        )
    found = find_method(given or name).name
    if found != name:
        raise UsageError(f"the record is of the method {name!r}, and {given} is {found!r}", hint=f"give {name!r}")
    return given or name


def _encoder(key: str) -> str:
    """The ``--encoder`` value for an encoder's key in a record. Raises UsageError where only its content is known."""
    for word in (key, key.partition(":")[2].partition("#")[0].removesuffix("@main")):
        with suppress(UnknownName):
            if parse_encoder(word).key == key:
                return word
    raise UsageError(
        f"the record's text encoder {key!r} is known by its content alone",
        hint="give its folder: --encoder path/to/folder",
    )


def _own(record: RunRecord) -> frozenset[str]:
    """Stages that make the row and what is measured, the measurements' shared passes included."""
    # A record may leave out what it measured; the repetition does not.
    measured = find_suite(record.cell.suite, tuple(record.measuring)).measurements
    passes = {shared.name for name in measured for shared in find_measurement(name).passes}
    reference = {record.cell.method, "sids-full"} if record.cell.method in REFERENCE_ROWS else set()
    return ROW | passes | reference | {STAGE, *measured}


def _oracles(record: RunRecord) -> int:
    """Number of retrained models that the record's gap was taken against, by the stages it names."""
    made = sum(stage.name == "retrain" or stage.name.startswith("retrain ") for stage in record.stages)
    compared = any(value.metric.startswith("gap.") for value in record.metrics)
    # The row `retrain` has a stage of that name, whether or not it is its own reference.
    return made if compared or record.cell.method != "retrain" else 0
