"""Repetition of a record: run its cell again from the record's own settings.

Nothing is taken from today's defaults, presets or tuned choices: configurations are the record's. Its row is recomputed
and measured again even where the cache holds it, as a copy would only agree with itself; what it is built on (dataset,
IDs, original, oracles) may come from the cache, whose keys say that it was made by the same code from the same inputs.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import ProtocolMismatch, UnknownName, UsageError
from genrec_unlearn_bench.evaluation.suites import find_measurement
from genrec_unlearn_bench.features.encoder_spec import parse_encoder
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ConfigSource
from genrec_unlearn_bench.pipeline.run import run_cell
from genrec_unlearn_bench.pipeline.stages.shadows import STAGE
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import REFERENCE_ROWS, find_method, methods
from genrec_unlearn_bench.reproduce.comparison import Repetition, compare
from genrec_unlearn_bench.reproduce.isolated import run_isolated
from genrec_unlearn_bench.store.store import StageStore

ROW = frozenset({"unlearned", "evaluation", "stream", "u-lira-metrics"})
"""Stages that are recomputed for a method's row; a reference row's own stage carries its name."""

Isolation = Literal["sandbox", "process"]
"""How a method that is not trusted is run: in a sandbox, or in a process of its own with this user's rights."""

SHORTEST_LIMIT, PATIENCE = 1800.0, 30.0
"""Seconds after which an isolated method is ended: so many, and so many times what its record says it took."""


class _RedoingStore(StageStore):
    """A store that keeps stages of some names in another one, so that what the cache holds of them is not found."""

    def __init__(self, root: Path, progress: Progress, names: frozenset[str], aside: Path) -> None:
        super().__init__(root, progress)
        self._names, self._aside = names, StageStore(aside)

    def folder(self, name: str, key: str) -> Path:
        return self._aside.folder(name, key) if name in self._names else super().folder(name, key)

    def work(self, name: str, key: str) -> Path:
        return self._aside.work(name, key) if name in self._names else super().work(name, key)


def repeat_record(
    record: RunRecord, *, cache_dir: Path, progress: Progress, isolated: Isolation | None = None, **settings: Any
) -> Repetition:
    """Run the cell of a record again and compare the outcome with it.

    Args:
        cache_dir: Stages the row is built on are read from here where they are there, and kept here where not.
        isolated: For a submitted method: run it in a process of its own, before any oracle is there, in a sandbox or
            without one; None trusts the method's code as one's own.
        settings: Where the method, the data and the encoder lie, threads and device, as of ``request_of``.

    Raises:
        ProtocolMismatch: The record is of another protocol.
        DataMissing: The dataset's files are not here.
        UsageError: The method, task, encoder or device is not here, or a configuration does not fit today's code.
        BenchError: The run failed.
    """
    if record.protocol_version != PROTOCOL_VERSION:
        raise ProtocolMismatch(
            f"the record follows protocol {record.protocol_version}, and this suite is protocol {PROTOCOL_VERSION}",
            where=record.key[:10],
            hint=f"repeat it with the suite that made it: version {record.suite_version}, commit "
            f"{record.environment.git_commit or 'unknown'}",
        )
    with tempfile.TemporaryDirectory(prefix="bench-repeat-") as place:
        request = request_of(record, results_dir=Path(place) / "results", **settings)
        store = _RedoingStore(cache_dir, progress, _own(record), Path(place) / "cache")
        where = f"the record {record.key[:10]}, method_config"
        source = ConfigSource(record.cell.ruleset, record.method_config, where)
        if isolated is None:
            done = run_cell(request, store, progress, source=source)
        else:
            limit = SHORTEST_LIMIT + PATIENCE * record.cost.unlearn_seconds
            done = run_isolated(request, source, store, progress, sandboxed=isolated == "sandbox", seconds=limit)
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
) -> RunRequest:
    """Build the request that repeats a record, with the record's own configurations in full.

    Args:
        method: ``path/to/file.py:Class`` where the method is none that is installed here.
        threads: CPU threads; None takes the record's, as another number may change the last digits.
        device: None takes the record's.
        encoder: Where the text encoder lies, for one that a record can only name by its content.

    Raises UsageError where the method, the task or the encoder is not to be had here.
    """
    cell = record.cell
    # A record of a dataset folder that is elsewhere fails before anything else.
    find_task(cell.task, data_dir)
    return RunRequest(
        task=cell.task,
        method=_method(record, method),
        backbone=cell.backbone,
        seed=cell.seed,
        scale=cell.scale,
        suite=cell.suite,
        measure=tuple(record.measuring),
        measure_set={f"{name}.{field}": v for name, fields in record.measuring.items() for field, v in fields.items()},
        data_dir=data_dir,
        encoder=encoder or _encoder(record.encoder),
        device=device or record.environment.device,
        threads=threads or record.environment.threads,
        backbone_set=record.backbone_config,
        sid_set=record.sid_config,
        oracle_seeds=_oracles(record),
        requests=cell.requests,
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
    passes = {shared.name for name in record.measuring for shared in find_measurement(name).passes}
    reference = {record.cell.method, "sids-full"} if record.cell.method in REFERENCE_ROWS else set()
    return ROW | passes | reference | {STAGE, *record.measuring}


def _oracles(record: RunRecord) -> int:
    """Number of retrained models that the record's gap was taken against, by the stages it names."""
    made = sum(stage.name == "retrain" or stage.name.startswith("retrain ") for stage in record.stages)
    compared = any(value.metric.startswith("gap.") for value in record.metrics)
    # The row `retrain` has a stage of that name, whether or not it is its own reference.
    return made if compared or record.cell.method != "retrain" else 0
