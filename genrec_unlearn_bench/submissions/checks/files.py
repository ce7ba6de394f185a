"""Is the folder what it says it is: every listed file there and unchanged, nothing beside them."""

from __future__ import annotations

from collections.abc import Iterable

from genrec_unlearn_bench.pipeline.results import MEASUREMENTS, table_place
from genrec_unlearn_bench.submissions.bundle import Bundle
from genrec_unlearn_bench.submissions.fault import Fault
from genrec_unlearn_bench.submissions.inventory import VERIFICATION
from genrec_unlearn_bench.submissions.spec import SPEC

__all__ = ["check_contents", "check_pairs"]

_RENEW = "if the change is meant, renew the list with `bench submit`; otherwise restore the file"


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
        told, found = result.record.per_user_digest, bundle.inventory.digests.get(result.table_path, "")
        if told and found and told != found:
            yield Fault(
                what="the per-user table is not the one that the record names",
                where=f"{result.table_path} (per_user_digest in result.json)",
                hint="publish the result again with `bench submit`",
            )
        if found and not told:
            yield Fault(
                what="the record says that nothing was measured, yet there is a per-user table",
                where=result.table_path,
                hint="publish the result again with `bench submit`",
            )


def _measured(bundle: Bundle) -> Iterable[Fault]:
    """Tables of measurements: those that the records name, and no others."""
    hint = "publish the result again with `bench submit`"
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
