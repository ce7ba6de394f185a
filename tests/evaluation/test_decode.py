"""Decoding: once per group and beam, in the given order, whatever the lengths."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.data.examples import PAD, Histories
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation import decode as decode_module
from genrec_unlearn_bench.evaluation.decode import decode
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.progress import Progress
from tests.evaluation.planted import (
    PlantedRanker,
    PlantedRecommender,
    context,
    decode_groups,
    examples,
    lists,
    split,
    table,
)

SIZE = 60


def echo(histories: Histories, k: int, beam: int) -> Ranking:
    """The list is the history's last item, then the beam."""
    last = [int(row[row != PAD][-1]) if (row != PAD).any() else 59 for row in histories.items]
    return lists([[item, beam] for item in last], k)


def test_rows_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_module, "CHUNK", 7)
    generator = np.random.default_rng(0)
    rows = [generator.integers(0, 50, size=generator.integers(0, 9)).tolist() for _ in range(40)]
    ranker = PlantedRanker(echo)
    ranking = decode(ranker, Histories.of(rows), beam=50, label="", progress=Progress())
    assert ranking.items[:, 0].tolist() == [row[-1] if row else 59 for row in rows]
    assert ranking.items.shape == (40, 50)
    assert max(len(h) for h, _, _ in ranker.calls) == 7


def test_a_recommender_is_decoded_once_per_group_and_beam() -> None:
    ranker = PlantedRecommender(echo, table([[0]] * SIZE), limit=3)
    task = split(SIZE, examples([[1, 2, 3, 4, 5]], [9]), examples([[6], []], [10, 11]), concept=[9])
    forget, retain = decode_groups(context(ranker, task))
    assert (forget.group, retain.group) == (Group.FORGET, Group.RETAIN)
    assert forget.histories.items.tolist() == [[3, 4, 5]]
    assert retain.top(10)[:, :2].tolist() == [[6, 10], [59, 10]]
    assert retain.top(50)[:, :2].tolist() == [[6, 50], [59, 50]]
    assert retain.rankings[50].items.shape == (2, 50)
    assert [(len(h), k, beam) for h, k, beam, _ in ranker.calls] == [(1, 10, 10), (1, 50, 50), (2, 10, 10), (2, 50, 50)]


def test_a_model_that_drops_items_sees_the_whole_history() -> None:
    ignored = np.zeros(SIZE, dtype=np.bool_)
    ignored[[4, 5]] = True
    ranker = PlantedRecommender(echo, table([[0]] * SIZE), limit=2, ignored=ignored)
    task = split(SIZE, examples([[1, 2, 3, 4, 5]], [9]), examples([], []), concept=[9])
    forget, retain = decode_groups(context(ranker, task))
    assert forget.top(10)[0, 0] == 3
    assert len(retain.examples) == 0
    assert retain.top(10).shape == (0, 10)
