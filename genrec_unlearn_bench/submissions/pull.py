"""Pull published results from a folder or over http(s), each into the folder that its own record names.

Only the files that both the index and the record of a result name are taken, each with its digest; what lies in the
results folder already is never written over.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.data.download import fetch_part, note_path
from genrec_unlearn_bench.errors import (
    BenchError,
    CorruptArtefact,
    DataMissing,
    ProtocolMismatch,
    StorageError,
    UsageError,
)
from genrec_unlearn_bench.files import atomic_folder, file_digest
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD, read_record, result_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.submissions.inventory import unsafe
from genrec_unlearn_bench.submissions.pull_index import (
    INDEX,
    OfferedFile,
    OfferedResult,
    PullIndex,
    index_of,
    named_files,
)

__all__ = [
    "Place",
    "Pulled",
    "check_protocol",
    "find_place",
    "pull_results",
]

SITE = "site"
PARTS = ".pulling"
"""Folder in the results folder for files of results that are not complete yet."""
INDEX_BYTES = 256 << 20
TIMEOUT = 30.0
"""Seconds without a byte."""
CONNECTIONS = 4
"""To one server at a time."""
GIVING_UP = 8
"""Faults in a row after which the rest is not tried: the server is gone."""

T = TypeVar("T")
Outcome = Literal["new", "here already", "kept", "failed"]
"""``kept``: something else lies under that name here, and stays."""


class Place(Protocol):
    """Where results are pulled from."""

    index: PullIndex

    def fetch(self, place: str, name: str, offered: OfferedFile, target: Path) -> None:
        """Have one file of a result at ``target``, its digest checked; parts of it stay there for the next call.

        Raises DataMissing where it cannot be had, CorruptArtefact where it is another file than the index says.
        """
        ...


def find_place(text: str, wait: Callable[[float], None] = time.sleep) -> Place:
    """The place of that path or address, its index read.

    Raises:
        UsageError: There is no such folder, or the address is of another kind.
        DataMissing: There is no index, or the server cannot be reached.
        CorruptArtefact: The index cannot be read.
    """
    scheme = urlsplit(text).scheme
    if scheme in ("http", "https"):
        return _WebPlace(text, wait)
    if "://" in text:
        raise UsageError(f"{scheme}: is no address to pull from", where=text, hint="give a folder, or http(s)://…")
    return _FolderPlace(Path(text))


class _FolderPlace:
    """A folder on this machine; one without an index is searched for results."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError("there is no such folder", where=str(folder), hint="give a folder, or http(s)://…")
        found = next((path for path in (folder / INDEX, folder / SITE / INDEX) if path.is_file()), None)
        self.index = index_of(folder) if found is None else _read_index(found, str(found))
        start = folder if found is None else found.parent
        self._base = start.parent if self.index.base == ".." else start

    def fetch(self, place: str, name: str, offered: OfferedFile, target: Path) -> None:
        path = self._base / _safe_path(place, name)
        try:
            if path.stat().st_size != offered.size:
                raise CorruptArtefact("the file has another size than the index says", where=str(path))
            shutil.copyfile(path, target)
        except FileNotFoundError:
            raise DataMissing("the index names a file that is not there", where=str(path)) from None
        if file_digest(target) != offered.digest:
            target.unlink()
            raise CorruptArtefact("the file is another one than the index says", where=str(path))


class _WebPlace:
    """The same behind a web server. Transfers are resumed and repeated where that can help (``data.transfer``)."""

    def __init__(self, address: str, wait: Callable[[float], None]) -> None:
        self._wait = wait
        top = address.rstrip("/").removesuffix(f"/{INDEX}")
        fault: DataMissing | None = None
        for start in (top, f"{top}/{SITE}"):
            try:
                self.index = self._fetch_index(f"{start}/{INDEX}")
            except DataMissing as missing:
                fault = fault or missing
                continue
            self._base = start.rpartition("/")[0] if self.index.base == ".." else start
            return
        raise DataMissing(
            f"there is no index to pull by: {fault.what if fault else ''}",
            where=f"{top}/{INDEX}",
            hint="whoever serves the folder makes one with `bench results pull FOLDER --write-index`",
        )

    def fetch(self, place: str, name: str, offered: OfferedFile, target: Path) -> None:
        url = f"{self._base}/{quote(_safe_path(place, name))}"
        for last in (False, True):
            fetch_part(url, target, _Bounded(offered.size, url), self._wait, TIMEOUT)
            note_path(target).unlink(missing_ok=True)
            if file_digest(target) == offered.digest:
                return
            target.unlink()
            if last:
                raise CorruptArtefact(
                    "the file is another one than the index says",
                    where=url,
                    hint="the place is being changed, or cannot be trusted: try again later",
                )

    def _fetch_index(self, url: str) -> PullIndex:
        with tempfile.TemporaryDirectory(prefix="bench-pull-") as folder:
            path = Path(folder) / INDEX
            fetch_part(url, path, _Bounded(INDEX_BYTES, url), self._wait, TIMEOUT)
            return _read_index(path, url)


