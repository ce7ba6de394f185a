from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from genrec_unlearn_bench.data.attributes import NO_BAND, number_bands
from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, manifest_digest
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.data.splits import global_time
from genrec_unlearn_bench.data.tasks import (
    DEFAULT_CONCEPTS,
    BrandConcept,
    Concept,
    InteractionConcept,
    ItemConcept,
    PriceConcept,
    TaskSpec,
)
from genrec_unlearn_bench.errors import ConfigError, DataFault, UnknownName
from tests.data.worlds import assembled, dataset, item_table

BRANDS = 60


def task(concept: Concept, *, seed: int = 0) -> TaskSpec:
    return TaskSpec(name=f"planted-{concept.kind}", dataset="planted", concept=concept, seed=seed)


@pytest.fixture(scope="module")
def world() -> Dataset:
    """300 items of 60 brands of uneven size (every tenth item has none), prices on two thirds of them, and two of 47
    categories on each."""
    generator = np.random.default_rng(5)
    brands = ["" if row % 10 == 0 else f"Brand {int(BRANDS * generator.random() ** 1.6):02d}" for row in range(300)]
    prices = np.where(np.arange(300) % 3 == 0, np.nan, np.round(generator.gamma(2.0, 10.0, 300), 2))
    categories = [(f"Shelf {row % 24}", f"Use {row % 23}") for row in range(300)]
    return dataset(item_table(300, brands=brands, prices=prices, categories=categories), users=300, skew=0.4)


def rows(part: Examples) -> list[tuple[int, int, tuple[int, ...]]]:
    return [
        (int(user), int(target), tuple(part.events[start:end].tolist()))
        for user, target, start, end in zip(part.users, part.targets, part.starts, part.ends, strict=True)
    ]


def check_manifest_facts(split: ForgetSplit, world: Dataset) -> None:
    manifest = split.manifest
    assert manifest.digest == manifest_digest(manifest)
    assert manifest.train_share == len(split.train.forget) / len(world.train)
    for name in ("train", "valid", "test"):
        groups = getattr(split, name)
        assert manifest.counts[f"{name}_forget"] == len(groups.forget)
        assert manifest.counts[f"{name}_retain"] == len(groups.retain)
    ids = np.asarray(world.items.ids)
    assert manifest.forget_items == tuple(ids[split.items])


@pytest.mark.parametrize("kind", ["brand", "attribute", "price", "item"])
def test_item_concepts_divide_every_part_by_its_targets(world: Dataset, kind: str) -> None:
    split = resolve(task(DEFAULT_CONCEPTS[kind]), world)
    assert split.items.any()
    assert not split.items.all()
    for name in ("train", "valid", "test"):
        whole, groups = getattr(world, name), getattr(split, name)
        expected = [row for row in rows(whole) if split.items[row[1]]]
        assert rows(groups.forget) == expected
        assert rows(groups.retain) == [row for row in rows(whole) if not split.items[row[1]]]
    kept = rows(split.train.retain)
    share = sum(any(split.items[item] for item in history) for _, _, history in kept) / len(kept)
    assert split.manifest.retain_history_share == pytest.approx(share, abs=1e-12)
    assert 0 < share < 1
    assert len(split.pairs) == 0
    assert split.manifest.forget_interactions == ()
    check_manifest_facts(split, world)


def test_brands_are_drawn_to_their_share_of_the_train_targets(world: Dataset) -> None:
    names = {brand for brand in world.items.brands if brand}
    seen = set()
    for seed in range(5):
        split = resolve(task(BrandConcept(), seed=seed), world)
        manifest = split.manifest
        assert manifest.within_tolerance
        assert abs(manifest.train_share - 0.10) <= 0.01
        assert len(manifest.concepts) == max(1, int(len(names) * 0.05 + 0.5))
        assert set(manifest.concepts) <= names
        marked = [brand in manifest.concepts for brand in world.items.brands]
        assert split.items.tolist() == marked, "all items of a brand, and none without a brand"
        seen.add(manifest.concepts)
    assert len(seen) == 5


