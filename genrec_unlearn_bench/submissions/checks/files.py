"""Checks of the folder and its tasks: listed files are there and unchanged, manifests are what the tasks resolve to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from genrec_unlearn_bench.data.forget import TaskManifest, check_manifest, manifest_digest
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.pipeline.results import MEASUREMENTS, table_place
from genrec_unlearn_bench.submissions.bundle import DEMO, Bundle, Result, demo_tasks
from genrec_unlearn_bench.submissions.faults import Fault, odd_text, values_of
from genrec_unlearn_bench.submissions.inventory import VERIFICATION
from genrec_unlearn_bench.submissions.spec import SPEC

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.dataset import Dataset

__all__ = ["check_contents", "check_manifests", "check_pairs", "check_task", "unknown_tasks"]

_RENEW = "if the change is meant, renew the list with `bench submission new`; otherwise restore the file"


def check_contents(bundle: Bundle) -> Iterable[Fault]:
    """The list ``contents`` of submission.yaml against the files."""
    if bundle.spec is None:
        return
    listed = bundle.spec.contents
    there = {path: digest for path, digest in bundle.inventory.digests.items() if path not in (SPEC, VERIFICATION)}
    for path in sorted(set(listed) - set(there)):
        yield Fault(what="a file that submission.yaml lists is not there", where=path, hint=_RENEW)
    for path in sorted(set(there) - set(listed)):
        yield Fault(what="a file is not listed in submission.yaml", where=path, hint=_RENEW)
    for path in sorted(set(there) & set(listed)):
        if there[path] != listed[path]:
            yield Fault(what="a file was changed after submission.yaml was made", where=path, hint=_RENEW)


def check_pairs(bundle: Bundle) -> Iterable[Fault]:
    """Every table has its record, and its bytes are the ones the record was published with."""
    known = {result.table_path for result in bundle.results}
    broken = {fault.where for fault in bundle.faults["records"]}
    for path in bundle.inventory.digests:
        folder, _, name = path.rpartition("/")
        if name == "per_user.parquet" and path not in known and f"{folder}/result.json" not in broken:
            yield Fault(what="there is a per-user table without a record", where=path, hint="submit both, or neither")
    yield from _measured(bundle)
    for result in bundle.results:
        recorded, found = result.record.per_user_digest, bundle.inventory.digests.get(result.table_path, "")
        if recorded and found and recorded != found:
            yield Fault(
                what="the per-user table is not the one that the record names",
                where=f"{result.table_path} (per_user_digest in result.json)",
                hint="publish the result again with `bench submission new`",
            )
        if found and not recorded:
            yield Fault(
                what="the record says that nothing was measured, yet there is a per-user table",
                where=result.table_path,
                hint="publish the result again with `bench submission new`",
            )


def _measured(bundle: Bundle) -> Iterable[Fault]:
    """Tables of measurements: those that the records name, and no others."""
    hint = "publish the result again with `bench submission new`"
    named = {
        f"{result.place}/{table_place(name)}": digest
        for result in bundle.results
        for name, digest in result.record.tables.items()
    }
    for path, digest in named.items():
        if bundle.inventory.digests.get(path) != digest:
            yield Fault(what="the measurement's table is not the one that the record names", where=path, hint=hint)
    for path in bundle.inventory.digests:
        if f"/{MEASUREMENTS}/" in path and path not in named:
            yield Fault(what="there is a measurement's table that no record names", where=path, hint=hint)


_HINT = "submit the manifest as `bench run` wrote it, and only results that were made on it"


def check_manifests(bundle: Bundle) -> Iterable[Fault]:
    """Each manifest by itself, and against what its task is known to resolve to."""
    used = {result.record.cell.task for result in bundle.results}
    for task, manifest in bundle.manifests.items():
        where = f"manifests/{task}.json"
        if manifest.task != task:
            yield Fault(what=f"the manifest is of the task {manifest.task!a}", where=where, hint=_HINT)
            continue
        if manifest_digest(manifest) != manifest.digest:
            yield Fault(what="the manifest was changed: it does not match its own digest", where=where, hint=_HINT)
            continue
        for place, value in values_of(manifest.model_dump(mode="json")):
            if isinstance(value, str) and (odd := odd_text(value)):
                yield Fault(what=f"a text of the manifest {odd}", where=f"{where}: {place}", hint=_HINT)
        if task not in used and not bundle.is_tree:
            yield Fault(what="no result is of this manifest's task", where=where, hint="remove it")
        known = _known(bundle, task)
        if known is None:
            continue
        try:
            check_manifest(known, manifest)
        except BenchError as fault:
            what = f"the manifest is not what the task {task!r} resolves to: {fault.what}"
            yield Fault(what=what, where=f"{where} ({fault.where})", hint=_HINT)
            continue
        if known.version != manifest.version:
            what = f"the manifest is of version {manifest.version} of the task, its version here is {known.version}"
            yield Fault(what=what, where=where, hint="run the task's present version")


def check_task(bundle: Bundle, result: Result) -> Iterable[Fault]:
    """The record's task and dataset are its manifest's."""
    record = result.record
    manifest = bundle.manifests.get(record.cell.task)
    path = f"manifests/{record.cell.task}.json"
    if manifest is None:
        if not any(fault.where == path for fault in bundle.faults["manifests"]):
            yield Fault(what=f"there is no manifest of the task {record.cell.task!a}", where=path, hint=_HINT)
        return
    if record.task_digest != manifest.digest:
        yield Fault(
            what="the result was made on another resolution of its task than the manifest's",
            where=f"{result.record_path}: task_digest, and {path}: digest",
            hint=_HINT,
        )
    if record.dataset_digest != manifest.dataset_digest:
        yield Fault(
            what="the result was made on another dataset than the manifest's",
            where=f"{result.record_path}: dataset_digest, and {path}: dataset_digest",
            hint=_HINT,
        )


def unknown_tasks(bundle: Bundle) -> tuple[str, ...]:
    """Tasks whose manifest there is nothing to hold against."""
    return tuple(task for task in bundle.manifests if _known(bundle, task) is None)


def _known(bundle: Bundle, task: str) -> TaskManifest | None:
    """The manifest a task resolves to: computed for the demo, taken from the leaderboard's results for others."""
    if task in demo_tasks():
        return _resolved(task)
    if bundle.leaderboard is None:
        return None
    path = bundle.leaderboard / "results" / "manifests" / f"{task}.json"
    return _read(path) if path.is_file() else None


def _read(path: Path) -> TaskManifest | None:
    try:
        return TaskManifest.model_validate_json(path.read_bytes())
    except ValidationError:
        return None


@cache
def _resolved(task: str) -> TaskManifest:
    from genrec_unlearn_bench.data.concepts import resolve

    return resolve(find_task(task), _demo()).manifest


@cache
def _demo() -> Dataset:
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.prepare import prepare
    from genrec_unlearn_bench.progress import Progress

    return prepare(find_dataset(DEMO), None, Progress())
