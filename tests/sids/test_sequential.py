from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.sids.p5 import digit_pieces, sequential_table
from tests.sids.test_train_sequences import train_of


def test_numbers_follow_the_first_appearance_by_hand() -> None:
    # Appearance 2, 0, 1 then 3, 4: numbers 99, 100, 101, 102, 103.
    table = sequential_table(train_of([[2, 0, 1, 4, 4]]), 5, start=99, pieces=digit_pieces)
    assert table.tree is not None
    # Pieces by length, then name: "0" "1" "2" "3" "10" "99".
    assert (table.tree.content, table.tree.ordinals, table.tree.end) == (6, 0, 6)
    end, ten = 6, 4
    assert table.codes.tolist() == [[ten, 0, end], [ten, 1, end], [5, end, -1], [ten, 2, end], [ten, 3, end]]
    assert table.level_sizes == (7, 7, 7)
    assert table.quantised_codes.tolist() == [[ten, 0], [ten, 1], [5, -1], [ten, 2], [ten, 3]]
    assert table.quantised_sizes == (6, 6)


@given(st.integers(0, 12_000), st.integers(1, 60), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_every_item_has_a_sid_and_none_is_the_prefix_of_another(start: int, items: int, width: int) -> None:
    train = train_of([list(range(items))] if items > 2 else [[0, 0, 0, 0]])
    table = sequential_table(train, items, start=start, pieces=lambda number: digit_pieces(number, width))
    sids = [tuple(code for code in row if code >= 0) for row in table.codes.tolist()]
    assert len(set(sids)) == items
    assert table.tree is not None
    for sid in sids:
        assert sid[-1] == table.tree.end
        assert table.tree.end not in sid[:-1]
    assert Trie.build(table.codes, table.level_sizes).leaves == items


def test_neighbours_share_their_leading_pieces() -> None:
    train = train_of([list(range(50))])
    table = sequential_table(train, 50, start=1001, pieces=digit_pieces)
    assert len(np.unique(table.codes[:, 0])) == 1
    assert len(np.unique(table.codes[:, 1])) == 50


def test_a_tokenizer_that_cannot_tell_numbers_apart_is_refused() -> None:
    with pytest.raises(DataFault, match="same pieces"):
        sequential_table(train_of([[0, 1, 2, 3]]), 4, start=1, pieces=lambda number: ["<unk>"])


@pytest.mark.parametrize(
    ("number", "width", "pieces"),
    [(7, 2, ["7"]), (100, 2, ["10", "0"]), (1001, 2, ["10", "01"]), (12345, 3, ["123", "45"])],
)
def test_numbers_are_cut_from_the_left(number: int, width: int, pieces: list[str]) -> None:
    assert digit_pieces(number, width) == pieces


def test_cuts_that_make_no_sense_are_refused() -> None:
    for number, width in ((-1, 2), (5, 0)):
        with pytest.raises(ValueError, match="pieces"):
            digit_pieces(number, width)
