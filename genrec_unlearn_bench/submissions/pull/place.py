"""A folder, or the same folder behind http(s): gives the index and single files, never more bytes than announced."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from genrec_unlearn_bench.data.download import fetch_part, note_path
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, UsageError
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.submissions.paths import unsafe
from genrec_unlearn_bench.submissions.pull.index import INDEX, OfferedFile, PullIndex, index_of

__all__ = ["FolderPlace", "Place", "WebPlace", "find_place", "safe_path"]

T = TypeVar("T")

SITE = "site"
INDEX_BYTES = 256 << 20
TIMEOUT = 30.0
"""Seconds without a byte."""


class Place(Protocol):
    """Where results and stages are pulled from."""

    index: PullIndex

    def bring(self, place: str, name: str, offered: OfferedFile, target: Path) -> None:
        """Have one file of a result or stage at ``target``, its digest checked; parts of it stay there for next time.

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
        return WebPlace(text, wait)
    if "://" in text:
        raise UsageError(f"{scheme}: is no address to pull from", where=text, hint="give a folder, or http(s)://…")
    return FolderPlace(Path(text))


class FolderPlace:
    """A folder on this machine; one without an index is looked through."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError("there is no such folder", where=str(folder), hint="give a folder, or http(s)://…")
        found = next((path for path in (folder / INDEX, folder / SITE / INDEX) if path.is_file()), None)
        self.index = index_of(folder) if found is None else _read_index(found, str(found))
        start = folder if found is None else found.parent
        self._base = start.parent if self.index.base == ".." else start

    def bring(self, place: str, name: str, offered: OfferedFile, target: Path) -> None:
        path = self._base / safe_path(place, name)
        try:
            if path.stat().st_size != offered.size:
                raise CorruptArtefact("the file has another size than the index says", where=str(path))
            shutil.copyfile(path, target)
        except FileNotFoundError:
            raise DataMissing("the index names a file that is not there", where=str(path)) from None
        if file_digest(target) != offered.digest:
            target.unlink()
            raise CorruptArtefact("the file is another one than the index says", where=str(path))


class WebPlace:
    """The same behind a web server. Transfers are resumed and repeated where that can help (``data.download``)."""

    def __init__(self, address: str, wait: Callable[[float], None]) -> None:
        self._wait = wait
        top = address.rstrip("/").removesuffix(f"/{INDEX}")
        fault: DataMissing | None = None
        for start in (top, f"{top}/{SITE}"):
            try:
                self.index = self._read_index(f"{start}/{INDEX}")
            except DataMissing as missing:
                fault = fault or missing
                continue
            self._base = start.rpartition("/")[0] if self.index.base == ".." else start
            return
        raise DataMissing(
            f"there is no index to pull by: {fault.what if fault else ''}",
            where=f"{top}/{INDEX}",
            hint="whoever serves the folder makes one with `bench pull FOLDER --write-index`",
        )

    def bring(self, place: str, name: str, offered: OfferedFile, target: Path) -> None:
        url = f"{self._base}/{quote(safe_path(place, name))}"
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

    def _read_index(self, url: str) -> PullIndex:
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


def safe_path(place: str, name: str) -> str:
    """The path of a file below the base. Raises CorruptArtefact for one that might lead out of it."""
    for path in (place, name):
        fault = unsafe(path)
        if fault is not None:
            raise CorruptArtefact(f"the index names a path that is not taken: {fault.what}", where=fault.where)
    return f"{place}/{name}"


def _read_index(path: Path, where: str) -> PullIndex:
    try:
        return PullIndex.model_validate_json(path.read_bytes())
    except ValidationError as fault:
        first = fault.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise CorruptArtefact(f"the index cannot be read: {place}: {first['msg']}", where=where) from None
