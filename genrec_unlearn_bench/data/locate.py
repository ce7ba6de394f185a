"""Find a dataset's files, or download them, and digest them.

In order: the folder given with ``--data-dir`` (the dataset's own folder, or one that holds it), the folder that it was
imported from, the folder named by ``GENREC_UNLEARN_BENCH_DATA``, and the user's data folder. Files with a public
address that are nowhere are downloaded into the first of these.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.catalogue import (
    DATA_VARIABLE,
    SPEC_FILE,
    DatasetSpec,
    FileSpec,
    data_roots,
    imported_folders,
    load_spec,
    packaged_datasets,
)
from genrec_unlearn_bench.errors import DataFault, DataMissing, UsageError
from genrec_unlearn_bench.progress import Progress

OFFLINE_VARIABLE = "GENREC_UNLEARN_BENCH_OFFLINE"
"""Environment variable: set to anything but ``""`` and ``0`` and nothing is downloaded, data and models alike."""
_FORMATS_UNUSED = frozenset({"onnx", "openvino"})
"""Folders of a model that hold its weights for other runtimes; they change nothing here."""


class SourceFile(StrictModel):
    """One file a dataset was read from."""

    name: str
    """Path relative to the data folder."""
    size: int
    """Bytes."""
    digest: str
    """blake2b-128 of the content, in hex."""
    url: str | None = None
    """Nothing fills it any more; manifests made before may hold an address."""


@dataclass(frozen=True)
class Located:
    """A dataset's folder, and its files by role; a role of a table may have several (``part-*.parquet``)."""

    folder: Path
    parts: Mapping[str, tuple[Path, ...]]

    def sources(self) -> tuple[SourceFile, ...]:
        """Every file, in the order of the specification. Raises DataFault where one cannot be read."""
        found = []
        for path in (path for paths in self.parts.values() for path in paths):
            name, size = path.relative_to(self.folder).as_posix(), path.stat().st_size
            found.append(SourceFile(name=name, size=size, digest=file_digest(path)))
        return tuple(found)


def offline() -> bool:
    """Whether ``OFFLINE_VARIABLE`` switches downloads off."""
    return os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")


def candidate_folders(spec: DatasetSpec, data_dir: Path | None) -> list[Path]:
    """The folders a dataset may lie in, in the order in which they are searched."""
    names = (spec.name, *spec.aliases)
    own = [] if data_dir is None else [data_dir, *(data_dir / name for name in names)]
    own += [folder for name, folder in imported_folders().items() if name == spec.name]
    folders = dict.fromkeys([*own, *(root / name for root in data_roots() for name in names)])
    return [folder for folder in folders if not _is_another_dataset(spec, folder)]


def locate(spec: DatasetSpec, data_dir: Path | None, progress: Progress, *, download: bool = True) -> Located:
    """Find the files of ``spec``, or (unless ``download`` is False) download those that have a public address.

    Raises DataMissing, which lists the files, the folders searched, and where to get them.
    """
    if spec.format == "demo":
        # 400 items of 40 brands, some 13,500 interactions of 1,500 users, made by tests/data/demo_world.py.
        folder = Path(str(resources.files("genrec_unlearn_bench.tasks") / "datasets" / "demo"))
        names = {"items": "items.jsonl.gz", "interactions": "interactions.tsv.gz"}
        return Located(folder, {role: (folder / name,) for role, name in names.items()})
    folders = candidate_folders(spec, data_dir)
    lacking = {folder: [file for file in spec.files if not present(file, folder)] for folder in folders}
    complete = next((folder for folder in folders if not lacking[folder]), None)
    begun = next((folder for folder in folders if len(lacking[folder]) < len(spec.files)), None)
    own = data_dir if data_dir and data_dir.resolve().name in (spec.name, *spec.aliases) else None
    target = complete or begun or own or (data_roots()[0] if data_dir is None else data_dir) / spec.name
    missing = lacking.get(target, list(spec.files))
    if missing and (reason := _fetch(spec, missing, target, progress if download else None)) is not None:
        raise _missing(spec, missing, folders, target, reason)
    return Located(target, {file.role: present(file, target) or (target / file.names[0],) for file in spec.files})


def source_digests(
    spec: DatasetSpec, data_dir: Path | None, progress: Progress | None = None, *, download: bool = True
) -> tuple[SourceFile, ...]:
    """Every file that ``prepare`` would read, in order; none for ``demo``. Raises DataMissing as ``locate``."""
    located = locate(spec, data_dir, progress or Progress(), download=download)
    return located.sources() if spec.files else ()


