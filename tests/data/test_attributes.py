"""Concepts over any field: who belongs to one against brute force, what is drawn, and what scrubbing leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.data.attributes import AttributeValues
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.dataset import Dataset, item_lines, load_dataset, save_dataset
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.data.tasks import AttributeConcept, AttributeRule, TaskSpec, find_task
from genrec_unlearn_bench.errors import ConfigError, DataFault, UnknownName
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from tests.data.worlds import dataset, item_table

GENRES = ("Action", "Comedy", "Crime", "Drama", "Film-Noir", "Horror", "Musical", "Sci-Fi", "War", "Western")
TREE = ("Sports > Running > Trail", "Sports > Running", "Sports > Golf", "Toys > Golf", "Toys", "Books > Maps")

# Digests of whole manifests from before attributes existed.
FROZEN = {
    "demo-brand": "9b449b63c2ca57f32d8d7077380d801a8484565cf34f8379a55042e6201cfc5e",
    "demo-entangled": "74c0f0837095c6b1bbe678f3a154f6837485f0b6736c48e1977aa83cb526e75a",
    "demo-price": "29031cee37dbcf1209fca18bcf06795bab3f100a2233c5eebd428c5eaa7e8f7e",
    "demo-item": "229f3f134c04e2c13e5d9ee2eb814d45b69f906ac89cd1d140d64e000601422d",
    "demo-interaction": "3f3eff3709b1c5a046a063250f4f69047e7ba9bd2b1a00b7c756695d8434f66c",
}
DEMO = "73e92b8822b0505217898142eb9e8407af925c9e4f60985ddafb11c7bc4067ff"


def task(concept: AttributeConcept, *, seed: int = 0) -> TaskSpec:
    return TaskSpec(name="planted", dataset="planted", concept=concept, seed=seed)


def planted(count: int = 120, seed: int = 0, names: tuple[str, ...] = GENRES) -> Dataset:
    """Items with none to three values, unevenly frequent, every fourth one without any."""
    generator = np.random.default_rng(seed)
    weights = 1.0 / (1.0 + np.arange(len(names)))
    sizes = generator.integers(0, 4, count)
    values = tuple(
        tuple(str(v) for v in generator.choice(names, size, replace=False, p=weights / weights.sum()))
        for size in sizes.tolist()
    )
    items = replace(item_table(count), attributes={"genres": values})
    return dataset(items, users=200, length=12, seed=seed)


def belongs(values: tuple[str, ...], chosen: set[str], match: str) -> bool:
    if not values:
        return False
    hits = [value in chosen for value in values]
    return {"any": any(hits), "all": all(hits), "first": hits[0]}[match]


@pytest.mark.parametrize("match", ["any", "all", "first"])
@pytest.mark.parametrize("seed", range(3))
def test_membership_is_that_of_brute_force(match: str, seed: int) -> None:
    world = planted(seed=seed)
    given = AttributeConcept(field="genres", match=match, values=("comedy", " Drama", "HORROR", "War"))
    for concept in (given, AttributeConcept(field="genres", match=match, tolerance=0.02)):
        split = resolve(task(concept, seed=seed), world)
        chosen = set(split.manifest.concepts)
        wanted = [belongs(own, chosen, match) for own in world.items.attributes["genres"]]
        assert split.items.tolist() == wanted
        assert 0 < sum(wanted) < len(wanted)
        assert split.manifest.attribute == AttributeRule(field="genres", match=match)
    assert given.values is not None
    assert resolve(task(given), world).manifest.concepts == ("Comedy", "Drama", "Horror", "War")


@pytest.mark.parametrize("match", ["any", "all", "first"])
def test_paths_are_that_of_brute_force(match: str) -> None:
    world = planted(names=TREE)
    concept = AttributeConcept(field="genres", match=match, path=True, values=("sports>running", "Toys > Golf"))
    split = resolve(task(concept), world)
    below = ("Sports > Running", "Sports > Running > Trail", "Toys > Golf")
    wanted = [belongs(own, set(below), match) for own in world.items.attributes["genres"]]
    assert split.items.tolist() == wanted
    assert split.manifest.concepts == ("Sports > Running", "Toys > Golf")
    # Categories are one path to an item, whose names may occur elsewhere in the tree.
    table = item_table(3, categories=[("Toys", "Golf"), ("Sports", "Golf"), ("Toys",)])
    values = AttributeValues.of(table, AttributeRule(field="categories", path=True))
    assert values.names == ("Sports", "Sports > Golf", "Toys", "Toys > Golf")
    assert values.items_of(np.asarray([3])).tolist() == [True, False, False]


@pytest.mark.parametrize("match", ["any", "all", "first"])
@pytest.mark.parametrize("seed", range(4))
def test_the_draw_is_that_of_brute_force(match: str, seed: int) -> None:
    world = planted(seed=seed)
    concept = AttributeConcept(field="genres", match=match, tolerance=0.004, min_items=8, max_draws=30)
    found = resolve(task(concept, seed=seed), world).manifest
    counts = np.bincount(world.train.targets, minlength=len(world.items))
    listed = [own[:1] if match == "first" else own for own in world.items.attributes["genres"]]

    def share(chosen: set[str]) -> float:
        return sum(counts[i] for i, own in enumerate(listed) if belongs(own, chosen, match)) / len(world.train)

    candidates = [
        name
        for name in sorted(GENRES)
        if sum(name in own for own in listed) >= 8
        and (
            match == "all" or sum(counts[i] for i, own in enumerate(listed) if name in own) <= 0.104 * len(world.train)
        )
    ]
    generator = numpy_generator(seed, "concept", "attribute", "genres")
    best: tuple[float, int, set[str]] = (9.0, 0, set())
    for draw in range(1, 31):
        order = [candidates[row] for row in np.argsort(generator.random(len(candidates)), kind="stable")]
        for end in range(1, len(order) + 1):
            distance = abs(share(set(order[:end])) - 0.10)
            if distance < best[0] - 1e-12:
                best = (distance, draw, set(order[:end]))
        if best[0] <= 0.004 + 1e-12:
            break
    assert set(found.concepts) == best[2]
    assert found.within_tolerance == (best[0] <= 0.004 + 1e-12)
    assert found.draws == (best[1] if found.within_tolerance else 30)
    assert found.train_share == pytest.approx(share(best[2]))


def test_roots_and_rare_values_are_not_drawn() -> None:
    paths = tuple(("Root > Rare",) if row < 3 else (f"Root > Part {row % 12}",) for row in range(120))
    world = dataset(replace(item_table(120), attributes={"place": paths}), users=200, length=12)
    for seed in range(5):
        drawn = resolve(task(AttributeConcept(field="place", path=True, tolerance=0.02), seed=seed), world).manifest
        assert drawn.within_tolerance
        assert not {"Root", "Root > Rare"} & set(drawn.concepts)
    with pytest.raises(DataFault, match=r"none of the 14 place values .* can be drawn"):
        resolve(task(AttributeConcept(field="place", path=True, min_items=50)), world)


def test_fields_that_are_one_text_are_split_and_unknown_ones_explained() -> None:
    world = planted()
    tags = ["Indie, Co-op", "Co-op,Indie, ", "Gothic"] * 40
    world = replace(world, items=replace(world.items, texts=tuple(tags), brands=("Acme", "Bolt", "") * 40))
    split = resolve(task(AttributeConcept(field="text", split=",", values=("co-op",))), world)
    assert split.items.tolist() == [True, True, False] * 40
    assert (
        resolve(task(AttributeConcept(field="brand", values=("Bolt",))), world).items.tolist()
        == [False, True, False] * 40
    )
    with pytest.raises(UnknownName, match="genres"):
        resolve(task(AttributeConcept(field="genre")), world)
    with pytest.raises(DataFault, match="has a categories value"):
        resolve(task(AttributeConcept()), world)
    with pytest.raises(ConfigError, match="no item has the genres value 'Horor'"):
        resolve(task(AttributeConcept(field="genres", values=("Horor",))), world)


def scrubbed(items: ItemTable, concept: AttributeConcept) -> ItemTable:
    world = dataset(items, users=300, length=20)
    return scrubbed_items(items, resolve(task(concept), world))


def test_chosen_values_leave_the_field_and_rare_names_every_text() -> None:
    filler = 90
    genres = (("Film-Noir", "Drama"), ("Shoes", "Film-Noir"), ("Drama", "2"), ("2",), *[("Drama",)] * filler)
    titles = ["A film noir drama", "Shoes of a night", "Film-noir night", "Type 2", *["Drama with shoes"] * filler]
    items = replace(item_table(len(titles), titles=titles), attributes={"genres": genres, "mood": genres})
    concept = AttributeConcept(field="genres", values=("Film-Noir", "Shoes", "2"))
    left = scrubbed(items, concept)
    assert left.attributes["genres"][:5] == (("Drama",), (), ("Drama",), (), ("Drama",))
    assert left.attributes["mood"] == genres, "another field stays"
    # "film noir" is rare and leaves all texts, "shoes" is an ordinary word and leaves its own items' alone, and a value
    # without a letter leaves the field alone.
    assert left.titles[:5] == ("A drama", "of a night", "night", "Type 2", "Drama with shoes")
    # First: the retained item keeps its own second value.
    first = scrubbed(items, AttributeConcept(field="genres", match="first", values=("Shoes", "Film-Noir")))
    assert first.attributes["genres"][:3] == (("Drama",), (), ("Drama", "2"))
    kept = scrubbed(items, AttributeConcept(field="genres", match="first", values=("Shoes",)))
    assert kept.attributes["genres"][0] == ("Film-Noir", "Drama")


def test_below_a_chosen_path_everything_leaves() -> None:
    paths = [("Toys", "Games", "Chess sets"), ("Toys", "Games"), ("Books", "Games"), *[("Books",)] * 60]
    titles = ["Chess sets and games", "Games", "Games for chess sets", *["Novel"] * 60]
    items = item_table(len(paths), titles=titles, categories=paths)
    left = scrubbed(items, AttributeConcept(path=True, values=("Toys > Games",)))
    assert left.categories[:3] == (("Toys",), ("Toys",), ("Books", "Games"))
    # Rare as it is, "games" is also the name of a retained item's category: it leaves the concept's own items alone.
    assert left.titles[:3] == ("and", "", "Games for")
    listed = replace(items, categories=((),) * len(paths), attributes={"place": tuple((" > ".join(p),) for p in paths)})
    again = scrubbed(listed, AttributeConcept(field="place", path=True, values=("Toys > Games",)))
    assert again.attributes["place"][:3] == (("Toys",), ("Toys",), ("Books > Games",))
    assert again.titles == left.titles


def test_one_text_and_brands_are_scrubbed_as_fields() -> None:
    texts = ["Indie, Gothic, Co-op", "Gothic", "Indie", *["Indie"] * 40]
    items = item_table(len(texts), texts=texts, brands=["Acme", "Bolt", "Bolt", *["Core"] * 40])
    left = scrubbed(items, AttributeConcept(field="text", split=",", values=("Gothic",)))
    assert left.texts[:3] == ("Indie,Co-op", "", "Indie")
    left = scrubbed(items, AttributeConcept(field="brand", values=("Bolt",)))
    assert left.brands[:3] == left.brands_raw[:3] == ("Acme", "", "")


def test_attributes_survive_storage_and_change_no_digest_where_there_are_none(tmp_path: Path) -> None:
    world = planted(count=40)
    save_dataset(world, tmp_path)
    found = load_dataset(tmp_path)
    assert found.items.attributes == world.items.attributes
    assert list(item_lines(found.items)) == list(item_lines(world.items))
    assert '"attributes":{"genres":["' in "".join(item_lines(world.items))
    rows = np.asarray([3, 1])
    assert world.items.take(rows).attributes["genres"] == tuple(world.items.attributes["genres"][row] for row in rows)
    assert not any("attributes" in line for line in item_lines(replace(world.items, attributes={})))


def test_manifests_of_other_kinds_are_those_from_before() -> None:
    demo = prepare(find_dataset("demo"), None, Progress())
    assert demo.manifest.digest == DEMO
    assert {name: resolve(find_task(name), demo).manifest.digest for name in FROZEN} == FROZEN
