"""Resolve a task on a dataset: what is forgotten and what is retained (protocol §2).

The forget set is every example whose target is a concept item (for ``interaction``: the drawn examples); all others
are retained, in train, validation and test alike. Retain histories keep their concept items; the share is measured.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from genrec_unlearn_bench.data.attributes import AttributeValues, price_bands, valid_prices, value_key
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.draws import Draw, draw_from_top, draw_stratified, draw_subset, rounded, uniform_subsets
from genrec_unlearn_bench.data.entanglement import concept_entanglement, entanglement, members_of
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray, among, distinct
from genrec_unlearn_bench.data.fields import brand_key, clean_brand
from genrec_unlearn_bench.data.forget import Entanglement, ForgetSplit, Groups, sealed
from genrec_unlearn_bench.data.neighbours import Neighbours, find_neighbours
from genrec_unlearn_bench.data.tasks import (
    AttributeConcept,
    AttributeRule,
    BrandConcept,
    ConceptKind,
    InteractionConcept,
    ItemConcept,
    PriceConcept,
    TaskSpec,
)
from genrec_unlearn_bench.errors import BenchError, ConfigError, DataFault, UnknownName
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_PRICED_PER_BAND = 4
"""Fewer priced items than this for each band, and a band is no concept but a few items by chance."""
_LISTED = {"brand": "brands", "attribute": "values"}
"""Option that names the values of a concept of a kind."""


class _Entangled(NamedTuple):
    """The measure behind an entangled draw."""

    neighbours: Neighbours
    values: tuple[float, ...]
    catalogue: float


class _Chosen(NamedTuple):
    """The items of a concept, and how they were found."""

    items: BoolArray
    concepts: tuple[str, ...]
    draws: int = 1
    within: bool = True
    entangled: _Entangled | None = None


def resolve(task: TaskSpec, dataset: Dataset) -> ForgetSplit:
    """Divide a dataset into forget and retain sides; the same task and dataset give the same manifest, byte for byte.

    Raises:
        ConfigError: The task's own parameters leave nothing to forget or to retain, or name brands that do not exist.
        DataFault: The dataset has no values of the field, none that can be drawn, too few prices, or too few
            interactions for the task.
    """
    if isinstance(task.concept, InteractionConcept):
        return _interactions(task, task.concept, dataset)
    if isinstance(task.concept, AttributeConcept):
        chosen = _attribute(task, task.concept, dataset)
    elif isinstance(task.concept, BrandConcept) and task.concept.draw == "entangled" and task.concept.brands is None:
        named = [(brand,) if brand else () for brand in dataset.items.brands]
        chosen = _entangled(task, task.concept, "brand", *members_of(named), dataset)
    elif isinstance(task.concept, BrandConcept):
        chosen = _brands(task, task.concept, dataset)
    elif isinstance(task.concept, PriceConcept):
        chosen = _prices(task, task.concept, dataset)
    else:
        chosen = _single_items(task, task.concept, dataset)
    if chosen.items.all():
        raise ConfigError(
            [f"the concept covers all {len(dataset.items)} items of {dataset.name!r}: nothing is left to retain"],
            where=_where(task),
            hint="choose fewer brands, or a narrower concept",
        )
    parts = [_divided(part, chosen.items[part.targets]) for part in (dataset.train, dataset.valid, dataset.test)]
    affected = parts[0].retain.history_contains(chosen.items)
    pairs = np.empty((0, 2), dtype=np.int64)
    return _split(task, dataset, chosen, pairs, parts, affected)


def with_neighbours(split: ForgetSplit, dataset: Dataset) -> ForgetSplit:
    """The same task with the retain items marked that are neighbours of its concept, if that names items."""
    if split.near is not None or split.kind is ConceptKind.INTERACTION:
        return split
    return replace(split, near=find_neighbours(dataset).of(split.items))


def _where(task: TaskSpec) -> str:
    return f"task {task.name!r} on dataset {task.dataset!r}"


def _divided(part: Examples, forget: BoolArray) -> Groups:
    return Groups(part.subset(forget), part.subset(~forget))


def _target_counts(dataset: Dataset) -> IntArray:
    """[N] number of train examples with each item as their target."""
    return np.bincount(dataset.train.targets, minlength=len(dataset.items)).astype(np.int64)


def _brands(task: TaskSpec, concept: BrandConcept, dataset: Dataset) -> _Chosen:
    named = np.asarray([bool(brand) for brand in dataset.items.brands], dtype=np.bool_)
    names = sorted({brand for brand in dataset.items.brands if brand})
    if not names:
        raise _without_values(task, "brand", dataset)
    code = {name: row for row, name in enumerate(names)}
    item_codes = np.asarray([code.get(brand, -1) for brand in dataset.items.brands], dtype=np.int64)
    if concept.brands is not None:
        rows = _listed(task, "brand", [(brand, brand_key(clean_brand(brand))) for brand in concept.brands], names)
        return _Chosen(named & np.isin(item_codes, rows), tuple(names[row] for row in rows))
    counts = _target_counts(dataset)
    weights = np.zeros(len(names), dtype=np.int64)
    np.add.at(weights, item_codes[named], counts[named])
    draw = draw_subset(
        weights,
        rounded(concept.share_of_brands, len(names)),
        total=max(len(dataset.train), 1),
        target=concept.target_share,
        tolerance=concept.tolerance,
        max_draws=concept.max_draws,
        generator=numpy_generator(task.seed, "concept", "brand"),
    )
    chosen = named & np.isin(item_codes, draw.chosen)
    return _Chosen(chosen, tuple(names[row] for row in draw.chosen), draw.draws, draw.within)


def _listed(task: TaskSpec, what: str, wanted: Sequence[tuple[str, str]], names: Sequence[str]) -> list[int]:
    """Rows of the ``wanted`` (spelling, comparison key) among the names of brands or of values of a field."""
    rows: set[int] = set()
    faults = []
    code = {brand_key(name): row for row, name in enumerate(names)}
    for spelling, key in wanted:
        if key in code:
            rows.add(code[key])
            continue
        near = [names[code[other]] for other in difflib.get_close_matches(key, code, n=3, cutoff=0.6)]
        faults.append(f"no item has the {what} {spelling!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
    if faults:
        raise ConfigError(faults, where=f"{_where(task)}: concept.{_LISTED[task.concept.kind]}")
    return sorted(rows)


def _without_values(task: TaskSpec, what: str, dataset: Dataset) -> DataFault:
    other = "take another kind: item, interaction, or price where there are prices"
    return DataFault(
        f"no item of {dataset.name!r} has a {what}, so there is no {what} to forget",
        where=_where(task),
        hint=f"give items a {what}, or {other}",
    )


def _attribute(task: TaskSpec, concept: AttributeConcept, dataset: Dataset) -> _Chosen:
    try:
        found = AttributeValues.of(dataset.items, concept)
    except KeyError:
        known = ("brand", "categories", "title", "description", "text", *dataset.items.attributes)
        raise UnknownName("field of items", concept.field, known) from None
    if not found.names:
        raise _without_values(task, f"{concept.field} value", dataset)
    if concept.values is not None:
        wanted = [(name, value_key(name, concept)) for name in concept.values]
        draw = Draw(
            np.asarray(_listed(task, f"{concept.field} value", wanted, found.names), dtype=np.int64), 1, within=True
        )
    elif concept.draw == "entangled":
        return _entangled(task, concept, f"{concept.field} value", list(found.names), found.members, dataset)
    else:
        generator = numpy_generator(task.seed, "concept", "attribute", concept.field)
        draw = found.draw(concept, _target_counts(dataset), max(len(dataset.train), 1), generator)
    if not len(draw.chosen):
        raise DataFault(
            f"none of the {len(found.names)} values of {concept.field} in {dataset.name!r} has {concept.min_items} "
            f"items or more and at most {concept.target_share + concept.tolerance:.0%} of the train targets",
            where=_where(task),
            hint="lower concept.min_items, raise concept.target_share, or name concept.values",
        )
    return _Chosen(found.items_of(draw.chosen), tuple(found.names[row] for row in draw.chosen), draw.draws, draw.within)


def _entangled(
    task: TaskSpec,
    concept: BrandConcept | AttributeConcept,
    what: str,
    names: list[str],
    members: csr_matrix,
    dataset: Dataset,
) -> _Chosen:
    """Draw the values of an attribute whose neighbours would be retained most; ``members``: [N, V]."""
    if not names:
        raise _without_values(task, what, dataset)
    counts, neighbours = _target_counts(dataset), find_neighbours(dataset)
    scores = entanglement(members, counts, neighbours)
    draw = draw_from_top(
        scores,
        members,
        counts,
        total=max(len(dataset.train), 1),
        target=concept.target_share,
        tolerance=concept.tolerance,
        largest=concept.largest_share,
        generator=numpy_generator(task.seed, "concept", "entangled", what),
    )
    if not len(draw.chosen):
        raise DataFault(
            f"no {what} of {dataset.name!r} has neighbours that would be retained and at most "
            f"{concept.largest_share:.0%} of the train targets",
            where=_where(task),
            hint="raise concept.largest_share, or take another kind or draw",
        )
    items = np.asarray(members[:, draw.chosen].sum(axis=1)).ravel() > 0
    weights = np.asarray(members.T @ counts)
    measure = _Entangled(
        neighbours, tuple(float(scores[row]) for row in draw.chosen), float(scores @ weights / max(weights.sum(), 1))
    )
    return _Chosen(items, tuple(names[row] for row in draw.chosen), draw.draws, draw.within, measure)


def _prices(task: TaskSpec, concept: PriceConcept, dataset: Dataset) -> _Chosen:
    prices = dataset.items.prices
    valid = valid_prices(prices)
    band = concept.bands if concept.band is None else concept.band
    if band > concept.bands:
        raise ConfigError(
            [f"concept.band is {band}, but there are {concept.bands} bands"],
            where=_where(task),
            hint=f"give a band from 1 (cheapest) to {concept.bands}",
        )
    different = len(np.unique(prices[valid]))
    if valid.sum() < _PRICED_PER_BAND * concept.bands or different < concept.bands:
        raise DataFault(
            f"{int(valid.sum())} of the {len(dataset.items)} items of {dataset.name!r} have a valid price, with "
            f"{different} different prices; {concept.bands} price bands need {_PRICED_PER_BAND * concept.bands} and "
            f"{concept.bands}",
            where=_where(task),
            hint="take a dataset with prices (demo, steam), or another kind: brand, item, interaction",
        )
    items = price_bands(prices, concept.bands) == band
    low, high = float(prices[items].min()), float(prices[items].max())
    return _Chosen(items, (f"price {low!r} to {high!r} (band {band} of {concept.bands})",))


def _single_items(task: TaskSpec, concept: ItemConcept, dataset: Dataset) -> _Chosen:
    counts = _target_counts(dataset)
    if not counts.any():
        raise _empty(task, dataset, "train", "example")
    draw = draw_stratified(
        counts,
        strata=concept.strata,
        total=len(dataset.train),
        target=concept.target_share,
        tolerance=concept.tolerance,
        max_draws=concept.max_draws,
        generator=numpy_generator(task.seed, "concept", "item"),
    )
    items = np.zeros(len(counts), dtype=np.bool_)
    items[draw.chosen] = True
    return _Chosen(items, tuple(dataset.items.ids[row] for row in draw.chosen), draw.draws, draw.within)


def _interactions(task: TaskSpec, concept: InteractionConcept, dataset: Dataset) -> ForgetSplit:
    """Draw train examples by their (user, item) pair; the drawn ones are also what is validated and tested on.

    The first item of a user's sequence is never a target, so it is never drawn.
    """
    width = len(dataset.items)
    train = dataset.train
    codes = train.users * width + train.targets
    pool = distinct(codes)
    size = rounded(concept.share, len(pool)) if len(pool) else 0
    if size < 2:
        raise DataFault(
            f"{concept.share:.0%} of the {len(pool)} train interactions of {dataset.name!r} are fewer than two, too "
            "few to validate and to test on",
            where=_where(task),
            hint="raise concept.share, or take a larger dataset",
        )
    generator = numpy_generator(task.seed, "concept", "interaction")
    drawn = pool[np.sort(uniform_subsets(len(pool), size, 1, generator)[0])]
    validation = drawn[uniform_subsets(size, min(rounded(concept.valid_share, size), size - 1), 1, generator)[0]]
    forget = among(codes, drawn)
    held = among(codes, np.sort(validation))
    parts = [
        _divided(train, forget),
        Groups(forget=train.subset(held), retain=dataset.valid),
        Groups(forget=train.subset(forget & ~held), retain=dataset.test),
    ]
    gone = among(train.event_users * width + train.events, drawn)
    before = np.concatenate([[0], np.cumsum(gone)])
    kept = parts[0].retain
    chosen = _Chosen(np.zeros(width, dtype=np.bool_), ())
    pairs = np.stack([drawn // width, drawn % width], axis=1)
    return _split(task, dataset, chosen, pairs, parts, np.asarray(before[kept.ends] > before[kept.starts]))


def _split(
    task: TaskSpec, dataset: Dataset, chosen: _Chosen, pairs: IntArray, parts: Sequence[Groups], affected: BoolArray
) -> ForgetSplit:
    train, valid, test = parts
    named = zip(("train", "valid", "test"), parts, strict=True)
    counts = {f"{name}_{side}": len(getattr(part, side)) for name, part in named for side in ("forget", "retain")}
    for group, count in counts.items():
        # Validation without forget examples is allowed: a deletion request for one small brand can still be measured.
        if not count and group != "valid_forget":
            name, side = group.split("_")
            raise _empty(task, dataset, name, f"{side} example", chosen.concepts)
    ids = dataset.items.ids
    near, measure = _measure(dataset, chosen, parts)
    manifest = sealed(
        task=task.name,
        version=task.version,
        dataset=dataset.name,
        dataset_digest=dataset.manifest.digest,
        kind=task.kind,
        concepts=chosen.concepts,
        forget_items=tuple(ids[row] for row in np.flatnonzero(chosen.items)),
        forget_interactions=tuple((int(user), ids[item]) for user, item in pairs),
        train_share=len(train.forget) / len(dataset.train),
        draws=chosen.draws,
        within_tolerance=chosen.within,
        retain_history_share=float(affected.sum()) / len(affected),
        counts=counts,
        entanglement=measure,
        attribute=_rule(task.concept) if isinstance(task.concept, AttributeConcept) else None,
    )
    return ForgetSplit(task.kind, chosen.items, pairs, train, valid, test, manifest, near)


def _rule(concept: AttributeConcept) -> AttributeRule:
    return AttributeRule(**{name: getattr(concept, name) for name in AttributeRule.model_fields})


def _measure(
    dataset: Dataset, chosen: _Chosen, parts: Sequence[Groups]
) -> tuple[BoolArray, Entanglement] | tuple[None, None]:
    """[N] the concept's retained neighbours and the manifest's measure, where values were drawn by it."""
    if chosen.entangled is None:
        return None, None
    near = chosen.entangled.neighbours.of(chosen.items)
    rows = zip(("train", "valid", "test"), parts, strict=True)
    return near, Entanglement(
        concept=_short(concept_entanglement(chosen.items, _target_counts(dataset), chosen.entangled.neighbours)),
        values=tuple(map(_short, chosen.entangled.values)),
        catalogue=_short(chosen.entangled.catalogue),
        retain_near={name: int(near[groups.retain.targets].sum()) for name, groups in rows},
    )


def _short(value: float) -> float:
    # Sums of floats may differ in the last places between libraries; a manifest must not.
    return round(value, 6)


def _empty(task: TaskSpec, dataset: Dataset, part: str, what: str, concepts: Sequence[str] = ()) -> BenchError:
    listing = f" for {', '.join(concepts[:5])}{' …' if len(concepts) > 5 else ''}" if concepts else ""
    message = f"the {part} part of {dataset.name!r} has no {what}{listing}: the task cannot be run"
    hint = "choose a larger concept, or a dataset with more interactions"
    field = _LISTED.get(task.concept.kind, "")
    if getattr(task.concept, field, None) is not None:
        return ConfigError([message], where=f"{_where(task)}: concept.{field}", hint=hint)
    return DataFault(message, where=_where(task), hint=hint)
