"""What a folder offers to ``bench pull``: results, and stages of a store, each file with its size and digest.

A static web server is all it takes to publish them: the index is the only thing that has to be made.
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
from genrec_unlearn_bench.store.inventory import entries
from genrec_unlearn_bench.store.manifest import KEY_FILE, MANIFEST

__all__ = ["INDEX", "OfferedFile", "OfferedResult", "OfferedStage", "PullIndex", "index_of", "site_index"]

INDEX = "pull.json"
SHORT = 16
"""Digits of a stage's key that tell whose it is."""


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
    stages: tuple[str, ...] = ()
    """First digits of the keys of the stages it stands on."""


class OfferedStage(StrictModel):
    """One stage of a store."""

    place: str
    stage: str = Field(pattern=r"^[A-Za-z0-9_-]{1,60}$")
    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    was: str = ""
    backbone: str = ""
    seconds: float = 0.0
    files: dict[str, OfferedFile]


class PullIndex(StrictModel):
    """What may be pulled from a place."""

    version: Literal[1] = 1
    base: Literal[".", ".."] = "."
    """Where places are relative to: the index's own folder, or the one above it (a leaderboard's site)."""
    results: tuple[OfferedResult, ...] = ()
    stages: tuple[OfferedStage, ...] = ()

    def text(self) -> str:
        """The file, one entry a line, so that its changes can be read."""
        head = self.model_dump_json(exclude={"results", "stages"})[:-1]
        parts = [
            f'"{name}":[' + ",".join(f"\n{one.model_dump_json(exclude_defaults=True)}" for one in found) + "]"
            for name, found in (("results", self.results), ("stages", self.stages))
        ]
        return ",\n".join([head, *parts]) + "}\n"


def index_of(root: Path) -> PullIndex:
    """Everything below a folder that may be pulled: results at any depth, and stages if it is a store.

    Raises OSError or ValidationError where a record cannot be read.
    """
    return PullIndex(results=offered_results([root], root), stages=tuple(_stages(root)))


def site_index(folders: Iterable[Path], root: Path) -> bytes:
    """The index in the site of a leaderboard, one folder below its ``root``."""
    return PullIndex(base="..", results=offered_results(folders, root)).text().encode("utf-8")


def offered_results(folders: Iterable[Path], root: Path) -> tuple[OfferedResult, ...]:
    """The results below some folders, their places relative to ``root``, in the order of these."""
    found = [_result(path.parent, root) for folder in folders for path in find_records(folder)]
    return tuple(sorted(found, key=lambda one: one.place))


def _result(folder: Path, root: Path) -> OfferedResult:
    record = RunRecord.model_validate_json((folder / RECORD).read_bytes())
    cell = record.cell
    names = [RECORD, *([PER_USER] if record.per_user_digest else []), *(table_place(name) for name in record.tables)]
    return OfferedResult(
        place=folder.relative_to(root).as_posix(),
        key=record.key,
        task=cell.task,
        backbone=cell.backbone,
        method=cell.method,
        seed=cell.seed,
        scale=cell.scale,
        suite=cell.suite,
        ruleset=cell.ruleset,
        protocol_version=record.protocol_version,
        files={name: _file(folder / name) for name in names},
        stages=tuple(stage.key[:SHORT] for stage in record.stages),
    )


def _stages(root: Path) -> Iterable[OfferedStage]:
    for entry in entries(root):
        if entry.manifest is None or entry.is_old:
            continue
        names = [*entry.manifest.files, KEY_FILE, MANIFEST]
        yield OfferedStage(
            place=entry.path.relative_to(root).as_posix(),
            stage=entry.name,
            key=entry.key,
            was=entry.manifest.was,
            backbone=entry.manifest.backbone,
            seconds=entry.seconds,
            files={name: _file(entry.path / name) for name in names},
        )


def _file(path: Path) -> OfferedFile:
    return OfferedFile(digest=file_digest(path), size=path.stat().st_size)
