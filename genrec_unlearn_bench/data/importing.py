"""``bench data import``: check a user's folder from end to end and write the dataset's YAML beside the files."""

from __future__ import annotations

from pathlib import Path

from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.data.catalogue import SPEC_FILE, packaged_datasets
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.locate import Located
from genrec_unlearn_bench.data.prepare import prepare_located
from genrec_unlearn_bench.data.spec import DatasetSpec, FileSpec, FormatName, SplitName, check_spec, discover, dump_spec
from genrec_unlearn_bench.errors import DataMissing, UsageError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.progress import Progress

__all__ = ["import_folder"]

_SPLITS: dict[str, SplitName] = {"minionerec": "as-given", "letter": "leave-one-out"}


def import_folder(
    folder: Path,
    name: str,
    progress: Progress,
    *,
    format_name: FormatName = "folder",
    split: SplitName | None = None,
    k_core: int = 0,
    title: str | None = None,
) -> tuple[DatasetSpec, Dataset]:
    """Validate the data in ``folder`` and make it known as the dataset ``name``.

    The files stay where they are; ``dataset.yaml`` is written beside them, and only if everything is right. An earlier
    one is replaced.

    Args:
        split: None for what the format allows: by time where there are dates, else leave-one-out, else as given.

    Raises:
        UsageError: the name belongs to a dataset that ships with the package.
        DataMissing: no such folder.
        ConfigError: name, split and filtering do not go together, or the name is none.
        DataFault: what is wrong with the data, as far as possible all at once.
        StorageError: the YAML cannot be written.
    """
    if name in packaged_datasets():
        raise UsageError(f"the name {name!r} belongs to a dataset of this package", hint="choose another name")
    if not folder.is_dir():
        raise DataMissing("there is no such folder", where=str(folder))
    found = discover(format_name, folder)
    undated = "sequences" in found
    spec = parse(
        DatasetSpec,
        {
            "name": name,
            "title": title or name,
            "format": format_name,
            "files": tuple(FileSpec(role=role, names=(path,)) for role, path in found.items()),
            "split": split or _SPLITS.get(format_name, "leave-one-out" if undated else "global-time"),
            "k_core": k_core,
        },
        where=str(folder),
    )
    check_spec(spec, str(folder))
    dataset = prepare_located(spec, Located(folder, {role: folder / path for role, path in found.items()}), progress)
    atomic_text(folder / SPEC_FILE, dump_spec(spec), "the data folder")
    return spec, dataset