def _is_another_dataset(spec: DatasetSpec, folder: Path) -> bool:
    # Plain folders all have the same file names: toys must not be read as sports because --data-dir points there.
    there = folder.resolve().name
    if there in (spec.name, *spec.aliases):
        return False
    if (imported := folder / SPEC_FILE).is_file():
        return load_spec(imported).name != spec.name
    return any(there in (other.name, *other.aliases) for other in packaged_datasets().values())


def present(file: FileSpec, folder: Path) -> tuple[Path, ...]:
    """The files of the first name that there are; of a name with wild cards, all in the order of their names."""
    for name in file.names:
        wild = any(sign in name for sign in "*?[")
        found = sorted(path for path in (folder.glob(name) if wild else (folder / name,)) if path.is_file())
        if found:
            return tuple(found)
    return ()


def is_local(spec: DatasetSpec, data_dir: Path | None) -> bool:
    """Whether the dataset can be prepared without the network."""
    with suppress(DataMissing):
        return bool(locate(spec, data_dir, Progress(), download=False))
    return False


def _fetch(spec: DatasetSpec, missing: list[FileSpec], target: Path, progress: Progress | None) -> str | None:
    """Download the missing files; the reason if that cannot be done, or must not (without ``progress``)."""
    if spec.hub is None and any(file.url is None for file in missing):
        return "not all of them have a public address to fetch them from"
    if offline():
        return f"downloads are switched off by {OFFLINE_VARIABLE}"
    if progress is None:
        return "nothing is downloaded by this command"
    from genrec_unlearn_bench.data.download import download, fetch_from_hub

    if (hub := spec.hub) is not None:
        reason = fetch_from_hub(hub, missing, target, progress)
        absent = [" or ".join(file.names) for file in missing if not present(file, target)]
        return reason or (f"{hub.repo} has no file {', '.join(absent)} at {hub.revision[:12]}" if absent else None)
    for file in missing:
        progress.info(f"fetching {file.url} into {target}")
        try:
            download(file.url or "", target / file.names[0], progress, blake2b=file.blake2b)
        except DataMissing as fault:
            return fault.what
    return None


def _missing(spec: DatasetSpec, missing: list[FileSpec], folders: list[Path], target: Path, reason: str) -> DataMissing:
    hint = [f"put the files into {target}:"]
    hint += [f"    {' or '.join(file.names)}{f'  from {file.url}' if file.url else ''}" for file in missing]
    hint += [f"  {spec.where}"] if spec.where else []
    hint.append(f"or point to them with --data-dir, or with {DATA_VARIABLE}, the folder above {spec.name}/")
    hint.append("or try the task demo-brand, which needs no files")
    looked = ", ".join(f"{folder}{'' if folder.is_dir() else ' (no such folder)'}" for folder in folders)
    what = f"{len(missing)} of {len(spec.files)} files of the dataset {spec.name!r} are not there; {reason}"
    return DataMissing(what, where=f"looked in {looked}", hint="\n         ".join(hint))


def file_digest(path: Path) -> str:
    """blake2b-128 of a file's content, in hex. Raises DataFault where it cannot be read."""
    try:
        return _digest(path.resolve(), _state(path))
    except OSError as fault:
        raise DataFault(f"cannot be read: {fault.strerror or fault}", where=str(path)) from None


def model_digest(folder: Path) -> str:
    """blake2b-128, in hex, over names and contents of the files that make up a pretrained model.

    Readmes, hidden files and weights for other runtimes do not count. Raises UsageError where a file cannot be read.
    """
    state = hashlib.blake2b(digest_size=16)
    try:
        for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
            parts = path.relative_to(folder).parts
            hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
            if not path.is_file() or hidden or path.suffix == ".md" or parts[0] in _FORMATS_UNUSED:
                continue
            state.update(f"{'/'.join(parts)}\0".encode())
            state.update(bytes.fromhex(_digest(path.resolve(), _state(path))))
    except OSError as fault:
        raise UsageError(f"the model cannot be read: {fault.strerror}", where=str(fault.filename)) from fault
    return state.hexdigest()


def _state(path: Path) -> tuple[int, ...]:
    """What differs after any change: unlike the modification time, a user cannot set the change time back."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@cache
def _digest(path: Path, state: tuple[int, ...]) -> str:
    """Of a file in this state: a grid asks for the same files again and again."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
