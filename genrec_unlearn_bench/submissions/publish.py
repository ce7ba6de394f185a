"""Makes results of ``bench run`` publishable: no users, no items, no paths, and small enough for git.

``<target>/<task>/<backbone>/<method>/<scale>-seed<seed>-<key>/`` with result.json, per_user.parquet and the tables of
measurements, and every manifest once, as ``manifests/<task>.json``. Losses stay at home.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.errors import CorruptArtefact, UsageError
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.files import atomic_folder, atomic_text
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD, read_record, record_text, result_folder, table_place
from genrec_unlearn_bench.submissions.families import known_families
from genrec_unlearn_bench.submissions.plain_record import paths_in, plain_record
from genrec_unlearn_bench.submissions.table import published_bytes

__all__ = ["Found", "found_results", "publish_result", "publish_tree", "write_manifests"]

MANIFESTS = "manifests"


@dataclass(frozen=True)
class Found:
    """A result folder of ``bench run``."""

    folder: Path
    record: RunRecord
    manifest: TaskManifest


def found_results(source: Path, wanted: Callable[[RunRecord], bool] = lambda record: True) -> Iterator[Found]:
    """Every result below ``source`` that is wanted, in order of paths; drafts are passed over.

    Raises CorruptArtefact for a result or manifest that cannot be read.
    """
    for path in sorted(source.rglob(RECORD)):
        if any(part.startswith(".") for part in path.relative_to(source).parts):
            continue
        record = read_record(path.parent)
        if wanted(record):
            yield Found(path.parent, record, _manifest(path.parent))


def publish_tree(
    source: Path,
    target: Path,
    *,
    withhold: Iterable[str] = (),
    wanted: Callable[[RunRecord], bool] = lambda record: True,
) -> tuple[RunRecord, ...]:
    """Publish every wanted result below ``source`` into ``target``, and their tasks' manifests into its ``manifests``.

    What is there already stays, unless it is the same result, which is written anew. Returns the published records.

    Raises:
        UsageError: ``source`` holds no wanted result, a record holds a path, or two results have different manifests of
            one task.
        CorruptArtefact: A result cannot be read.
        StorageError: The file system refuses.
    """
    families = known_families(withhold)
    found = list(found_results(source, wanted))
    if not found:
        raise UsageError("there is no result to publish", where=str(source), hint="give the folder of `bench run`")
    published = tuple(publish_result(one, target, withhold=families) for one in found)
    write_manifests(found, target / MANIFESTS)
    return published


def publish_result(found: Found, target: Path, *, withhold: Iterable[str] = ()) -> RunRecord:
    """Publish one result; returns its published record. Raises UsageError where the record still holds a path."""
    table = b""
    if found.record.per_user_digest:
        table = published_bytes(read_per_user(found.folder / PER_USER), withhold)
    digest = hashlib.blake2b(table, digest_size=32).hexdigest() if table else ""
    record = plain_record(found.record, per_user_digest=digest)
    for place, path in paths_in(record):
        raise UsageError(
            f"the record holds the path {path!r} of this machine",
            where=f"{found.folder / RECORD}: {place}",
            hint="run it again with a relative path there",
        )
    with atomic_folder(result_folder(target, record), "--out", replace=True) as draft:
        (draft / RECORD).write_text(record_text(record), encoding="utf-8")
        if table:
            (draft / PER_USER).write_bytes(table)
        for name in record.tables:
            copy = draft / table_place(name)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(found.folder / table_place(name), copy)
    return record


def write_manifests(found: Iterable[Found], target: Path) -> None:
    """Each task's manifest once. Raises UsageError where two results, or a file that is there, have different ones."""
    manifests: dict[str, Found] = {}
    for one in found:
        first = manifests.setdefault(one.manifest.task, one)
        if first.manifest.digest != one.manifest.digest:
            raise UsageError(
                f"two results have different manifests of the task {one.manifest.task!r}",
                where=f"{first.folder} and {one.folder}",
                hint="publish results of one dataset only: they cannot stand in one table",
            )
    for task, one in sorted(manifests.items()):
        path = target / f"{task}.json"
        text = one.manifest.model_dump_json(indent=2) + "\n"
        if path.is_file() and path.read_text(encoding="utf-8") != text:
            raise UsageError(
                f"there is another manifest of the task {task!r} already",
                where=str(path),
                hint="the results were made on other data, or the task's version has to be raised",
            )
        atomic_text(path, text, "--out")


def _manifest(folder: Path) -> TaskManifest:
    path = folder / "manifest.json"
    try:
        return TaskManifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as fault:
        raise CorruptArtefact(
            f"the task's manifest cannot be read: {str(fault).splitlines()[0]}",
            where=str(path),
            hint="run the command in the record again",
        ) from None