def test_a_brand_share_out_of_reach_is_flagged(world: Dataset) -> None:
    concept = BrandConcept(target_share=0.9, max_draws=200)
    manifest = resolve(task(concept), world).manifest
    assert not manifest.within_tolerance
    assert manifest.draws == 200
    smaller = resolve(task(BrandConcept(target_share=0.9, max_draws=1)), world).manifest
    assert manifest.train_share >= smaller.train_share, "the nearest of the draws is taken"


def test_listed_brands_are_taken_as_they_are(world: Dataset) -> None:
    split = resolve(task(BrandConcept(brands=("brand 03", "by Brand  07"))), world)
    assert split.manifest.concepts == ("Brand 03", "Brand 07")
    assert split.manifest.draws == 1
    assert split.manifest.within_tolerance


def test_unknown_brands_are_all_named(world: Dataset) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(task(BrandConcept(brands=("Brandt 03", "Zzz", "Brand 01"))), world)
    near, far = caught.value.faults
    assert near.startswith("no item has the brand 'Brandt 03'; did you mean 'Brand 03'")
    assert far == "no item has the brand 'Zzz'"


def test_a_brand_list_that_leaves_nothing_is_refused() -> None:
    everything = dataset(item_table(20, brands=["A", "B"] * 10))
    with pytest.raises(ConfigError, match="nothing is left to retain"):
        resolve(task(BrandConcept(brands=("A", "B"))), everything)


def test_brands_that_nobody_bought_are_refused() -> None:
    items = item_table(21, brands=["A"] * 20 + ["Unsold"])
    users = np.repeat(np.arange(8), 10)
    bought = np.tile(np.arange(10), 8)
    unsold = assembled(items, global_time(users, bought, np.arange(80)))
    with pytest.raises(DataFault, match=r"train part .* no forget example"):
        resolve(task(BrandConcept(brands=("Unsold",))), unsold)


def test_a_concept_without_test_examples_is_refused() -> None:
    # Item 0 is every user's second item, long before the test part begins.
    users = np.repeat(np.arange(10), 5)
    bought = np.concatenate([[1, 0, 2, 3, 4]] * 10)
    times = np.tile(np.arange(5), 10) * 100 + users
    gone = assembled(item_table(5, brands=["Early", "", "", "", ""]), global_time(users, bought, times))
    with pytest.raises(DataFault, match=r"test part .* no forget example"):
        resolve(task(BrandConcept(brands=("Early",))), gone)


def test_a_dataset_without_brands_or_prices_says_so() -> None:
    bare = dataset(item_table(30))
    with pytest.raises(DataFault, match=r"no item .* has a brand") as caught:
        resolve(task(BrandConcept()), bare)
    assert "planted-brand" in str(caught.value)
    assert caught.value.hint
    with pytest.raises(DataFault, match=r"0 of the 30 items .* have a number as price"):
        resolve(task(PriceConcept()), bare)


def test_price_bands(world: Dataset) -> None:
    prices = world.items.prices
    for band in (None, 1, 3):
        split = resolve(task(PriceConcept(band=band)), world)
        chosen = prices[split.items]
        assert np.isfinite(chosen).all(), "items without a price are retained"
        others = prices[~split.items & np.isfinite(prices)]
        if band is None:
            assert chosen.min() > others.max()
        assert abs(len(chosen) / np.isfinite(prices).sum() - 0.2) < 0.02
        assert split.manifest.concepts == (
            f"price {float(chosen.min())!r} to {float(chosen.max())!r} (band {band or 5} of 5)",
        )
    with pytest.raises(ValidationError, match="no band 6 of 5"):
        PriceConcept(band=6)


def test_too_few_prices_are_refused() -> None:
    prices = [1.0, 2.0, 3.0, 4.0, 5.0, *[np.nan] * 25]
    with pytest.raises(DataFault, match="5 of the 30 items"):
        resolve(task(PriceConcept()), dataset(item_table(30, prices=prices)))
    with pytest.raises(DataFault, match="2 different ones"):
        resolve(task(PriceConcept()), dataset(item_table(30, prices=[1.0, 2.0] * 15)))


