"""Resolve a task on a dataset: what is forgotten and what is retained (protocol §2).

The forget set is every example whose target is a concept item (for ``interaction``: the drawn examples); all others
are retained, in train, validation and test alike. Retain histories keep their concept items; the share is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from genrec_unlearn_bench.data.attributes import AttributeValues, number_bands, value_key
from genrec_unlearn_bench.data.dataset import PARTS, Dataset
from genrec_unlearn_bench.data.draws import (
    Draw,
    Target,
    draw_from_top,
    draw_joined,
    draw_stratified,
    draw_subset,
    rounded,
    uniform_subsets,
)
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray, among, distinct
from genrec_unlearn_bench.data.fields import brand_key, clean_brand
from genrec_unlearn_bench.data.forget import Entanglement, ForgetSplit, Groups, sealed
from genrec_unlearn_bench.data.neighbours import Neighbours, concept_entanglement, entanglement, find_neighbours
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
from genrec_unlearn_bench.errors import ConfigError, DataFault
from genrec_unlearn_bench.seeding import numpy_generator

_PRICED_PER_BAND = 4
"""Fewer priced items than this for each band, and a band is no concept but a few items by chance."""


class _Chosen(NamedTuple):
    """The items of a concept, and how they were found."""

    items: BoolArray
    concepts: tuple[str, ...]
    draws: int = 1
    within: bool = True
    entangled: tuple[Neighbours, tuple[float, ...], float] | None = None
    """Behind an entangled draw: neighbours, entanglement of each value, and its mean over the catalogue."""


def resolve(task: TaskSpec, dataset: Dataset) -> ForgetSplit:
    """Divide a dataset into forget and retain sides; the same task and dataset give the same manifest, byte for byte.

    Raises UnknownName for a field that items do not have, ConfigError where the concept covers all items or names what
    no item has, and DataFault where nothing can be drawn, or prices or interactions are too few.
    """
    if isinstance(task.concept, InteractionConcept):
        return _interactions(task, task.concept, dataset)
    if isinstance(task.concept, BrandConcept | AttributeConcept):
        chosen = _values(task, task.concept, dataset)
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


def _target(dataset: Dataset, concept: BrandConcept | AttributeConcept | ItemConcept) -> Target:
    return Target(max(len(dataset.train), 1), concept.target_share, concept.tolerance, concept.max_draws)


def _values(task: TaskSpec, concept: BrandConcept | AttributeConcept, dataset: Dataset) -> _Chosen:
    """Values of a field, named or drawn: uniformly (a share of all brands, other values one by one) or entangled."""
    rule = AttributeRule(field="brand") if isinstance(concept, BrandConcept) else concept
    what = "brand" if isinstance(concept, BrandConcept) else f"{rule.field} value"
    found = AttributeValues.of(dataset.items, rule)
    if not found.names:
        raise DataFault(
            f"no item of {dataset.name!r} has a {what}, so there is no {what} to forget",
            where=_where(task),
            hint=f"give items a {what}, or take another kind: item, interaction, or price where there are prices",
        )
    counts, target, entangled = _target_counts(dataset), _target(dataset, concept), None
    listed = concept.brands if isinstance(concept, BrandConcept) else concept.values
    if listed is not None:
        draw = Draw(_listed(task, what, listed, rule, found.names), 1, within=True)
    elif concept.draw == "entangled":
        neighbours = find_neighbours(dataset)
        scores, weights = entanglement(found.members, counts, neighbours), np.asarray(found.members.T @ counts)
        generator = numpy_generator(task.seed, "concept", "entangled", what)
        draw = draw_from_top(scores, found.members, counts, target, largest=concept.largest_share, generator=generator)
        catalogue = float(scores @ weights / max(weights.sum(), 1))
        entangled = neighbours, tuple(scores[draw.chosen].tolist()), catalogue
    elif isinstance(concept, BrandConcept):
        size = rounded(concept.share_of_brands, len(found.names))
        generator = numpy_generator(task.seed, "concept", "brand")
        draw = draw_subset(np.asarray(found.members.T @ counts), size, target, generator)
    else:
        # Unless each of an item's values must be chosen, none can be that alone exceeds the share (the root of a tree).
        own = np.asarray(found.members.T @ counts)
        fitting = (own <= (target.share + target.tolerance) * target.total + 1e-9) | found.every
        enough = np.asarray(found.members.sum(axis=0)).ravel() >= concept.min_items
        candidates = np.flatnonzero(enough & fitting).astype(np.int64)
        generator = numpy_generator(task.seed, "concept", "attribute", concept.field)
        draw = draw_joined(candidates, len(found.names), found.joined, counts[found.rows], target, generator)
    if not len(draw.chosen):
        raise DataFault(
            f"none of the {len(found.names)} {what}s in {dataset.name!r} can be drawn: each has too few items, too "
            "large a share of the train targets or, for an entangled draw, no neighbours that would be retained",
            where=_where(task),
            hint="lower concept.min_items, raise concept.target_share or largest_share, or name what to forget",
        )
    names = tuple(found.names[row] for row in draw.chosen)
    return _Chosen(found.items_of(draw.chosen), names, draw.draws, draw.within, entangled)


def _listed(task: TaskSpec, what: str, wanted: Sequence[str], rule: AttributeRule, names: Sequence[str]) -> IntArray:
    """Rows of the ``wanted`` spellings among the names of brands or of values of a field."""
    code = {brand_key(name): row for row, name in enumerate(names)}
    keys = [brand_key(clean_brand(name)) if what == "brand" else value_key(name, rule) for name in wanted]
    if absent := [name for name, key in zip(wanted, keys, strict=True) if key not in code]:
        near = [" or ".join(map(repr, get_close_matches(name, names))) for name in absent]
        hints = [f"; did you mean {close}?" if close else "" for close in near]
        faults = [f"no item has the {what} {name!r}{hint}" for name, hint in zip(absent, hints, strict=True)]
        raise ConfigError(faults, where=_where(task))
    return np.unique([code[key] for key in keys])


def _prices(task: TaskSpec, concept: PriceConcept, dataset: Dataset) -> _Chosen:
    numbers, band = dataset.items.numbers(concept.field), concept.band or concept.bands
    valid = numbers[np.isfinite(numbers)]
    different = len(np.unique(valid))
    if len(valid) < _PRICED_PER_BAND * concept.bands or different < concept.bands:
        raise DataFault(
            f"{len(valid)} of the {len(dataset.items)} items of {dataset.name!r} have a number as {concept.field}, "
            f"{different} different ones; {concept.bands} bands need {_PRICED_PER_BAND * concept.bands} and "
            f"{concept.bands}",
            where=_where(task),
            hint="take a dataset with prices (demo, steam), another field, or another kind: brand, item, interaction",
        )
    items = number_bands(numbers, concept.bands) == band
    low, high = float(numbers[items].min()), float(numbers[items].max())
    return _Chosen(items, (f"{concept.field} {low!r} to {high!r} (band {band} of {concept.bands})",))


def _single_items(task: TaskSpec, concept: ItemConcept, dataset: Dataset) -> _Chosen:
    counts = _target_counts(dataset)
    if not counts.any():
        raise _empty(task, dataset, "train", "example")
    generator = numpy_generator(task.seed, "concept", "item")
    draw = draw_stratified(counts, concept.strata, _target(dataset, concept), generator)
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
    kept = parts[0].retain
    thinned = kept.drop_events(among(train.event_users * width + train.events, drawn))
    chosen = _Chosen(np.zeros(width, dtype=np.bool_), ())
    pairs = np.stack([drawn // width, drawn % width], axis=1)
    return _split(task, dataset, chosen, pairs, parts, thinned.history_lengths() < kept.history_lengths())


def _split(
    task: TaskSpec, dataset: Dataset, chosen: _Chosen, pairs: IntArray, parts: Sequence[Groups], affected: BoolArray
) -> ForgetSplit:
    named = list(zip(PARTS, parts, strict=True))
    counts = {f"{name}_{side}": len(getattr(part, side)) for name, part in named for side in ("forget", "retain")}
    for group, count in counts.items():
        # Validation without forget examples is allowed: a deletion request for one small brand can still be measured.
        if not count and group != "valid_forget":
            name, side = group.split("_")
            raise _empty(task, dataset, name, f"{side} example")
    ids = dataset.items.ids
    near, measure, rule = None, None, None
    if chosen.entangled is not None:
        neighbours, values, catalogue = chosen.entangled
        near = neighbours.of(chosen.items)
        # Sums of floats may differ in the last places between libraries; a manifest must not.
        measure = Entanglement(
            concept=round(concept_entanglement(chosen.items, _target_counts(dataset), neighbours), 6),
            values=tuple(round(value, 6) for value in values),
            catalogue=round(catalogue, 6),
            retain_near={name: int(near[groups.retain.targets].sum()) for name, groups in named},
        )
    if isinstance(task.concept, AttributeConcept):
        rule = AttributeRule(**task.concept.model_dump(include=set(AttributeRule.model_fields)))
    elif isinstance(task.concept, PriceConcept) and task.concept.field != "price":
        rule = AttributeRule(field=task.concept.field)
    manifest = sealed(
        task=task.name,
        version=task.version,
        dataset=dataset.name,
        dataset_digest=dataset.manifest.digest,
        kind=task.kind,
        concepts=chosen.concepts,
        forget_items=tuple(ids[row] for row in np.flatnonzero(chosen.items)),
        forget_interactions=tuple((int(user), ids[item]) for user, item in pairs),
        train_share=len(parts[0].forget) / len(dataset.train),
        draws=chosen.draws,
        within_tolerance=chosen.within,
        retain_history_share=float(affected.sum()) / len(affected),
        counts=counts,
        entanglement=measure,
        attribute=rule,
    )
    train, valid, test = parts
    return ForgetSplit(task.kind, chosen.items, pairs, train, valid, test, manifest, near)


def _empty(task: TaskSpec, dataset: Dataset, part: str, what: str) -> DataFault:
    return DataFault(
        f"the {part} part of {dataset.name!r} has no {what}: the task cannot be run",
        where=_where(task),
        hint="choose a larger concept, or a dataset with more interactions",
    )
