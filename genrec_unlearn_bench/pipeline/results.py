"""Results on disk: one small folder a run, whole or not there at all; and finding the result of a request again.

``<results>/<task>/<backbone>/<method>/<scale>-seed<seed>-<key>/`` holds ``result.json`` (the record), the per-user
table, the losses as JSON lines, the task's manifest and the tables of measurements beyond the core. Nothing in it
depends on the cache.

A result's key follows from the resolved request, and resolving imports backbones and methods. So each finished run
leaves a line in ``<cache>/finished``: request and everything that resolving it reads -> key of the result. Any
difference, down to the time of a source file, leads to resolving as usual.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import ValidationError

from genrec_unlearn_bench.config import first_fault
from genrec_unlearn_bench.errors import BenchError, CorruptArtefact, UsageError
from genrec_unlearn_bench.files import atomic_folder, atomic_text, file_digest
from genrec_unlearn_bench.pipeline.record import Cell, RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.forget import TaskManifest
    from genrec_unlearn_bench.store.store import StageStore

RECORD = "result.json"
PER_USER = "per_user.parquet"
LOSSES = "losses.jsonl"
MANIFEST = "manifest.json"
MEASUREMENTS = "measurements"

_OF_SOME_RECORDS = ("measuring", "holdout", "tables", "arithmetic", "off_lock", "ended_early")
"""Fields that are left out where a record has nothing to say about them: so older ones keep their bytes."""


def result_folder(root: Path, cell: Cell, key: str) -> Path:
    """Folder of a cell's result under the results folder; its name ends in ten digits of the key."""
    stream = f"-requests{cell.requests}" if cell.requests > 1 else ""
    return Path(root, cell.task, cell.backbone, cell.method, f"{cell.scale}-seed{cell.seed}{stream}-{key[:10]}")


def looks_whole(folder: Path) -> bool:
    """Whether a result folder has a complete record and its per-user table, by names and ends of files only."""
    try:
        with open(f"{folder}/{RECORD}", "rb", buffering=0) as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - 2))
            complete = handle.read(2).rstrip().endswith(b"}")
        with suppress(FileNotFoundError):
            return complete and os.stat(f"{folder}/{PER_USER}").st_size > 0
        return complete and not json.loads((folder / RECORD).read_bytes()).get("per_user_digest", "")
    except (OSError, ValueError):
        return False