def test_bands_of_any_numeric_field() -> None:
    years = [(str(1900 + row % 60),) if row % 7 else () for row in range(300)]
    years[1], years[2] = ("unknown",), ("-44", "1955")
    texts = ["made of wood" if row % 2 else "from 1959" for row in range(300)]
    items = dataclasses.replace(item_table(300, texts=texts), attributes={"year": tuple(years)})
    concept = PriceConcept(field="year", bands=4)
    split = resolve(task(concept), dataset(items, users=300))
    latest = [bool(own) and own[0].isdigit() and int(own[0]) >= 1945 for own in years]
    assert split.items.tolist() == latest, "items without a number, or with a lower one, are retained"
    assert split.manifest.concepts == ("year 1945.0 to 1959.0 (band 4 of 4)",)
    assert TaskSpec.model_validate(task(concept).model_dump()) == task(concept)
    scrubbed = scrubbed_items(items, split)
    assert scrubbed.attributes["year"] == tuple(() if gone else own for own, gone in zip(years, latest, strict=True))
    assert scrubbed.texts == items.texts
    first = resolve(task(PriceConcept(field="year", bands=4, band=1)), dataset(items, users=300))
    assert first.items[2], "numbers may be negative"


def test_bands_of_a_field_without_numbers_are_refused() -> None:
    items = dataclasses.replace(item_table(30), attributes={"colour": (("red",),) * 30})
    with pytest.raises(DataFault, match=r"0 of the 30 items .* have a number as colour") as caught:
        resolve(task(PriceConcept(field="colour")), dataset(items))
    assert "planted-price" in str(caught.value)
    with pytest.raises(UnknownName, match="did you mean colour"):
        resolve(task(PriceConcept(field="color")), dataset(items))


def test_tasks_on_prices_do_not_name_the_field() -> None:
    assert "field" not in PriceConcept().model_dump(mode="json")
    assert resolve(task(PriceConcept()), dataset(item_table(30, prices=list(range(30))))).manifest.attribute is None


def test_single_items_follow_popularity(world: Dataset) -> None:
    counts = np.bincount(world.train.targets, minlength=300)
    shares = []
    for seed in range(5):
        split = resolve(task(ItemConcept(), seed=seed), world)
        assert split.manifest.within_tolerance
        assert abs(split.manifest.train_share - 0.1) <= 0.01
        assert split.manifest.concepts == split.manifest.forget_items
        shares.append(split.items.sum() / (counts > 0).sum())
    assert abs(np.mean(shares) - 0.1) < 0.02, "as popular on average as the catalogue: 10 % of targets, 10 % of items"


def test_interactions_are_drawn_as_pairs_and_items_stay(world: Dataset) -> None:
    split = resolve(task(InteractionConcept()), world)
    assert split.kind is ConceptKind.INTERACTION
    assert not split.items.any()
    pairs = {(int(user), int(item)) for user, item in split.pairs}
    everyone = {(user, target) for user, target, _ in rows(world.train)}
    assert pairs <= everyone
    assert len(pairs) == len(split.pairs) == int(len(everyone) * 0.05 + 0.5)
    assert rows(split.train.forget) == [row for row in rows(world.train) if row[:2] in pairs]
    assert rows(split.train.retain) == [row for row in rows(world.train) if row[:2] not in pairs]
    assert split.valid.retain is world.valid
    assert split.test.retain is world.test
    held, tested = rows(split.valid.forget), rows(split.test.forget)
    assert sorted(held + tested) == sorted(rows(split.train.forget))
    assert len({row[:2] for row in held}) == int(len(pairs) * 0.10 + 0.5)
    ids = world.items.ids
    named = {(user, ids[item]) for user, item in pairs}
    assert set(split.manifest.forget_interactions) == named
    kept = rows(split.train.retain)
    share = sum(any((user, item) in pairs for item in history) for user, _, history in kept) / len(kept)
    assert split.manifest.retain_history_share == pytest.approx(share, abs=1e-12)
    cleaned = split.cleaned(split.train.retain)
    assert not any((user, item) in pairs for user, _, history in rows(cleaned) for item in history)
    check_manifest_facts(split, world)