class _Bounded(Progress):
    """Ends a transfer that brings more than was announced."""

    def __init__(self, size: int, url: str) -> None:
        super().__init__()
        self._size, self._url = size, url

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        seen = 0
        for block in sequence:
            seen += len(block) if isinstance(block, bytes) else 0
            if seen > self._size:
                raise CorruptArtefact(f"more than the {self._size} bytes of the index came", where=self._url)
            yield block


def _read_index(path: Path, where: str) -> PullIndex:
    try:
        return PullIndex.model_validate_json(path.read_bytes())
    except ValidationError as fault:
        first = fault.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise CorruptArtefact(f"the index cannot be read: {place}: {first['msg']}", where=where) from None


def _safe_path(place: str, name: str) -> str:
    """The path of a file below the base. Raises CorruptArtefact for one that might lead out of it."""
    for path in (place, name):
        fault = unsafe(path)
        if fault is not None:
            raise CorruptArtefact(f"the index names a path that is not taken: {fault.what}", where=fault.where)
    return f"{place}/{name}"


@dataclass(frozen=True)
class Pulled:
    """The outcome for one result."""

    what: str
    outcome: Outcome
    fault: str = ""


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
) -> tuple[Pulled, ...]:
    """Pull results, a few at a time; each appears whole in the results folder, or not at all.

    Faults of single results are collected.

    Raises:
        ProtocolMismatch: Some are of another protocol; nothing was done.
        StorageError: The results folder cannot be written.
    """
    check_protocol(wanted)
    done: list[Pulled] = []
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        waiting = {pool.submit(_pull, place, one, results_dir): one.place for one in wanted}
        try:
            done.extend(_outcomes(waiting, progress))
        finally:
            for future in waiting:
                future.cancel()
    with suppress(OSError):
        # Empty unless something failed.
        (results_dir / PARTS).rmdir()
    missing = {one.place for one in wanted} - {one.what for one in done}
    done += [Pulled(what, "failed", "not tried any more") for what in sorted(missing)]
    return tuple(sorted(done, key=lambda one: one.what))


def _outcomes(waiting: dict[Future[Outcome], str], progress: Progress) -> Iterator[Pulled]:
    in_a_row = 0
    for future in progress.track("pull results", as_completed(waiting), total=len(waiting)):
        try:
            yield Pulled(waiting[future], future.result())
            in_a_row = 0
        except StorageError:
            raise
        except BenchError as fault:
            yield Pulled(waiting[future], "failed", fault.render().replace("\n", ";"))
            in_a_row += 1
            if in_a_row >= GIVING_UP:
                return


def _pull(place: Place, offered: OfferedResult, results_dir: Path) -> Outcome:
    folder = "/".join((offered.task, offered.backbone, offered.method, offered.place.rpartition("/")[2]))
    fault = unsafe(folder)
    if fault is not None or RECORD not in offered.files:
        raise CorruptArtefact(
            f"the index names a result that is not taken: {fault.what if fault else 'it has no record'}",
            where=offered.place,
        )
    target, parts = results_dir / folder, results_dir / PARTS / offered.files[RECORD].digest
    if target.exists():
        same = all(
            (target / name).is_file() and file_digest(target / name) == file.digest
            for name, file in offered.files.items()
        )
        return "here already" if same else "kept"
    with atomic_folder(target, "--results-dir") as draft:
        parts.mkdir(parents=True, exist_ok=True)
        _fetch_files(place, offered.place, {RECORD: offered.files[RECORD]}, draft, parts)
        _check_names(draft / RECORD, offered)
        _fetch_files(place, offered.place, offered.files, draft, parts)
        record = read_record(draft)
        if (record.key, record.protocol_version) != (offered.key, offered.protocol_version) or (
            result_folder(results_dir, record) != target
        ):
            raise CorruptArtefact("the record is of another run than the index says", where=offered.place)
    shutil.rmtree(parts, ignore_errors=True)
    return "new"


def _check_names(path: Path, offered: OfferedResult) -> None:
    """The index lists the files that the record names, and no others. Raises CorruptArtefact."""
    try:
        named = {RECORD, *named_files(RunRecord.model_validate_json(path.read_bytes()))}
    except ValidationError:
        raise CorruptArtefact("the record cannot be read", where=offered.place) from None
    for name in sorted(offered.files.keys() ^ named):
        lacking = "index" if name in named else "record"
        raise CorruptArtefact(f"the {lacking} does not name the file {name!a} of this result", where=offered.place)


def _fetch_files(place: Place, at: str, files: dict[str, OfferedFile], draft: Path, parts: Path) -> None:
    """Fetch files of a result into a draft.

    Each lies in ``parts`` by its digest until the result is complete, so that an interrupted pull goes on with it.
    """
    for name in files:
        _safe_path(at, name)
    for name, offered in files.items():
        part = parts / f"{offered.digest}.part"
        whole = parts / f"{offered.digest}.whole"
        if not whole.is_file():
            place.fetch(at, name, offered, part)
            part.replace(whole)
        target = draft / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(whole, target)