def write_result(
    root: Path,
    record: RunRecord,
    manifest: TaskManifest,
    *,
    per_user: Path | None,
    losses: Path | None,
    tables: Mapping[str, bytes] = MappingProxyType({}),
) -> Path:
    """Write a run's folder, with ``tables`` as ``measurements/<name>.csv``, in place of an older one. Raises
    StorageError where the file system refuses; then what was there stays."""
    folder = result_folder(root, record.cell, record.key)
    with atomic_folder(folder, "--results-dir", replace=True) as draft:
        (draft / RECORD).write_text(record_text(record), encoding="utf-8")
        (draft / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
        for source, name in ((per_user, PER_USER), (losses, LOSSES)):
            if source is not None and source.is_file():
                shutil.copyfile(source, draft / name)
        for name, table in tables.items():
            place = draft / table_place(name)
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(table)
    return folder


def table_place(name: str) -> str:
    """Path of a measurement's table in a result's folder."""
    return f"{MEASUREMENTS}/{name}.csv"


def record_text(record: RunRecord) -> str:
    """The record as JSON: indented, one metric a line, absent parts of a metric left out."""
    content = record.model_dump(mode="json")
    # null says that SASRec was not trained; records older than the field stay as they are.
    absent = {*_OF_SOME_RECORDS, *({"original_over_sasrec"} - record.model_fields_set)}
    content = {name: part for name, part in content.items() if part or name not in absent}
    if record.cell.requests == 1:
        del content["cell"]["requests"]
    rows = [
        {name: part for name, part in value.items() if part is not None or name == "value"}
        for value in content.pop("metrics")
    ]
    dump = partial(json.dumps, ensure_ascii=False, allow_nan=False)
    text = dump({**content, "metrics": []}, indent=2)
    lines = ",\n".join(f"    {dump(row)}" for row in rows)
    # The metrics are the last field.
    return f"{text[:-3]}\n{lines}\n  ]\n}}\n" if rows else f"{text}\n"


def read_record(folder: Path) -> RunRecord:
    """The record of a run's folder, its tables checked. Raises CorruptArtefact."""
    path, hint = folder / RECORD, "restore the folder, or run the command in its record again"
    try:
        record = RunRecord.model_validate_json(path.read_bytes())
    except OSError as fault:
        raise CorruptArtefact(f"the result cannot be read: {fault.strerror}", where=str(path), hint=hint) from None
    except ValidationError as fault:
        what = f"the result does not fit its schema: {first_fault(fault)}"
        raise CorruptArtefact(what, where=str(path), hint=hint) from None
    digests = {PER_USER: record.per_user_digest} if record.per_user_digest else {}
    digests |= {table_place(name): digest for name, digest in record.tables.items()}
    for name, digest in digests.items():
        table = folder / name
        if not table.is_file() or file_digest(table) != digest:
            what = "the per-user table" if name == PER_USER else "a measurement's table"
            raise CorruptArtefact(f"{what} is missing or was changed", where=str(table), hint=hint)
    return record


def find_run(path: Path) -> Path:
    """The folder of a run, named by itself or by its ``result.json``. Raises UsageError."""
    folder = path.parent if path.is_file() else path
    if not (folder / RECORD).is_file():
        raise UsageError(
            f"there is no run: the folder holds no {RECORD}",
            where=str(folder),
            hint="name the folder of one run, <results>/<task>/<backbone>/<method>/<scale>-seed<seed>-<key>",
        )
    return folder


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run's record, the folder it was written to, and whether the result was there already."""

    record: RunRecord
    folder: Path
    cached: bool = False


def finished_run(folder: Path, key: str) -> FinishedRun | None:
    """The result under a key in a folder; None where there is none that is whole."""
    with suppress(CorruptArtefact):
        if looks_whole(folder) and (record := read_record(folder)).key == key:
            return FinishedRun(record, folder, cached=True)
    return None


def find_finished(request: RunRequest, store: StageStore) -> FinishedRun | None:
    """The result of an earlier run of the same request, if it is there and whole; None where that takes a closer look,
    as for a request that is wrong: resolving it reports that."""
    with suppress(BenchError, OSError, ValueError):
        folder, key = _line_path(request, store).read_text(encoding="utf-8").splitlines()
        return finished_run(request.results_dir / folder, key)
    return None


def remember_finished(request: RunRequest, store: StageStore, done: FinishedRun) -> None:
    """Let ``find_finished`` find a run. A store that cannot be written does without."""
    with suppress(BenchError, OSError):
        text = f"{done.folder.relative_to(request.results_dir)}\n{done.record.key}\n"
        atomic_text(_line_path(request, store), text, "--cache-dir")


def _line_path(request: RunRequest, store: StageStore) -> Path:
    """The file for a request and all that resolving it reads. Raises BenchError for a request that is wrong."""
    # Imported here: whoever only reads results does without.
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.locate import source_digests
    from genrec_unlearn_bench.data.tasks import find_task
    from genrec_unlearn_bench.registry import find_method, source_digest

    task = find_task(request.task, request.data_dir)
    spec = find_dataset(task.dataset, request.data_dir)
    package = ("", ".methods", ".tasks", ".leaderboard")
    code, methods, tasks, leaderboard = (str(resources.files(f"genrec_unlearn_bench{name}")) for name in package)
    read = [code, methods, tasks, f"{leaderboard}/rulesets"]
    read += [str(request.tuned_dir)] if request.ruleset == "tuned" else []
    named = (request.encoder, request.sids, *request.backbone_set.values())
    read += [str(value) for value in named if isinstance(value, str | Path)]
    content = {
        "request": request.model_dump(mode="json", exclude={"results_dir", "threads"}),
        "task": task.model_dump(mode="json"),
        "dataset": spec.model_dump(mode="json"),
        "data": [source.digest for source in source_digests(spec, request.data_dir, download=False)],
        "method": source_digest(find_method(request.method)),
        # Which device `auto` means, without asking torch.
        "gpu": [Path("/dev/nvidiactl").exists(), os.environ.get("CUDA_VISIBLE_DEVICES", "")],
        "read": [_stamps(Path(folder)) for folder in read],
    }
    text = json.dumps(content, sort_keys=True)
    return store.root / "finished" / hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _stamps(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of a file, or of every file below a folder; empty where there is neither."""
    every = [folder, *sorted(folder.rglob("*"))]
    paths = [path for path in every if path.is_file() and "__pycache__" not in path.parts]
    return [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