def test_a_pair_bought_twice_is_forgotten_twice_and_never_parted() -> None:
    # Every user buys item 0 three times in the train part: one pair, three (or two) train examples.
    users = np.repeat(np.arange(12), 8)
    bought = np.tile([1, 0, 2, 0, 3, 0, 4, 5], 12)
    times = np.tile(np.arange(8), 12) * 100 + users
    repeated = assembled(item_table(6), global_time(users, bought, times))
    split = resolve(task(InteractionConcept(share=0.5, valid_share=0.5)), repeated)
    drawn = {(int(user), int(item)) for user, item in split.pairs}
    held = {row[:2] for row in rows(split.valid.forget)}
    tested = {row[:2] for row in rows(split.test.forget)}
    assert held | tested == drawn
    assert not held & tested
    assert len(split.train.forget) > len(drawn)
    assert not {row[:2] for row in rows(split.train.retain)} & drawn


def test_too_few_interactions_are_refused() -> None:
    with pytest.raises(DataFault, match="fewer than two"):
        resolve(task(InteractionConcept()), dataset(item_table(6), users=3, length=5))


@pytest.mark.parametrize("kind", sorted(DEFAULT_CONCEPTS))
def test_manifests_repeat_to_the_byte_and_follow_seed_and_data(world: Dataset, kind: str) -> None:
    spec = task(DEFAULT_CONCEPTS[kind])
    first = resolve(spec, world).manifest
    assert first.model_dump_json() == resolve(spec, world).manifest.model_dump_json()
    if kind != "price":
        assert resolve(task(DEFAULT_CONCEPTS[kind], seed=1), world).manifest.digest != first.digest
    other = dataclasses.replace(world, manifest=world.manifest.model_copy(update={"digest": "e" * 64}))
    assert resolve(spec, other).manifest.digest != first.digest


PRICES = st.lists(
    st.one_of(st.integers(0, 12).map(float), st.floats(0, 1e6), st.sampled_from([float("nan"), -1.0, -0.01])),
    min_size=1,
    max_size=80,
)


@given(PRICES, st.integers(2, 7))
def test_bands_partition_the_valid_prices_in_order(values: list[float], bands: int) -> None:
    prices = np.asarray(values)
    valid = np.isfinite(prices)
    if len(np.unique(prices[valid])) < bands:
        with pytest.raises(ValueError, match="different numbers"):
            number_bands(prices, bands)
        return
    found = number_bands(prices, bands)
    assert set(found[valid]) == set(range(1, bands + 1)), "no band is empty"
    assert (found[~valid] == NO_BAND).all()
    for low, high in zip(range(1, bands), range(2, bands + 1), strict=True):
        assert prices[found == low].max() < prices[found == high].min(), "equal prices share a band, bands are in order"


@given(st.sets(st.integers(0, 10_000), min_size=7, max_size=60), st.integers(2, 7), st.randoms())
def test_without_ties_bands_differ_by_one_item_at_most(values: set[int], bands: int, random: object) -> None:
    prices = np.asarray(sorted(values), dtype=np.float64)
    sizes = np.bincount(number_bands(prices, bands))[1:]
    assert sizes.max() - sizes.min() <= 1


@given(PRICES, st.integers(2, 5), st.randoms(use_true_random=False))
def test_a_band_depends_on_the_price_alone(values: list[float], bands: int, random: object) -> None:
    prices = np.asarray(values)
    if len(np.unique(prices[np.isfinite(prices)])) < bands:
        return
    order = np.random.default_rng(len(values)).permutation(len(values))
    assert np.array_equal(number_bands(prices, bands)[order], number_bands(prices[order], bands))


def test_boundaries_lie_at_the_nearest_place_between_different_prices() -> None:
    # Half of the items are free: band 1 holds them all, the other boundaries stay where the quantiles are.
    prices = np.asarray([0.0] * 10 + [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert np.bincount(number_bands(prices, 5)).tolist() == [0, 10, 1, 1, 4, 4]
    # 8 of 20 items at 10: the boundary of the top band (16 below) goes behind or before the tie, whichever is nearer.
    tied = np.asarray(list(range(9)) + [9.5] * 8 + [20, 21, 22], dtype=np.float64)
    assert (number_bands(tied, 5) == 5).sum() == 3
