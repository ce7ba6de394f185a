"""The known datasets: those that ship with the package, and those imported into a data folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path

from genrec_unlearn_bench.data.spec import DatasetSpec, load_spec, load_spec_file
from genrec_unlearn_bench.errors import UnknownName

DATA_VARIABLE = "GENREC_UNLEARN_BENCH_DATA"
"""Environment variable: a folder that holds one folder for each dataset."""

SPEC_FILE = "dataset.yaml"
"""Name of the file that ``bench data import`` writes beside a user's files."""


@cache
def packaged_datasets() -> dict[str, DatasetSpec]:
    """The datasets that ship with the package, by name."""
    folder = resources.files("genrec_unlearn_bench.tasks") / "datasets"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda entry: entry.name)
    specs = [load_spec(entry.read_text(encoding="utf-8"), f"datasets/{entry.name}") for entry in files]
    return {spec.name: spec for spec in specs}


def datasets(data_dir: Path | None = None) -> dict[str, DatasetSpec]:
    """Every dataset by name: the packaged ones, then those imported into a data folder.

    A name that ships with the package always means the packaged dataset; ``bench data import`` refuses to reuse one.

    Raises:
        ConfigError: a ``dataset.yaml`` in one of the folders is broken.
    """
    found = dict(packaged_datasets())
    for path in _imported(data_dir):
        spec = load_spec_file(path)
        if path.parent.name not in (spec.name, *spec.aliases):
            # An imported folder keeps the name it had; the files are looked for by that name, too.
            spec = spec.model_copy(update={"aliases": (*spec.aliases, path.parent.name)})
        found.setdefault(spec.name, spec)
    return found


def find_dataset(name: str, data_dir: Path | None = None) -> DatasetSpec:
    """The dataset called ``name``; raises UnknownName with the nearest names there are."""
    packaged = packaged_datasets()
    if name in packaged:
        return packaged[name]
    known = datasets(data_dir)
    if name not in known:
        raise UnknownName("dataset", name, known)
    return known[name]


def data_roots() -> list[Path]:
    """Folders that hold one folder for each dataset, in the order in which they are searched."""
    import platformdirs

    named = os.environ.get(DATA_VARIABLE)
    default = Path(platformdirs.user_data_dir("genrec-unlearn-bench", appauthor=False)) / "data"
    return [*([Path(named).expanduser()] if named else []), default]


def _imported(data_dir: Path | None) -> Iterator[Path]:
    own = [] if data_dir is None else [data_dir]
    yield from (path for folder in own if (path := folder / SPEC_FILE).is_file())
    for root in [*own, *data_roots()]:
        yield from sorted(root.glob(f"*/{SPEC_FILE}"))
