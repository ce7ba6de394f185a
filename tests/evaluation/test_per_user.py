"""The per-user table: written, read, and enough to recompute everything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.metric import Level
from genrec_unlearn_bench.evaluation.per_user import COLUMNS, read_per_user, recompute, write_per_user

from .planted import PlantedRecommender, context, evaluated, examples, item_table, lists, split, table

SIZE = 70


def setting():  # type: ignore[no-untyped-def]
    """A noisy recommender on a task in which every column gets something to say."""
    generator = np.random.default_rng(4)
    rows = 150

    def some(histories, k, beam):  # type: ignore[no-untyped-def]
        # Different numbers for every history and beam, some lists short or empty.
        out, logs = [], []
        for row in histories.items:
            local = np.random.default_rng([beam, *(row[row >= 0] + 1).tolist()])
            length = int(local.integers(0, k + 1))
            out.append(local.permutation(SIZE)[:length].tolist())
            logs.append(np.sort(np.log(local.dirichlet(np.ones(k + 1))[:length] + 1e-9))[::-1].tolist())
        return lists(out, k, logs)

    def draw(low: int, high: int):  # type: ignore[no-untyped-def]
        histories = [generator.integers(0, SIZE, size=generator.integers(0, 8)).tolist() for _ in range(rows)]
        return examples(histories, generator.integers(low, high, size=rows).tolist())

    task = split(SIZE, draw(0, 8), draw(8, SIZE), concept=range(8))
    original = table([[item % 4, item // 4 % 4, item // 16 % 4] for item in range(SIZE)], size=5)
    moved = original.reassigned(np.arange(8), (original.codes[:8] + 1) % 4)
    items = item_table(SIZE, [(f"c{item % 7}",) if item % 3 else () for item in range(SIZE)])
    task = replace(task, near=np.arange(SIZE) % 5 == 0)
    return context(PlantedRecommender(some, moved), task, original=original, items=items)


def evaluation():  # type: ignore[no-untyped-def]
    """What is measured on it."""
    return evaluated(setting())


def test_every_user_metric_is_recomputed_to_the_bit(tmp_path: Path) -> None:
    result = evaluation()
    path = tmp_path / "per_user.parquet"
    write_per_user([result.per_user], path)
    frame = read_per_user(path)
    pd.testing.assert_frame_equal(frame, result.per_user, check_exact=True)
    specs = metric_specs()
    reported = [v for v in result.values if specs[v.metric].level is Level.USER]
    # Equality of the models: value, n, sd, interval and note, bit by bit.
    assert list(recompute(frame)) == reported
    # influence.* is of protocol 1, whose records are still shown.
    user = {name for name, spec in specs.items() if spec.level is Level.USER}
    declared = {name for name in user if not name.startswith("influence.")}
    assert {v.metric for v in reported} == declared
    assert all(v.value is not None for v in reported)


def test_columns_hold_what_they_say() -> None:
    frame = evaluation().per_user
    assert {name: str(frame[name].dtype) for name in COLUMNS} == dict(COLUMNS)
    assert len(frame) == 2 * 2 * 150
    assert frame.groupby(["group", "beam"])["example"].apply(lambda rows: rows.tolist() == list(range(150))).all()
    assert (frame["log_prob"].isna() == (frame["rank"] == 0)).all()
    assert (frame["concept_in_list"] <= frame["n_list"]).all()
    assert frame["n_list"].between(0, 10).all()
    assert (frame.loc[frame["n_list"] == 0, "mean_similarity"].isna()).all()
    wide, narrow = frame[frame["beam"] == 50], frame[frame["beam"] == 10]
    assert (narrow["original_rank"] == -1).all()
    assert (wide.loc[wide["group"] == "forget", "original_rank"] >= 0).all()
    assert narrow["js_forget"].isna().all()
    assert (frame.loc[frame["group"] == "forget", "near_prefix"] == -1).all()
    assert set(frame.loc[frame["group"] == "retain", "near_category"]) == {-1, 0, 1}
    retain = frame[frame["group"] == "retain"]
    assert (retain["near_concept"] == (retain["target"] % 5 == 0)).all()
    assert (frame.loc[frame["group"] == "forget", "near_concept"] == -1).all()
    for group in ("forget", "retain"):
        same = [part.loc[part["group"] == group, "concept_in_history"].to_numpy() for part in (wide, narrow)]
        np.testing.assert_array_equal(*same)


def test_two_evaluations_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_per_user([evaluation().per_user], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_broken_tables_are_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and no more")
    with pytest.raises(CorruptArtefact, match=r"broken\.parquet"):
        read_per_user(broken)
    with pytest.raises(CorruptArtefact):
        read_per_user(tmp_path / "absent.parquet")
    frame = evaluation().per_user
    frame.drop(columns=["rank"]).to_parquet(tmp_path / "short.parquet")
    with pytest.raises(CorruptArtefact, match="rank"):
        read_per_user(tmp_path / "short.parquet")
    frame.assign(rank=["one"] * len(frame)).to_parquet(tmp_path / "typed.parquet")
    with pytest.raises(CorruptArtefact, match="type"):
        read_per_user(tmp_path / "typed.parquet")
