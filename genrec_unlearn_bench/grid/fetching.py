"""Whether a run would have to download a dataset first. A plan downloads nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench.data.locate import OFFLINE_VARIABLE, candidate_folders

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.spec import DatasetSpec, FileSpec

__all__ = ["to_be_fetched"]


def to_be_fetched(spec: DatasetSpec, data_dir: Path | None) -> bool:
    """Whether files are missing that all have a public address, and downloads are not switched off."""
    if not spec.files or os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0"):
        return False
    folders = candidate_folders(spec, data_dir)
    lacking = [[file for file in spec.files if not _there(file, folder)] for folder in folders]
    if any(not files for files in lacking):
        return False
    # A folder with some of the files is the one that a download would complete.
    begun = next((files for files in lacking if len(files) < len(spec.files)), list(spec.files))
    return all(file.url is not None for file in begun)


def _there(file: FileSpec, folder: Path) -> bool:
    return any((folder / name).is_file() for name in file.names)
