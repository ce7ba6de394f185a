"""Ranked lists: the file reads back as decoded, distances match the textbook, TREC lines are as specified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from scipy.spatial.distance import jensenshannon

from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.lists import (
    GroupLists,
    add_lists,
    jensen_shannon,
    list_change,
    read_lists,
    trec_qrels,
    trec_run,
    write_lists,
)
from genrec_unlearn_bench.evaluation.metric import Group
from tests.evaluation.planted import examples, lists


def group(of: Group, rows: list[list[int]]) -> GroupLists:
    part = examples([[1]] * len(rows), [0] * len(rows))
    return GroupLists(of, part, part.histories(), {beam: lists(rows, beam) for beam in (10, 50)})


def write(groups: list[GroupLists], path: Path) -> None:
    blocks: dict[str, list[np.ndarray]] = {}
    for of in groups:
        add_lists(blocks, of)
    write_lists(path, blocks)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "lists.safetensors"
    write([group(Group.FORGET, [[3, 1, 2], [], [7]]), group(Group.RETAIN, [])], place)
    return place


def test_lists_come_back(path: Path) -> None:
    found = read_lists(path)
    assert [(of.value, beam) for of, beam in found] == [("forget", 10), ("forget", 50), ("retain", 10), ("retain", 50)]
    for beam in (10, 50):
        expected = lists([[3, 1, 2], [], [7]], beam)
        assert np.array_equal(found[Group.FORGET, beam].items, expected.items)
        assert np.array_equal(found[Group.FORGET, beam].log_probs, expected.log_probs)
        assert found[Group.FORGET, beam].items.dtype == np.int64
        assert found[Group.RETAIN, beam].items.shape == (0, beam)


def test_the_same_lists_are_the_same_bytes(path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    write([group(Group.FORGET, [[3, 1, 2], [], [7]]), group(Group.RETAIN, [])], again)
    assert again.read_bytes() == path.read_bytes()


def test_a_ranker_without_a_beam_keeps_all_its_places(tmp_path: Path) -> None:
    wide = lists([list(range(50))], 50)
    part = examples([[1]], [0])
    both = [GroupLists(of, part, part.histories(), {10: wide, 50: wide}) for of in (Group.FORGET, Group.RETAIN)]
    write(both, tmp_path / "lists")
    found: Ranking = read_lists(tmp_path / "lists")[Group.RETAIN, 10]
    assert found.items.tolist() == [list(range(50))]


@pytest.mark.parametrize("harm", ["absent", "cut", "no lists", "a group less", "other types", "other shapes"])
def test_anything_else_is_refused(path: Path, harm: str) -> None:
    arrays = load_file(path)
    if harm == "absent":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    elif harm == "no lists":
        path.write_bytes(b"no such file")
    elif harm == "a group less":
        save_file({name: array for name, array in arrays.items() if "retain" not in name}, path)
    elif harm == "other types":
        save_file({name: array.astype(np.float64) for name, array in arrays.items()}, path)
    else:
        save_file({name: array[:, :2] if "items" in name else array for name, array in arrays.items()}, path)
    with pytest.raises(CorruptArtefact, match="ranked lists cannot be read") as fault:
        read_lists(path)
    assert str(path) in str(fault.value)


def ranking(chances: list[dict[int, float]], k: int) -> Ranking:
    rows = [sorted(row, key=lambda item: -row[item]) for row in chances]
    logs = [[float(np.log(row[item])) for item in order] for row, order in zip(chances, rows, strict=True)]
    return lists(rows, k, logs)


DISTRIBUTION = st.dictionaries(st.integers(0, 15), st.floats(1e-6, 1.0), max_size=8)


def scaled(weights: dict[int, float], mass: float) -> dict[int, float]:
    total = sum(weights.values()) or 1.0
    return {item: weight / total * mass for item, weight in weights.items()}


@settings(max_examples=150, deadline=None)
@given(DISTRIBUTION, DISTRIBUTION, st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_scipy_says_the_same_and_it_is_symmetric(
    left: dict[int, float], right: dict[int, float], mass: float, other: float
) -> None:
    a, b = scaled(left, mass), scaled(right, other)
    first, second = ranking([a], 8), ranking([b], 8)
    dense = np.zeros((2, 17))
    for row, chances in enumerate((a, b)):
        for item, chance in chances.items():
            dense[row, item] = chance
        dense[row, 16] = max(0.0, 1 - sum(chances.values()))
    value = float(jensen_shannon(first, second)[0])
    assert 0.0 <= value <= 1.0
    # scipy takes the root of what rounding may have brought below 0.
    theirs = float(np.nan_to_num(jensenshannon(dense[0], dense[1], base=2)))
    assert value == pytest.approx(theirs**2, abs=2e-6)
    assert value == pytest.approx(float(jensen_shannon(second, first)[0]), abs=1e-12)
    assert jensen_shannon(first, first)[0] == 0.0


def test_bounds_are_reached() -> None:
    same, other = ranking([{0: 0.5, 1: 0.5}], 3), ranking([{2: 0.25, 3: 0.75}], 3)
    assert jensen_shannon(same, other)[0] == pytest.approx(1.0, abs=1e-7)
    # The rest is common to both: half of the mass cannot differ.
    half, elsewhere = ranking([{0: 0.5}], 3), ranking([{1: 0.5}], 3)
    assert jensen_shannon(half, elsewhere)[0] == pytest.approx(0.5, abs=1e-7)
    empty = lists([[]], 3)
    assert jensen_shannon(empty, empty)[0] == 0.0
    assert jensen_shannon(empty, same)[0] == pytest.approx(1.0, abs=1e-7)


def test_items_that_share_a_sid_do_not_exceed_one() -> None:
    # Three items of one SID, each with its probability 0.9.
    shared, single = ranking([{0: 0.9, 1: 0.9, 2: 0.9}], 3), ranking([{0: 0.9}], 3)
    assert 0.0 < jensen_shannon(shared, single)[0] < 1.0
    assert jensen_shannon(shared, shared)[0] == 0.0


def test_list_change() -> None:
    first = lists([[0, 1, 2, 3], [0, 1], [], [], [0, 1, 2, 3]], 4)
    second = lists([[3, 2, 1, 0], [2, 1], [], [5], [0, 9]], 4)
    np.testing.assert_allclose(list_change(first, second), [0, 0.5, 0, 1, 0.75])
    np.testing.assert_allclose(list_change(first, second, k=2), [1, 0.5, 0, 1, 0.5])


def test_chunks_do_not_matter() -> None:
    generator = np.random.default_rng(1)
    items = np.argsort(generator.random((1200, 30)), axis=1)[:, :20].astype(np.int64)
    chances = np.log(generator.dirichlet(np.ones(21), size=1200)[:, :20]).astype(np.float32)
    first, second = Ranking(items, chances), Ranking(items[::-1].copy(), chances)
    whole = jensen_shannon(first, second)
    for row in (0, 511, 512, 1199):
        alone = jensen_shannon(
            Ranking(first.items[[row]], first.log_probs[[row]]), Ranking(second.items[[row]], second.log_probs[[row]])
        )
        assert alone[0] == whole[row]


def test_lines() -> None:
    ranking = lists([[2, 0], [], [1, 2, 0]], 3)
    assert list(trec_run(ranking, tag="t")) == [
        "0 Q0 2 1 3 t",
        "0 Q0 0 2 2 t",
        "2 Q0 1 1 3 t",
        "2 Q0 2 2 2 t",
        "2 Q0 0 3 1 t",
    ]
    assert list(trec_qrels(np.array([2, 1]))) == ["0 0 2 1", "1 0 1 1"]
