"""The file of ranked lists: what is read back is what was decoded, empty groups and lists included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.group_lists import GroupLists
from genrec_unlearn_bench.evaluation.lists import read_lists, write_lists
from genrec_unlearn_bench.evaluation.metric import Group

from .planted import examples, lists


def group(of: Group, rows: list[list[int]]) -> GroupLists:
    part = examples([[1]] * len(rows), [0] * len(rows))
    return GroupLists(of, part, part.histories(), {beam: lists(rows, beam) for beam in (10, 50)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "lists.safetensors"
    write_lists([group(Group.FORGET, [[3, 1, 2], [], [7]]), group(Group.RETAIN, [])], place)
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
    write_lists([group(Group.FORGET, [[3, 1, 2], [], [7]]), group(Group.RETAIN, [])], again)
    assert again.read_bytes() == path.read_bytes()


def test_a_ranker_without_a_beam_keeps_all_its_places(tmp_path: Path) -> None:
    wide = lists([list(range(50))], 50)
    part = examples([[1]], [0])
    both = [GroupLists(of, part, part.histories(), {10: wide, 50: wide}) for of in (Group.FORGET, Group.RETAIN)]
    write_lists(both, tmp_path / "lists")
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
