"""Pull published results from a folder or over http(s), each into the folder that its own record names.

A static web server is all it takes to publish results: only the index (``pull.json``) has to be made, which lists each
file with its size and digest. Only the files that both the index and the record of a result name are taken; what
lies in the results folder already is never written over.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import Field, ValidationError

from genrec_unlearn_bench.config import StrictModel, one_of
from genrec_unlearn_bench.data.download import fetch_part, note_path
from genrec_unlearn_bench.errors import (
    BenchError,
    CorruptArtefact,
    DataMissing,
    ProtocolMismatch,
    StorageError,
    UsageError,
)
from genrec_unlearn_bench.files import atomic_folder, atomic_text, file_digest
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD, read_record, result_folder, table_place
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.reporting.protocol import PROTOCOLS
from genrec_unlearn_bench.reporting.results import find_records
from genrec_unlearn_bench.submissions.inventory import unsafe

INDEX = "pull.json"
SITE = "site"
INDEX_BYTES = 256 << 20
TIMEOUT = 30.0
"""Seconds without a byte."""
CONNECTIONS = 4
GIVING_UP = 8
"""Faults in a row after which the rest is not tried: the server is gone."""

T = TypeVar("T")


class OfferedFile(StrictModel):
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    """blake2b-256."""
    size: int = Field(ge=0)


class OfferedResult(StrictModel):
    place: str
    """Its folder, relative to the index's base, with ``/``."""
    key: str
    task: str
    backbone: str
    method: str
    seed: int
    scale: str
    suite: str
    ruleset: str
    protocol_version: int
    files: dict[str, OfferedFile]
    """By path relative to its folder."""


class PullIndex(StrictModel):
    version: Literal[1] = 1
    base: Literal[".", ".."] = "."
    """Where places are relative to: the index's own folder, or the one above it (a leaderboard's site)."""
    results: tuple[OfferedResult, ...] = ()

    def text(self) -> str:
        """The file, one result a line."""
        head = self.model_dump_json(exclude={"results"})[:-1]
        results = ",".join(f"\n{one.model_dump_json(exclude_defaults=True)}" for one in self.results)
        return f'{head},\n"results":[{results}]}}\n'


def index_of(root: Path) -> PullIndex:
    """The index of all results below a folder. Raises OSError or ValidationError where a record cannot be read."""
    return PullIndex(results=_offered([root], root))


def site_index(folders: Iterable[Path], root: Path) -> bytes:
    """The index in the site of a leaderboard, one folder below its ``root``."""
    return PullIndex(base="..", results=_offered(folders, root)).text().encode("utf-8")


def write_index(folder: Path) -> tuple[Path, int]:
    """Write the index of a folder's results into it. Returns its path, and the number of results."""
    try:
        index = index_of(folder)
    except (OSError, ValidationError) as fault:
        raise DataMissing(f"a result cannot be read: {fault}", where=str(folder)) from None
    if not index.results:
        raise DataMissing("there is no result", where=str(folder))
    atomic_text(folder / INDEX, index.text(), "the folder")
    return folder / INDEX, len(index.results)


def _offered(folders: Iterable[Path], root: Path) -> tuple[OfferedResult, ...]:
    found = []
    for folder in (path.parent for top in folders for path in find_records(top)):
        record = RunRecord.model_validate_json((folder / RECORD).read_bytes())
        offered = OfferedResult(
            place=folder.relative_to(root).as_posix(),
            key=record.key,
            **record.cell.model_dump(include={"task", "backbone", "method", "seed", "scale", "suite", "ruleset"}),
            protocol_version=record.protocol_version,
            files={
                name: OfferedFile(digest=file_digest(folder / name), size=(folder / name).stat().st_size)
                for name in _files_of(record)
            },
        )
        found.append(offered)
    return tuple(sorted(found, key=lambda one: one.place))


def _files_of(record: RunRecord) -> list[str]:
    per_user = [PER_USER] if record.per_user_digest else []
    return [RECORD, *per_user, *(table_place(name) for name in record.tables)]


