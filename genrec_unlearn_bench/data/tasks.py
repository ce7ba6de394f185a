"""Tasks: their specification, those that ship, and finding one by name or file.

A task names a dataset, a concept and a seed, with every parameter of the draw as a field. Its version rises whenever a
change here, in ``data.concepts`` or (for entangled draws) in ``data.neighbours`` would make it resolve to something
else. This module does without NumPy, as ``bench ls`` has to be quick.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.catalogue import datasets, find_dataset, packaged_datasets, read_yaml
from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.files import atomic_text

Share = Annotated[float, Field(gt=0.0, lt=1.0)]


class ConceptKind(StrEnum):
    """Kind of the concept that is to be forgotten."""

    BRAND = "brand"
    ATTRIBUTE = "attribute"
    PRICE = "price"
    ITEM = "item"
    INTERACTION = "interaction"


class DrawnConcept(StrictModel):
    """Items drawn to a share of the train targets."""

    target_share: Share = 0.10
    """Share of the train targets that the drawn items should have together."""
    tolerance: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.01
    """How far from ``target_share`` a draw may lie."""


class ValuesConcept(DrawnConcept):
    """Values of an item field, drawn to a share of the train targets."""

    draw: Literal["uniform", "entangled"] = "uniform"
    """``entangled``: the values whose neighbours would be retained most (``data.neighbours``)."""
    largest_share: Share = 0.03
    """``entangled``: values with a larger share of the train targets are not drawn."""
    max_draws: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """``uniform``: after so many draws the nearest one is taken, and the manifest says so."""


class BrandConcept(ValuesConcept):
    """Brands drawn uniformly or by entanglement to a share of the train targets, or a given list of brands."""

    kind: Literal["brand"] = "brand"
    share_of_brands: Share = 0.05
    """``uniform``: share of the catalogue's brands in one draw, ``max(1, floor(share * brands + 1/2))`` of them."""
    brands: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """These brands instead of a draw (their spelling is normalised as the catalogue's is)."""


class AttributeRule(StrictModel):
    """A field of the items, how its values are read, and when they put an item into a concept (``data.attributes``)."""

    field: Annotated[str, Field(min_length=1)] = "categories"
    """brand, categories, title, description, text, or any attribute of the dataset."""
    match: Literal["any", "all", "first"] = "any"
    """Items are forgotten if any of their values is chosen, if all are, or if the first is; those without, never."""
    path: bool = False
    """Values are paths (``Sports > Running``), and each beginning of one is a value of the item as well."""
    split: Annotated[str, Field(min_length=1)] | None = None
    """What stands between the values of a field that holds them as one text, as ", "."""


class AttributeConcept(AttributeRule, ValuesConcept):
    """Values of any item field, drawn to a share of the train targets, or a given list of them."""

    kind: Literal["attribute"] = "attribute"
    min_items: Annotated[int, Field(ge=1)] = 5
    """``uniform``: values of fewer items are not drawn."""
    values: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """These values instead of a draw (compared without case and spacing)."""

    @model_validator(mode="after")
    def _measurable(self) -> AttributeConcept:
        if self.draw == "entangled" and self.match == "all":
            raise ValueError("draw: entangled needs match: any or first, as it weighs every value by itself")
        return self


class PriceConcept(StrictModel):
    """One band of prices, or of another numeric field, of several of equal size."""

    kind: Literal["price"] = "price"
    bands: Annotated[int, Field(ge=2, le=100)] = 5
    """Number of quantile bands over the items that have a number."""
    band: Annotated[int, Field(ge=1)] | None = None
    """The band to be forgotten, from 1 (cheapest); the top one where none is given."""
    field: Annotated[str, Field(min_length=1, exclude_if=lambda name: name == "price")] = "price"
    """``price``, or any field of the items that holds numbers, such as a year; written there alone."""

    @model_validator(mode="after")
    def _there_is_such_a_band(self) -> PriceConcept:
        if self.band is not None and self.band > self.bands:
            raise ValueError(f"there is no band {self.band} of {self.bands}")
        return self


