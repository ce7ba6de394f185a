"""Where a dataset's files are looked for, and what happens if they are not there.

In order: the folder given with ``--data-dir`` (the dataset's own folder, or one that holds it), the folder named by
``GENREC_UNLEARN_BENCH_DATA``, and the user's data folder. Files with a public address that are nowhere are downloaded
into the first of these.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from genrec_unlearn_bench.data.catalogue import DATA_VARIABLE, SPEC_FILE, data_roots, packaged_datasets
from genrec_unlearn_bench.data.dataset import SourceFile
from genrec_unlearn_bench.data.download import Expected, download, verify
from genrec_unlearn_bench.data.source_files import file_digest
from genrec_unlearn_bench.data.spec import DatasetSpec, FileSpec, load_spec_file
from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.progress import Progress

__all__ = ["OFFLINE_VARIABLE", "Located", "candidate_folders", "locate"]

OFFLINE_VARIABLE = "GENREC_UNLEARN_BENCH_OFFLINE"
"""Environment variable: set to anything but ``""`` and ``0`` and nothing is downloaded."""


@dataclass(frozen=True)
class Located:
    """A dataset's files.

    Attributes:
        folder: The folder they lie in.
        files: Role -> path.
    """

    folder: Path
    files: Mapping[str, Path]

    def sources(self) -> tuple[SourceFile, ...]:
        """Name, size, digest and origin of every file, in the order of the specification."""
        return tuple(self._source(path) for path in self.files.values())

    def _source(self, path: Path) -> SourceFile:
        record = verify(path)
        return SourceFile(
            name=path.relative_to(self.folder).as_posix(),
            size=path.stat().st_size,
            digest=file_digest(path),
            url=record.url if record else None,
        )


def candidate_folders(spec: DatasetSpec, data_dir: Path | None) -> list[Path]:
    """The folders a dataset may lie in, in the order in which they are searched."""
    names = (spec.name, *spec.aliases)
    own = [] if data_dir is None else [data_dir, *(data_dir / name for name in names)]
    folders = dict.fromkeys([*own, *(root / name for root in data_roots() for name in names)])
    return [folder for folder in folders if not _is_another_dataset(spec, folder)]


def locate(spec: DatasetSpec, data_dir: Path | None, progress: Progress) -> Located:
    """Find the files of ``spec``, or download those that have a public address.

    Raises:
        DataMissing: files are nowhere and could not be had; says which, where they were looked for, where to get them.
    """
    folders = candidate_folders(spec, data_dir)
    for folder in folders:
        found = {file.role: path for file in spec.files if (path := _present(file, folder)) is not None}
        if len(found) == len(spec.files):
            return Located(folder, found)
    # A folder with some of the files is the one the user means.
    begun = [folder for folder in folders if any(_present(file, folder) for file in spec.files)]
    target = begun[0] if begun else _own_folder(spec, data_dir)
    missing = [file for file in spec.files if _present(file, target) is None]
    reason = _fetch(missing, target, progress)
    if reason is not None:
        raise _missing(spec, missing, folders, target, reason)
    return Located(target, {file.role: _present(file, target) or target / file.names[0] for file in spec.files})


def _is_another_dataset(spec: DatasetSpec, folder: Path) -> bool:
    # Plain folders all have the same file names: toys must not be read as sports because --data-dir points there.
    own, there = {spec.name, *spec.aliases}, folder.resolve().name
    if there in own:
        return False
    imported = folder / SPEC_FILE
    if imported.is_file():
        return load_spec_file(imported).name != spec.name
    return any(there in (other.name, *other.aliases) for other in packaged_datasets().values())


def _present(file: FileSpec, folder: Path) -> Path | None:
    return next((path for name in file.names if (path := folder / name).is_file()), None)


def _own_folder(spec: DatasetSpec, data_dir: Path | None) -> Path:
    return (data_roots()[0] if data_dir is None else data_dir) / spec.name


def _fetch(missing: list[FileSpec], target: Path, progress: Progress) -> str | None:
    """Download the missing files; the reason if that cannot be done."""
    if any(file.url is None for file in missing):
        some = any(file.url for file in missing)
        return "not all of them have a public address" if some else "they have no public address to fetch them from"
    if os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0"):
        return f"downloads are switched off by {OFFLINE_VARIABLE}"
    for file in missing:
        if file.url is None:
            continue
        progress.info(f"fetching {file.url} into {target}")
        try:
            download(file.url, target / file.names[0], progress, expected=Expected(file.size, file.blake2b))
        except DataMissing as fault:
            return fault.what
    return None


def _missing(spec: DatasetSpec, missing: list[FileSpec], folders: list[Path], target: Path, reason: str) -> DataMissing:
    lines = [f"put the files into {target}:"]
    for file in missing:
        lines.append(f"    {' or '.join(file.names)}{f'  from {file.url}' if file.url else ''}")
    if spec.where:
        lines.append(f"  {spec.where}")
    lines.append(f"or point to them with --data-dir, or with {DATA_VARIABLE}, the folder above {spec.name}/")
    lines.append("or try the task demo-brand, which needs no files")
    return DataMissing(
        f"{len(missing)} of {len(spec.files)} files of the dataset {spec.name!r} are not there; {reason}",
        where="looked in "
        + ", ".join(f"{folder}{'' if folder.is_dir() else ' (no such folder)'}" for folder in folders),
        hint="\n         ".join(lines),
    )
