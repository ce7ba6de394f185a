"""The known datasets, packaged or imported, and their specification (YAML): format, files, split, filtering, terms.

This module imports neither NumPy nor a reader, as ``bench ls`` has to be quick.
"""

from __future__ import annotations

import json
import os
import warnings
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from genrec_unlearn_bench.config import StrictModel, first_fault, parse_yaml
from genrec_unlearn_bench.data.formats import FormatName, role_faults
from genrec_unlearn_bench.errors import ConfigError, DataMissing, UnknownName
from genrec_unlearn_bench.files import atomic_text

SplitName = Literal["global-time", "as-given", "leave-one-out"]
TextField = Literal["title", "brand", "categories", "description", "text"]
ItemField = Literal["id", "title", "brand", "price", "categories", "description", "text"]

M = TypeVar("M", bound=StrictModel)


class FileSpec(StrictModel):
    """One file of a dataset."""

    role: str
    """What the reader calls it (items, interactions, reviews, meta, train …)."""
    names: tuple[str, ...] = Field(min_length=1)
    """Where it lies in the dataset's folder; of several, the first that exists. A download gets the first name."""
    url: str | None = Field(default=None, pattern="^https?://[^/]")
    """Public address, where there is a stable one."""
    blake2b: str | None = Field(default=None, pattern="^[0-9a-f]{32}$")
    """blake2b-128 of the public file, where known; a download that differs is refused."""
    header: tuple[str, ...] | None = None
    """Tables: names of the columns of a text file whose first line is data already."""
    sep: str | None = Field(default=None, pattern=r'^[^\r\n"]+$')
    """Tables: what stands between the cells of a text file; a comma, or a tab in ``.tsv``, where none is given."""
    encoding: Literal["utf-8", "latin-1", "cp1252"] = "utf-8"
    """Tables: how a text file is encoded."""

    @field_validator("names")
    @classmethod
    def _stay_inside(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            path = PurePosixPath(name)
            if not name or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
                raise ValueError(f"{name!r} does not lie inside the dataset's folder")
        return names


class Column(StrictModel):
    """Where a table has a field: in one column, or in the first of several that is not empty."""

    columns: tuple[str, ...] = Field(alias="from", min_length=1)
    """``details.Brand`` is the field ``Brand`` of a nested column."""
    split: str | None = Field(default=None, min_length=1)
    """What stands between the values of a field with many."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        """``title: name`` and ``brand: [details.Brand, store]`` for ``{from: ...}``."""
        content = value if isinstance(value, dict) else {"from": value}
        source = content.get("from")
        return {**content, "from": (source,)} if isinstance(source, str) else content


AttributeName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,38}$")]
RESERVED_NAMES = {*get_args(ItemField), "category", "concept", "entangled", "interaction", "item"}
"""What no attribute is called: fields of items, kinds of concepts, and the column that marks concept items."""


class Columns(StrictModel):
    """Which column of a table is which field."""

    interactions: dict[Literal["user", "item", "time", "history"], Column] = Field(default_factory=dict)
    items: dict[ItemField, Column] = Field(default_factory=dict)
    attributes: dict[AttributeName, Column] = Field(default_factory=dict)
    """Further fields of items, of which concepts can be made (``kind: attribute``)."""

    @model_validator(mode="after")
    def _whole(self) -> Columns:
        if taken := sorted(RESERVED_NAMES.intersection(self.attributes)):
            raise ValueError(f"attributes cannot be called {', '.join(taken)}")
        return self


class TableMapping(StrictModel):
    """The part of a dataset's YAML that ``bench data import --map`` is given."""

    columns: Columns = Columns()
    """Tables: which column is which field. RecBole: what its own names do not say."""
    files: tuple[FileSpec, ...] = ()
    """In a mapping, where they have other names than ``interactions.csv`` and so on."""
    text_fields: tuple[str, ...] = ("title", "brand", "categories", "description", "text")
    """The fields that make up an item's text, in order; attributes may be among them."""


class HubSource(StrictModel):
    """A dataset repository of the Hugging Face Hub at one commit."""

    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    revision: str = Field(pattern="^[0-9a-f]{40}$")


class Citation(StrictModel):
    """A paper that results on this dataset have to cite."""

    key: str
    bibtex: str


class DatasetSpec(TableMapping):
    """A dataset by name. Everything that decides what is read is in here."""

    name: str = Field(pattern="^[a-z0-9]+(-[a-z0-9]+)*$", max_length=40)
    """Lower-case letters, digits and hyphens; tasks are called ``<name>-brand`` and so on."""
    title: str
    format: FormatName
    aliases: tuple[Annotated[str, Field(pattern=r"^\w[^/\\]*$")], ...] = ()
    """Other names that the dataset's folder may have."""
    split: SplitName
    k_core: int = Field(default=0, ge=0)
    """Filtering that is done here; 0 or 1 for none."""
    hub: HubSource | None = None
    """Where missing files are fetched from, by their names."""
    terms: str = ""
    """Licence or terms of use."""
    where: str = ""
    """How to get the files that have no public address."""
    citations: tuple[Citation, ...] = ()
    notes: tuple[str, ...] = ()


def check_spec(spec: DatasetSpec, where: str) -> None:
    """Raise ConfigError where format, files, split and filtering do not go together."""
    faults = role_faults(spec.format, [file.role for file in spec.files])
    roles = {file.role for file in spec.files}
    given = spec.format == "minionerec" or "train" in roles
    if given != (spec.split == "as-given"):
        faults.append(
            "split: as-given goes with rows that come with their split (minionerec, tables train, valid, test)"
        )
    if given and not {"train", "valid", "test"} <= roles:
        faults.append("files: rows that come with their split need files train, valid and test")
    log, items = set(spec.columns.interactions), set(spec.columns.items)
    if spec.format == "table" and (lacking := {"user", "item", *(("history",) if given else ())} - log):
        faults.append(f"columns.interactions: {', '.join(sorted(lacking))} missing (an import takes them from --map)")
    if spec.format == "table" and "items" in roles and "id" not in items:
        faults.append("columns.items: id missing")
    known = {*get_args(TextField), *spec.columns.attributes}
    faults += [f"text_fields: no field of items is called {name!r}" for name in spec.text_fields if name not in known]
    if given and spec.k_core > 1:
        faults.append("k_core: rows that come with their split are not filtered")
    undated = spec.format == "letter" or "sequences" in roles or (spec.format == "table" and "time" not in log)
    if undated and spec.split == "global-time":
        faults.append("split: without dates, sequences can only be split leave-one-out")
    if faults:
        raise ConfigError(faults, where=where)


def load_spec(path: Path) -> DatasetSpec:
    """Read a dataset's YAML file; raises ConfigError."""
    spec = read_yaml(DatasetSpec, path)
    check_spec(spec, str(path))
    return spec


def read_yaml(
    model: type[M], path: Path, *, hint: str = "give the path of a YAML file, or a name that `bench ls` lists"
) -> M:
    """Read a YAML file; raises ConfigError with every fault at once."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8 text"
        raise ConfigError([f"the file cannot be read: {reason}"], where=str(path), hint=hint) from None
    return parse_yaml(model, text, where=str(path))


DATA_VARIABLE = "GENREC_UNLEARN_BENCH_DATA"
"""Environment variable: a folder that holds one folder for each dataset."""

SPEC_FILE = "dataset.yaml"
"""Name of the file that ``bench data import`` writes beside a user's files."""
IMPORTED = "imported.json"
"""File of a data folder with the name and folder of each dataset that was imported."""


@cache
def packaged_datasets() -> dict[str, DatasetSpec]:
    """The datasets that ship with the package, by name."""
    folder = Path(str(resources.files("genrec_unlearn_bench.tasks") / "datasets"))
    return {spec.name: spec for spec in map(load_spec, sorted(folder.glob("*.yaml")))}


def datasets(data_dir: Path | None = None, broken: list[ConfigError] | None = None) -> dict[str, DatasetSpec]:
    """Every dataset by name: the packaged ones, then those imported into a data folder.

    A ``dataset.yaml`` that is broken is left out: with a warning, or added to ``broken``.
    """
    found = dict(packaged_datasets())
    own = [] if data_dir is None else [data_dir]
    within = [path for root in [*own, *data_roots()] for path in sorted(root.glob(f"*/{SPEC_FILE}"))]
    for path in [*(folder / SPEC_FILE for folder in (*own, *imported_folders().values())), *within]:
        if os.path.isfile(path):
            try:
                spec = load_spec(path)
            except ConfigError as fault:
                if broken is None:
                    warnings.warn(f"a dataset is left out: {fault}", stacklevel=1)
                else:
                    broken.append(fault)
                continue
            # An imported folder keeps the name it had; the files are looked for by that name, too.
            more = {path.parent.name} - {spec.name, *spec.aliases}
            found.setdefault(spec.name, spec.model_copy(update={"aliases": (*spec.aliases, *more)}))
    return found


def find_dataset(name: str, data_dir: Path | None = None) -> DatasetSpec:
    """The dataset called ``name``. Raises UnknownName, or ConfigError where it may be one whose YAML is broken."""
    packaged, broken = packaged_datasets(), list[ConfigError]()
    known = packaged if name in packaged else datasets(data_dir, broken)
    if name in known:
        return known[name]
    folder = imported_folders().get(name)
    for fault in broken:
        if (place := Path(fault.where or "").parent) in (folder, data_dir) or place.name == name:
            raise fault
    if folder is not None:
        raise DataMissing(
            f"the dataset {name!r} was imported from a folder that does not hold it any more",
            where=str(folder),
            hint="import it again from where it lies now: bench data import FOLDER --name NAME",
        )
    raise UnknownName("dataset", name, known)


def data_roots() -> list[Path]:
    """Folders that hold one folder for each dataset, in the order in which they are searched."""
    import platformdirs

    named = os.environ.get(DATA_VARIABLE)
    default = Path(platformdirs.user_data_dir("genrec-unlearn-bench", appauthor=False)) / "data"
    return [*([Path(named).expanduser()] if named else []), default]


def imported_folders() -> dict[str, Path]:
    """The folder of every imported dataset by name; of two roots the first counts."""
    found: dict[str, Path] = {}
    for root in data_roots():
        if (path := root / IMPORTED).exists():
            try:
                found = TypeAdapter(dict[str, Path]).validate_json(path.read_bytes()) | found
            except ValidationError as fault:
                hint = "correct the file, or delete it and import the datasets again"
                raise ConfigError([first_fault(fault)], where=str(path), hint=hint) from None
    return found


def remember_import(name: str, folder: Path) -> None:
    """Make a dataset known by name; an earlier one of that name or folder gives way. Raises StorageError."""
    folder = folder.resolve()
    known = {other: str(place) for other, place in imported_folders().items() if place != folder}
    text = json.dumps({**known, name: str(folder)}, indent=2, ensure_ascii=False)
    atomic_text(data_roots()[0] / IMPORTED, f"{text}\n", "the data folder")