class ItemConcept(DrawnConcept):
    """Single items, as popular on average as the catalogue is."""

    kind: Literal["item"] = "item"
    strata: Annotated[int, Field(ge=1, le=1000)] = 5
    """Popularity strata: items by their number of train targets, cut into so many parts of equal size."""
    max_draws: Annotated[int, Field(ge=1, le=100_000)] = 100
    """After so many draws the nearest one is taken, and the manifest says so."""


class InteractionConcept(StrictModel):
    """Single interactions; every item stays in the catalogue."""

    kind: Literal["interaction"] = "interaction"
    share: Share = 0.05
    """Share of the distinct (user, item) pairs among the train examples."""
    valid_share: Share = 0.10
    """Share of the drawn pairs whose examples are the validation forget group; the others are the test forget group."""


Concept = Annotated[
    BrandConcept | AttributeConcept | PriceConcept | ItemConcept | InteractionConcept, Field(discriminator="kind")
]


class TaskSpec(StrictModel):
    """One task: a dataset, what is asked to be forgotten, and the seed of the draw."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=80)]
    version: Annotated[int, Field(ge=1)] = 1
    """Rises whenever the task would resolve to something else on the same dataset."""
    dataset: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=80)]
    concept: Concept
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draw. It has nothing to do with the training seed of a run."""
    title: str = ""
    description: str = ""

    @property
    def kind(self) -> ConceptKind:
        return ConceptKind(self.concept.kind)


DEFAULT_CONCEPTS: dict[str, Concept] = {
    concept.kind: concept
    for concept in (BrandConcept(), AttributeConcept(), PriceConcept(), ItemConcept(), InteractionConcept())
}
"""By kind, with the protocol's parameters: what a task on an imported dataset asks for."""

TASK_ENDINGS: dict[str, Concept] = {
    **{kind: concept for kind, concept in DEFAULT_CONCEPTS.items() if kind != "attribute"},
    "category": AttributeConcept(),
    "entangled": BrandConcept(draw="entangled"),
}
"""What a task asks for, by the end of its name."""


def tasks() -> dict[str, TaskSpec]:
    """Every task that ships, by name, in the order of names."""
    folder = Path(str(resources.files("genrec_unlearn_bench.tasks")))
    return {task.name: task for task in (read_yaml(TaskSpec, path) for path in sorted(folder.glob("*.yaml")))}


def all_tasks(data_dir: Path | None = None) -> dict[str, TaskSpec]:
    """Every task by name: those that ship, and the default ones of each imported dataset."""
    imported = [spec for name, spec in datasets(data_dir).items() if name not in packaged_datasets()]
    own = [f"{spec.name}-{ending}" for spec in imported for ending in (*TASK_ENDINGS, *spec.columns.attributes)]
    return tasks() | {name: find_task(name, data_dir) for name in own}


def find_task(name: str, data_dir: Path | None = None) -> TaskSpec:
    """Find a task by its name, or read it from a ``.yaml`` or ``.yml`` file. Raises UnknownName or ConfigError.

    A name is looked for among the tasks that ship; ``<dataset>-<kind>`` of any other dataset, as an imported one, asks
    for the protocol's default concept of that kind or on that attribute, ``<dataset>-entangled`` for entangled brands.
    """
    if name.endswith((".yaml", ".yml")):
        return read_yaml(TaskSpec, Path(name))
    known = tasks()
    if name in known:
        return known[name]
    dataset, _, kind = name.rpartition("-")
    if dataset:
        with suppress(UnknownName, KeyError):
            found = find_dataset(dataset, data_dir)
            own = {field: AttributeConcept(field=field) for field in found.columns.attributes}
            concept = {**own, **TASK_ENDINGS}[kind]
            title = f"The protocol's default concept of the kind {kind} on {found.title or found.name}"
            return TaskSpec(name=name, dataset=found.name, title=title, concept=concept)
    raise UnknownName("task", name, known)


def task_file(task: TaskSpec, folder: Path) -> str:
    """Write a task to a file below a folder, by its content. Returns the path; raises StorageError."""
    text = yaml.safe_dump(task.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    path = folder / ".tasks" / hashlib.blake2b(text.encode(), digest_size=8).hexdigest() / f"{task.name}.yaml"
    atomic_text(path, text, "results_dir")
    return str(path)
