"""Evaluation in blocks: the files and the values of the evaluation that holds everything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genrec_unlearn_bench.evaluation.lists import read_lists, write_lists
from genrec_unlearn_bench.evaluation.per_user import (
    PerUserWriter,
    blocks,
    read_per_user,
    stored_blocks,
    write_per_user,
)
from genrec_unlearn_bench.evaluation.rescore import recompute
from genrec_unlearn_bench.evaluation.streamed import evaluate_into
from genrec_unlearn_bench.progress import Progress

from .test_per_user import evaluation, setting


@pytest.fixture(scope="module")
def whole():  # type: ignore[no-untyped-def]
    return evaluation()


def test_one_block_gives_the_same_values_and_the_same_bytes(whole, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    values = evaluate_into(setting(), tmp_path / "table", tmp_path / "lists", Progress())
    assert values == whole.values
    write_per_user(whole.per_user, tmp_path / "table.whole")
    write_lists(whole.groups, tmp_path / "lists.whole")
    for name in ("table", "lists"):
        assert (tmp_path / name).read_bytes() == (tmp_path / f"{name}.whole").read_bytes()


@pytest.mark.parametrize("block", [1, 37, 149])
def test_blocks_change_nothing_but_the_random_draws(whole, block: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    values = evaluate_into(setting(), tmp_path / "table", tmp_path / "lists", Progress(), block=block)
    drawn = ("js_random", "change_random")
    key = ["group", "beam", "example"]
    frame = read_per_user(tmp_path / "table")
    assert list(recompute(frame)) == list(values[: len(recompute(frame))])
    ordered = frame.sort_values(key, ignore_index=True).drop(columns=list(drawn))
    expected = whole.per_user.sort_values(key, ignore_index=True).drop(columns=list(drawn))
    pd.testing.assert_frame_equal(ordered, expected, check_exact=True)
    found, wanted = (
        read_lists(tmp_path / "lists"),
        {(lists.group, beam): ranking for lists in whole.groups for beam, ranking in lists.rankings.items()},
    )
    assert found.keys() == wanted.keys()
    for place, ranking in found.items():
        assert np.array_equal(ranking.items, wanted[place].items)
        assert np.array_equal(ranking.log_probs, wanted[place].log_probs)
    untouched = [v for v in values if "random" not in v.metric and "excess" not in v.metric]
    assert untouched == [v for v in whole.values if "random" not in v.metric and "excess" not in v.metric]


def test_a_table_of_several_row_groups_is_the_file_that_pandas_writes(  # type: ignore[no-untyped-def]
    whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genrec_unlearn_bench.evaluation.per_user.ROW_GROUP", 100)
    with PerUserWriter(tmp_path / "streamed") as writer:
        for start in range(0, len(whole.per_user), 7):
            writer.write(whole.per_user.iloc[start : start + 7])
    whole.per_user.to_parquet(tmp_path / "whole", compression="zstd", index=False, row_group_size=100)
    assert (tmp_path / "streamed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_stored_blocks_are_those_of_the_frame(whole, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write_per_user(whole.per_user, tmp_path / "table")
    for stored, kept in zip(stored_blocks(tmp_path / "table"), blocks(whole.per_user), strict=True):
        assert (stored.group, stored.beam) == (kept.group, kept.beam)
        for column in ("rank", "concept_in_list", "near_prefix", "example"):
            assert np.array_equal(stored.integers(column), kept.integers(column))
        for column in ("log_prob", "js_forget", "mean_similarity"):
            assert np.array_equal(stored.numbers(column), kept.numbers(column), equal_nan=True)
