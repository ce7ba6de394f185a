"""Checks of the folder and its tasks: listed files are there and unchanged, manifests are what the tasks resolve to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from pydantic import ValidationError

from genrec_unlearn_bench.data.forget import TaskManifest, check_manifest, manifest_digest
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.pipeline.results import MEASUREMENTS, PER_USER, RECORD, table_place
from genrec_unlearn_bench.submissions.bundle import DEMO, Bundle, Result, demo_tasks
from genrec_unlearn_bench.submissions.faults import Finding, odd_text, values_of
from genrec_unlearn_bench.submissions.inventory import VERIFICATION
from genrec_unlearn_bench.submissions.spec import SPEC


def check_contents(bundle: Bundle) -> Iterator[Finding]:
    if bundle.spec is None:
        return
    listed = bundle.spec.contents
    there = {path: digest for path, digest in bundle.inventory.digests.items() if path not in (SPEC, VERIFICATION)}
    for path in sorted(listed.keys() | there.keys()):
        if path not in there:
            yield path, "a file that submission.yaml lists is not there"
        elif path not in listed:
            yield path, "a file is not listed in submission.yaml"
        elif there[path] != listed[path]:
            yield path, "a file was changed after submission.yaml was made"


def check_pairs(bundle: Bundle) -> Iterator[Finding]:
    digests = bundle.inventory.digests
    broken = {fault.where for fault in bundle.faults["records"]}
    known = {result.table_path for result in bundle.results}
    measured = {
        f"{result.place}/{table_place(name)}": digest
        for result in bundle.results
        for name, digest in result.record.tables.items()
    }
    for path in digests:
        folder, _, name = path.rpartition("/")
        if name == PER_USER and path not in known and f"{folder}/{RECORD}" not in broken:
            yield path, "there is a per-user table without a record", "submit both, or neither"
        if f"/{MEASUREMENTS}/" in path and path not in measured:
            yield path, "there is a measurement's table that no record names"
    for path, digest in measured.items():
        if digests.get(path) != digest:
            yield path, "the measurement's table is not the one that the record names"
    for result in bundle.results:
        recorded, found = result.record.per_user_digest, digests.get(result.table_path, "")
        if recorded and found and recorded != found:
            where = f"{result.table_path} (per_user_digest in {RECORD})"
            yield where, "the per-user table is not the one that the record names"
        if found and not recorded:
            yield result.table_path, "the record says that nothing was measured, yet there is a per-user table"


def check_manifests(bundle: Bundle) -> Iterator[Finding]:
    used = {result.record.cell.task for result in bundle.results}
    for task, manifest in bundle.manifests.items():
        where = f"manifests/{task}.json"
        if manifest.task != task:
            yield where, f"the manifest is of the task {manifest.task!a}"
            continue
        if manifest_digest(manifest) != manifest.digest:
            yield where, "the manifest was changed: it does not match its own digest"
            continue
        for place, value in values_of(manifest.model_dump(mode="json")):
            if isinstance(value, str) and (odd := odd_text(value)):
                yield f"{where}: {place}", f"a text of the manifest {odd}"
        if task not in used and not bundle.is_tree:
            yield where, "no result is of this manifest's task", "remove it"
        known = _known(bundle, task)
        if known is None:
            continue
        try:
            check_manifest(known, manifest)
        except BenchError as fault:
            yield f"{where} ({fault.where})", f"the manifest is not what the task {task!r} resolves to: {fault.what}"
            continue
        if known.version != manifest.version:
            what = f"the manifest is of version {manifest.version} of the task, its version here is {known.version}"
            yield where, what, "run the task's present version"


def check_task(bundle: Bundle, result: Result) -> Iterator[Finding]:
    record = result.record
    manifest = bundle.manifests.get(record.cell.task)
    path = f"manifests/{record.cell.task}.json"
    if manifest is None:
        if not any(fault.where == path for fault in bundle.faults["manifests"]):
            yield path, f"there is no manifest of the task {record.cell.task!a}"
        return
    if record.task_digest != manifest.digest:
        what = "the result was made on another resolution of its task than the manifest's"
        yield f"{result.at('task_digest')}, and {path}: digest", what
    if record.dataset_digest != manifest.dataset_digest:
        what = "the result was made on another dataset than the manifest's"
        yield f"{result.at('dataset_digest')}, and {path}: dataset_digest", what


def unknown_tasks(bundle: Bundle) -> tuple[str, ...]:
    """Tasks whose manifest there is nothing to hold against."""
    return tuple(task for task in bundle.manifests if _known(bundle, task) is None)


def _known(bundle: Bundle, task: str) -> TaskManifest | None:
    """The manifest a task resolves to: computed for the demo, taken from the leaderboard's results for others."""
    if task in demo_tasks():
        return _resolved(task)
    path = bundle.leaderboard / "results" / "manifests" / f"{task}.json"
    if not path.is_file():
        return None
    try:
        return TaskManifest.model_validate_json(path.read_bytes())
    except ValidationError:
        return None


@cache
def _resolved(task: str) -> TaskManifest:
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.concepts import resolve
    from genrec_unlearn_bench.data.prepare import prepare
    from genrec_unlearn_bench.progress import Progress

    return resolve(find_task(task), prepare(find_dataset(DEMO), None, Progress())).manifest
