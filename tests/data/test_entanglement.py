"""Entangled draws: the measure by hand and by brute force, what is drawn, and what the manifest says of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import sparse

from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.concepts import resolve, with_neighbours
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.draws import Target, draw_from_top
from genrec_unlearn_bench.data.forget import manifest_digest
from genrec_unlearn_bench.data.neighbours import Neighbours, concept_entanglement, entanglement, find_neighbours
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.data.tasks import AttributeConcept, BrandConcept, Concept, TaskSpec, find_task
from genrec_unlearn_bench.errors import ConfigError, DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from tests.data.worlds import dataset, item_table


def members_of(values: Sequence[Sequence[str]]) -> tuple[list[str], sparse.csr_matrix]:
    """Names in alphabetical order, and [N, V] 1 where an item has the value."""
    names = sorted({name for own in values for name in own})
    return names, sparse.csr_matrix(np.array([[int(name in own) for name in names] for own in values]))


def adjacency(size: int, *edges: tuple[int, int]) -> sparse.csr_matrix:
    out = np.zeros((size, size))
    for i, j in edges:
        out[i, j] = out[j, i] = 1
    return sparse.csr_matrix(out)


@pytest.fixture(scope="module")
def demo() -> Dataset:
    return prepare(find_dataset("demo"), None, Progress())


def test_the_measure_by_hand() -> None:
    # p = 1 2 3 4 5 6; a = {0, 1}, b = {2}, c = {3}, d = {4, 5}.
    # Text: 0-1, 0-2, 4-5. History: 0-2, 1-3.
    near = Neighbours(adjacency(6, (0, 1), (0, 2), (4, 5)), adjacency(6, (0, 2), (1, 3)))
    names, members = members_of([("a",), ("a",), ("b",), ("c",), ("d",), ("d",)])
    popularity = np.arange(1, 7)
    # Item 0: text 3 / (1 + 2 + 3), history 3 / (1 + 3). Item 1: text 0 / (2 + 1), history 4 / (2 + 4).
    wanted = {
        "a": (1 * (3 / 6 + 3 / 4) / 2 + 2 * (0 + 4 / 6) / 2) / 3,
        "b": (1 / 4 + 1 / 4) / 2,
        "c": (0 + 2 / 6) / 2,
        "d": 0.0,  # Neighbours of each other alone.
    }
    assert dict(zip(names, entanglement(members, popularity, near), strict=True)) == pytest.approx(wanted)
    # Together a and b keep only the neighbour that is in c.
    marked = np.array([True, True, True, False, False, False])
    assert concept_entanglement(marked, popularity, near) == pytest.approx(2 * (4 / 6) / 2 / 6)


def test_alone_and_never_bought_are_zero() -> None:
    near = Neighbours(adjacency(4, (2, 3)), adjacency(4, (2, 3)))
    _, members = members_of([("alone",), ("alone",), ("unbought",), ("other",)])
    alone, other, unbought = entanglement(members, np.array([5, 9, 0, 7]), near)
    assert (alone, other, unbought) == (0.0, 0.0, 0.0)  # The only neighbour of "other" is never bought.


@pytest.mark.parametrize("seed", range(3))
def test_the_measure_is_that_of_brute_force_with_many_values(seed: int) -> None:
    generator = np.random.default_rng(seed)
    size = 40
    near = Neighbours(*(adjacency(size, *generator.choice(size, (50, 2), replace=True).tolist()) for _ in range(2)))
    for kind in near:
        kind.setdiag(0)
        kind.eliminate_zeros()
    values = [tuple(f"v{v}" for v in generator.choice(8, generator.integers(0, 4))) for _ in range(size)]
    popularity = generator.integers(0, 6, size)
    names, members = members_of(values)
    found = entanglement(members, popularity, near)
    for name, value in zip(names, found, strict=True):
        own = {i for i in range(size) if name in values[i]}
        total = 0.0
        for i in own:
            for kind in near:
                around = kind[[i]].indices
                below = popularity[i] + popularity[around].sum()
                if popularity[i]:
                    kept = sum(popularity[j] for j in around if j not in own)
                    total += popularity[i] * kept / below / 2
        bought = sum(popularity[i] for i in own)
        assert value == pytest.approx(total / bought if bought else 0.0)


def test_values_are_taken_from_the_top_under_the_cap() -> None:
    # Values of one item each; the first is the most entangled and too large, the last is not entangled at all.
    weights = np.array([40, 30, 30, 25, 30, 30, 815])
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.0])
    members, kwargs = (
        sparse.identity(7, format="csr", dtype=np.int64),
        {"largest": 0.03, "generator": numpy_generator(0)},
    )
    draw = draw_from_top(scores, members, weights, Target(1000, 0.1, 0.01), **kwargs)
    # 30 + 30 + 25 = 85; with 30 more it would be 115, above 11 %: nothing that is left fits, and 85 is below 9 %.
    assert (draw.chosen.tolist(), draw.within) == ([1, 2, 3], False)
    draw = draw_from_top(scores, members, weights, Target(1000, 0.1, 0.015), **kwargs)
    assert (draw.chosen.tolist(), draw.within) == ([1, 2, 3, 4], True)


def test_items_of_two_drawn_values_count_once() -> None:
    _, members = members_of([("a", "b"), ("a",), ("b",), ("c",), ()])
    target, kwargs = Target(100, 0.3, 0.0), {"largest": 0.5, "generator": numpy_generator(0)}
    draw = draw_from_top(np.array([0.9, 0.8, 0.7]), members, np.array([10, 10, 10, 10, 60]), target, **kwargs)
    assert (draw.chosen.tolist(), draw.within) == ([0, 1], True)


def test_only_ties_follow_the_seed() -> None:
    weights, members = np.full(20, 5), sparse.identity(20, format="csr", dtype=np.int64)

    def drawn(scores: np.ndarray, seed: int) -> list[int]:
        target, kwargs = Target(100, 0.1, 0.01), {"largest": 0.1, "generator": numpy_generator(seed)}
        return draw_from_top(scores, members, weights, target, **kwargs).chosen.tolist()

    assert len({tuple(drawn(np.ones(20), seed)) for seed in range(10)}) > 5
    assert {tuple(drawn(np.arange(20.0), seed)) for seed in range(10)} == {(18, 19)}


def task(concept: Concept) -> TaskSpec:
    return TaskSpec(name="planted", dataset="planted", concept=concept)


def test_the_demo_task_and_its_manifest(demo: Dataset) -> None:
    spec = find_task("demo-entangled")
    split = resolve(spec, demo)
    manifest = split.manifest
    again = resolve(spec, demo).manifest
    assert (again.digest, again) == (manifest.digest, manifest)
    assert manifest_digest(manifest) == manifest.digest
    assert manifest.within_tolerance
    assert abs(manifest.train_share - 0.10) <= 0.01
    counts = np.bincount(demo.train.targets, minlength=len(demo.items))
    names, members = members_of(demo.items.values("brand"))
    shares = dict(zip(names, members.T @ counts / len(demo.train), strict=True))
    assert max(shares[brand] for brand in manifest.concepts) <= 0.03
    measure, near = manifest.entanglement, find_neighbours(demo)
    assert measure is not None
    scores = dict(zip(names, entanglement(members, counts, near), strict=True))
    assert measure.values == pytest.approx([scores[brand] for brand in manifest.concepts], abs=1e-6)
    assert measure.concept == pytest.approx(concept_entanglement(split.items, counts, near), abs=1e-6)
    # What was passed over is less entangled, or too large by itself or for what was left.
    assert min(measure.values) > measure.catalogue
    # Nothing that was drawn by other rules says anything of it.
    assert "entanglement" not in resolve(find_task("demo-brand"), demo).manifest.model_dump_json()


def test_retain_near_rows_are_the_tasks_own_and_those_of_brute_force(demo: Dataset) -> None:
    near = find_neighbours(demo)
    for name in ("demo-entangled", "demo-brand", "demo-category", "demo-price", "demo-item"):
        split = with_neighbours(resolve(find_task(name), demo), demo)
        concept = set(np.flatnonzero(split.items).tolist())
        for part in (split.train, split.valid, split.test):
            wanted = [
                any(concept & set(kind[[target]].indices.tolist()) for kind in near)
                for target in part.retain.targets.tolist()
            ]
            assert split.retain_near(part.retain).tolist() == wanted
            assert 0 < sum(wanted) < len(wanted)
        if split.manifest.entanglement is not None:
            assert split.manifest.entanglement.retain_near["test"] == int(split.retain_near(split.test.retain).sum())
    single = with_neighbours(resolve(find_task("demo-interaction"), demo), demo)
    assert single.near is None
    assert not single.retain_near(single.test.retain).any()


def test_categories_are_any_of_an_items_own(demo: Dataset) -> None:
    split = resolve(find_task("demo-category"), demo)
    drawn = set(split.manifest.concepts)
    assert split.items.tolist() == [bool(drawn & set(path)) for path in demo.items.categories]
    chosen = resolve(task(AttributeConcept(values=("knives", "Tackle"))), demo)
    assert chosen.manifest.concepts == ("Knives", "Tackle")
    assert chosen.manifest.entanglement is None
    with pytest.raises(ConfigError, match="no item has the categories value 'Knifes'"):
        resolve(task(AttributeConcept(values=("Knifes",))), demo)


def test_what_cannot_be_drawn_is_explained() -> None:
    bare = dataset(item_table(40), users=40)
    with pytest.raises(DataFault, match="no item of 'planted' has a categories value"):
        resolve(task(AttributeConcept(draw="entangled")), bare)
    with pytest.raises(DataFault, match="no item of 'planted' has a brand"):
        resolve(task(BrandConcept(draw="entangled")), bare)
    one = dataset(item_table(40, brands=["Acme"] * 40), users=40)
    with pytest.raises(DataFault, match="largest_share"):
        resolve(task(BrandConcept(draw="entangled")), one)
