"""Pulls results: each appears whole in the results folder, under the name that its own record gives it, or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.errors import CorruptArtefact, ProtocolMismatch
from genrec_unlearn_bench.files import atomic_folder, file_digest
from genrec_unlearn_bench.pipeline.results import RECORD, read_record, result_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.submissions.paths import unsafe
from genrec_unlearn_bench.submissions.pull.bringing import Brought, Outcome, bring_all, bring_files, clear
from genrec_unlearn_bench.submissions.pull.index import OfferedResult
from genrec_unlearn_bench.submissions.pull.place import Place

__all__ = ["check_protocol", "pull_results"]

PARTS = ".pulling"
OPTION = "--results-dir"


def check_protocol(wanted: Sequence[OfferedResult]) -> None:
    """Raises ProtocolMismatch where some were made under another protocol than this suite's."""
    others = [one for one in wanted if one.protocol_version != PROTOCOL_VERSION]
    if others:
        versions = ", ".join(sorted({str(one.protocol_version) for one in others}))
        raise ProtocolMismatch(
            f"{len(others)} of these {len(wanted)} results follow protocol {versions}, and this suite is protocol "
            f"{PROTOCOL_VERSION}: they cannot stand in one table",
            where=others[0].place,
            hint="pull with the suite's version that made them, or leave them out (--task, --method …)",
        )


def pull_results(
    place: Place, wanted: Sequence[OfferedResult], results_dir: Path, progress: Progress
) -> tuple[Brought, ...]:
    """Bring results. What lies in the results folder already is never written over.

    Raises:
        ProtocolMismatch: Some are of another protocol; nothing was done.
        StorageError: The results folder cannot be written.
    """
    check_protocol(wanted)
    return bring_all(
        wanted, lambda one: one.place, lambda one: _pull(place, one, results_dir), progress, "pull results"
    )


def _pull(place: Place, offered: OfferedResult, results_dir: Path) -> Outcome:
    folder = "/".join((offered.task, offered.backbone, offered.method, offered.place.rpartition("/")[2]))
    fault = unsafe(folder)
    if fault is not None or RECORD not in offered.files:
        raise CorruptArtefact(
            f"the index names a result that is not taken: {fault.what if fault else 'it has no record'}",
            where=offered.place,
        )
    target, parts = results_dir / folder, results_dir / PARTS / folder
    if target.exists():
        return "here already" if _holds(target, offered) else "kept"
    with atomic_folder(target, OPTION) as draft:
        bring_files(place, offered.place, offered.files, draft, parts)
        record = read_record(draft)
        if (record.key, record.protocol_version) != (offered.key, offered.protocol_version) or (
            result_folder(results_dir, record) != target
        ):
            raise CorruptArtefact("the record is of another run than the index says", where=offered.place)
    clear(parts, results_dir / PARTS)
    return "new"


def _holds(folder: Path, offered: OfferedResult) -> bool:
    """Whether a folder has the very files that are offered."""
    return all(
        (folder / name).is_file() and file_digest(folder / name) == file.digest for name, file in offered.files.items()
    )
