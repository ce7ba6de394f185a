"""The index of the results that a folder offers to ``bench pull``, each file with its size and digest.

A static web server is all it takes to publish results: the index is the only thing that has to be made.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD, table_place
from genrec_unlearn_bench.reporting.results import find_records

__all__ = ["INDEX", "OfferedFile", "OfferedResult", "PullIndex", "index_of", "named_files", "site_index"]

INDEX = "pull.json"


class OfferedFile(StrictModel):
    """One file."""

    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    """blake2b-256."""
    size: int = Field(ge=0)


class OfferedResult(StrictModel):
    """One result: its cell, and where its files lie."""

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
    """The results that may be pulled from a place."""

    version: Literal[1] = 1
    base: Literal[".", ".."] = "."
    """Where places are relative to: the index's own folder, or the one above it (a leaderboard's site)."""
    results: tuple[OfferedResult, ...] = ()

    def text(self) -> str:
        """The file, one result a line, so that its changes can be read."""
        head = self.model_dump_json(exclude={"results"})[:-1]
        results = ",".join(f"\n{one.model_dump_json(exclude_defaults=True)}" for one in self.results)
        return f'{head},\n"results":[{results}]}}\n'


def index_of(root: Path) -> PullIndex:
    """The index of all results below a folder. Raises OSError or ValidationError where a record cannot be read."""
    return PullIndex(results=_offered([root], root))


def site_index(folders: Iterable[Path], root: Path) -> bytes:
    """The index in the site of a leaderboard, one folder below its ``root``."""
    return PullIndex(base="..", results=_offered(folders, root)).text().encode("utf-8")


def _offered(folders: Iterable[Path], root: Path) -> tuple[OfferedResult, ...]:
    found = [_offered_result(path.parent, root) for folder in folders for path in find_records(folder)]
    return tuple(sorted(found, key=lambda one: one.place))


def _offered_result(folder: Path, root: Path) -> OfferedResult:
    record = RunRecord.model_validate_json((folder / RECORD).read_bytes())
    cell = record.cell
    return OfferedResult(
        place=folder.relative_to(root).as_posix(),
        key=record.key,
        **cell.model_dump(include={"task", "backbone", "method", "seed", "scale", "suite", "ruleset"}),
        protocol_version=record.protocol_version,
        files={
            name: OfferedFile(digest=file_digest(folder / name), size=(folder / name).stat().st_size)
            for name in (RECORD, *named_files(record))
        },
    )


def named_files(record: RunRecord) -> tuple[str, ...]:
    """The files that belong to a record, by their paths beside it."""
    per_user = (PER_USER,) if record.per_user_digest else ()
    return (*per_user, *(table_place(name) for name in record.tables))