@dataclass(frozen=True, eq=False)
class Place:
    """Where results are pulled from: a folder's path, or its address on a web server."""

    index: PullIndex
    base: str

    def fetch(self, path: str, offered: OfferedFile, target: Path) -> None:
        """Have a file at ``target``, its digest checked.

        Raises DataMissing where it cannot be had, CorruptArtefact where it is another file than the index says.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        source = f"{self.base}/{quote(path) if _is_web(self.base) else path}"
        _copy(source, target, offered.size)
        if file_digest(target) != offered.digest:
            hint = "the place is being changed, or cannot be trusted: try again later"
            raise CorruptArtefact("the file is another one than the index says", where=source, hint=hint)


def find_place(text: str) -> Place:
    """The place of that path or address, its index read; a folder without one is searched for results.

    Raises:
        UsageError: There is no such folder, or the address is of another kind.
        DataMissing: There is no index, or the server cannot be reached.
        CorruptArtefact: The index cannot be read.
    """
    web = _is_web(text)
    if not web and not Path(text).is_dir():
        what = f"{urlsplit(text).scheme}: is no address to pull from" if "://" in text else "there is no such folder"
        raise UsageError(what, where=text, hint="give a folder, or http(s)://…")
    top = text.rstrip("/").removesuffix(f"/{INDEX}")
    faults = []
    for start in (top, f"{top}/{SITE}"):
        try:
            index = _fetch_index(f"{start}/{INDEX}")
        except DataMissing as missing:
            faults.append(missing.what)
            continue
        return Place(index, start.rpartition("/")[0] if index.base == ".." else start)
    if not web:
        return Place(index_of(Path(text)), text)
    raise DataMissing(
        f"there is no index to pull by: {faults[0]}",
        where=f"{top}/{INDEX}",
        hint="whoever serves the folder makes one with `bench results pull FOLDER --write-index`",
    )


def _is_web(text: str) -> bool:
    return urlsplit(text).scheme in ("http", "https")


def _copy(source: str, target: Path, most: int) -> None:
    """Copy or download a file of at most so many bytes; a transfer is resumed and repeated where that can help."""
    if _is_web(source):
        fetch_part(source, target, _Bounded(most, source), time.sleep, TIMEOUT)
        note_path(target).unlink(missing_ok=True)
        return
    try:
        if Path(source).stat().st_size > most:
            raise CorruptArtefact("the file is larger than the index says", where=source)
        shutil.copyfile(source, target)
    except FileNotFoundError:
        raise DataMissing("there is no such file", where=source) from None


class _Bounded(Progress):
    """Ends a download that gives more bytes than it should."""

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


def _fetch_index(source: str) -> PullIndex:
    with tempfile.TemporaryDirectory(prefix="bench-pull-") as folder:
        path = Path(folder) / INDEX
        _copy(source, path, INDEX_BYTES)
        try:
            return PullIndex.model_validate_json(path.read_bytes())
        except ValidationError as fault:
            first = fault.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise CorruptArtefact(f"the index cannot be read: {place}: {first['msg']}", where=source) from None


@dataclass(frozen=True)
class Pulled:
    what: str
    outcome: Literal["new", "here already", "kept", "failed"]
    """``kept``: something else lies under that name here, and stays."""
    fault: str = ""


def select_offered(index: PullIndex, wanted: Mapping[str, Sequence[str]]) -> list[OfferedResult]:
    """The results whose fields have one of the wanted names.

    Raises UnknownName for a name that no result has, ProtocolMismatch where this suite cannot show one of them.
    """
    for field, values in wanted.items():
        known = {str(getattr(one, field)) for one in index.results}
        for value in values:
            one_of(f"{field} at this place", value, known)
    found = [one for one in index.results if all(getattr(one, field) in values for field, values in wanted.items())]
    others = [one for one in found if one.protocol_version not in PROTOCOLS]
    if others:
        versions = ", ".join(sorted({str(one.protocol_version) for one in others}))
        raise ProtocolMismatch(
            f"{len(others)} of these {len(found)} results follow protocol {versions}, and this suite knows protocol "
            f"{' and '.join(map(str, PROTOCOLS))}",
            where=others[0].place,
            hint="pull with the suite's version that made them, or leave them out (--task, --method …)",
        )
    return found


def pull_results(
    place: Place, wanted: Sequence[OfferedResult], results_dir: Path, progress: Progress
) -> tuple[Pulled, ...]:
    """Pull results, a few at a time; each appears whole in the results folder, or not at all.

    Faults of single results are collected; raises StorageError where the results folder cannot be written.
    """
    done: list[Pulled] = []
    faults = 0
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        waiting = [pool.submit(_pull, place, one, results_dir) for one in wanted]
        try:
            for future in progress.track("pull results", as_completed(waiting), total=len(waiting)):
                done.append(future.result())
                faults = faults + 1 if done[-1].fault else 0
                if faults >= GIVING_UP:
                    break
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    missing = {one.place for one in wanted} - {one.what for one in done}
    done += [Pulled(what, "failed", "not tried any more") for what in missing]
    return tuple(sorted(done, key=lambda one: one.what))


def _pull(place: Place, offered: OfferedResult, results_dir: Path) -> Pulled:
    """Pull one result. Raises StorageError; its other faults are the outcome."""
    folder = "/".join((offered.task, offered.backbone, offered.method, offered.place.rpartition("/")[2]))
    target = results_dir / folder
    try:
        for path in (folder, offered.place, *offered.files):
            if fault := unsafe(path):
                raise CorruptArtefact(f"the index names a path that is not taken: {fault.what}", where=fault.where)
        if target.exists():
            files = {target / name: file.digest for name, file in offered.files.items()}
            same = all(path.is_file() and file_digest(path) == digest for path, digest in files.items())
            return Pulled(offered.place, "here already" if same else "kept")
        with atomic_folder(target, "--results-dir") as draft:
            for name, file in offered.files.items():
                place.fetch(f"{offered.place}/{name}", file, draft / name)
            record = read_record(draft)
            same = (record.key, record.protocol_version) == (offered.key, offered.protocol_version)
            if not same or result_folder(results_dir, record) != target or {*offered.files} != {*_files_of(record)}:
                what = "the record is of another run, or of other files, than the index says"
                raise CorruptArtefact(what, where=offered.place)
    except StorageError:
        raise
    except BenchError as refusal:
        return Pulled(offered.place, "failed", refusal.render().replace("\n", ";"))
    return Pulled(offered.place, "new")
