"""Is a dataset's data here? Looks, and never downloads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.spec import DatasetSpec

__all__ = ["folder_at_hand", "is_at_hand"]


def folder_at_hand(spec: DatasetSpec, data_dir: Path | None) -> Path | None:
    """The first folder that holds every file of the dataset, or None."""
    from genrec_unlearn_bench.data.locate import candidate_folders

    for folder in candidate_folders(spec, data_dir):
        if all(any((folder / name).is_file() for name in file.names) for file in spec.files):
            return folder
    return None


def is_at_hand(spec: DatasetSpec, data_dir: Path | None) -> bool:
    """Whether the dataset can be prepared without the network."""
    return spec.format == "demo" or folder_at_hand(spec, data_dir) is not None
