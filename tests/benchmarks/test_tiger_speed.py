"""TIGER's training and evaluation against cornac's TIGER: same data, same SIDs, same network size, same run.

Needs the extra ``speed`` (cornac). Run with ``-s`` to see the ratios. Both sides are timed as they are used: from
sessions or examples to trained weights, and from histories to ranked lists, set-up included. One thread and processor
time, or two and wall-clock where a second one helps just now (see ``timing``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable
from tests.benchmarks.catalogue import industrial
from tests.benchmarks.timing import Duel, free_threads, timed
from tests.planted import examples

pytestmark = pytest.mark.speed
pytest.importorskip("cornac", reason="needs the extra 'speed'")

HISTORY, BATCH, BEAM = 10, 256, 20
STEPS_THEIRS, STEPS_OURS = 3, 8
"""Batches of a measurement. cornac pads all histories to ten items, so that three of its batches tell the time of all;
ours are of similar length, so more of them are needed before they are like the whole."""
ROUNDS = 2
USERS_THEIRS, USERS_OURS = 24, 768
TRAINING_GOAL, EVALUATION_GOAL = 2.0, 10.0
DEMO_FLOOR = 1.6
"""The goal of training is one on real histories: those chosen of the demo are longer, so cornac pads less there."""


@dataclass(frozen=True, eq=False)
class World:
    """Sessions, and a cornac model that has its semantic IDs and is still untrained."""

    source: str
    sessions: list[list[int]]
    theirs: Any
    table: SidTable

    def examples(self) -> Examples:
        """All prefixes of all sessions: what cornac makes of them, too."""
        return examples(self.sessions)

    def as_cornac(self, batches: int) -> Any:
        """What cornac's trainer reads of a training set; sessions for so many batches."""
        prefixes = np.cumsum([len(session) - 1 for session in self.sessions])
        sessions = self.sessions[: int(np.searchsorted(prefixes, batches * BATCH, side="right"))]
        items = np.concatenate([np.asarray(session) for session in sessions])
        users = np.repeat(np.arange(len(sessions)), [len(session) for session in sessions])
        rows = np.split(np.arange(len(items)), np.cumsum([len(session) for session in sessions])[:-1])
        return SimpleNamespace(
            uir_tuple=(users, items, np.ones(len(items))),
            sessions={number: row.tolist() for number, row in enumerate(rows)},
        )


@pytest.fixture(autouse=True)
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    count = free_threads()
    torch.set_num_threads(count)
    yield count
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def world() -> World:
    from cornac.models.tiger import TIGER

    real = bool(os.environ.get("GENREC_UNLEARN_BENCH_DATA"))
    dataset = prepare(find_dataset("industrial" if real else "demo"), None, Progress())
    train = dataset.train
    # One session a user, as long as a history and its target; then as many as give ``STEPS_OURS`` batches of prefixes.
    lengths = train.history_lengths(HISTORY)
    order = np.random.default_rng(0).permutation(len(train))
    order = order[np.argsort(-lengths[order], kind="stable")]
    _, first = np.unique(train.users[order], return_index=True)
    chosen = np.random.default_rng(1).permutation(np.sort(order[first]))
    many = int(np.searchsorted(np.cumsum(lengths[chosen]), STEPS_OURS * BATCH))
    rows = chosen[: many + 1]
    histories = train.histories(HISTORY, rows)
    sessions = [
        [*(int(item) for item in history if item >= 0), int(target)]
        for history, target in zip(histories.items, train.targets[rows], strict=True)
    ]
    # The published codes on the real data; as many groups of items on the demo.
    codes = industrial().codes if real else np.random.default_rng(2).integers(256, size=(len(dataset.items), 3))
    theirs = TIGER(max_len=HISTORY, n_epochs=1, batch_size=BATCH, n_beams=BEAM, device="cpu", seed=0)
    theirs._build_semantic_ids(codes)
    theirs.iid_map, theirs.device_ = {item: item for item in range(len(codes))}, "cpu"
    table = SidTable(theirs.sid_table, tuple(theirs.level_sizes), 3)
    return World("Industrial" if real else "demo", sessions, theirs, table)


def test_training(world: World) -> None:
    """Examples a second over one epoch, AdamW at batch 256; ours clips, schedules and validates once on top."""
    data = world.examples()
    config = TrainingConfig(lr=1e-3, weight_decay=1e-4, batch_size=BATCH, epochs=1, evaluations=1, valid_rows=1)
    theirs = world.theirs
    theirs.train_set = world.as_cornac(STEPS_THEIRS)
    their_examples = len(theirs.train_set.uir_tuple[0]) - len(theirs.train_set.sessions)

    def ours() -> None:
        model = T5Recommender.fresh(T5Shape(history_limit=HISTORY), world.table, seed=0)
        train_recommender(model, config, train=data, valid=data, seed=0, device="cpu", progress=Progress())

    def peer() -> None:
        theirs._fit_seq2seq(torch, None)

    before, mine, after = timed(peer)[0], timed(ours)[0], timed(peer)[0]
    result = Duel(mine / len(data), min(before, after) / their_examples)
    rates = f" an example; {1 / result.ours:.0f} and {1 / result.theirs:.0f} examples/s"
    result.report(f"train TIGER at batch {BATCH} ({world.source})", peer="cornac", note=rates)
    assert result.ratio >= (DEMO_FLOOR if world.source == "demo" else TRAINING_GOAL)


def test_evaluation(world: World) -> None:
    """Histories a second at beam 20, from histories to scores; cornac takes one history at a time."""
    theirs = world.theirs
    theirs.train_set = SimpleNamespace(
        uir_tuple=(np.zeros(2, dtype=int), np.array(world.sessions[0][:2]), np.ones(2)), sessions={0: [0, 1]}
    )
    theirs.batch_size = 1
    theirs._fit_seq2seq(torch, None)  # a network of random weights, but for one step
    theirs.batch_size = BATCH
    data = world.examples()
    rows = np.random.default_rng(3).integers(len(data), size=USERS_OURS)
    histories = data.histories(HISTORY, rows)
    lists = [[int(item) for item in row if item >= 0] for row in histories.items[:USERS_THEIRS]]
    model = T5Recommender.fresh(T5Shape(history_limit=HISTORY), world.table, seed=0)

    def peer() -> int:
        return sum(int((theirs.score(0, history) > -1e9).sum()) for history in lists)

    runs = []
    for _ in range(ROUNDS):
        mine, ranking = timed(lambda: model.recommend(histories, 10, beam=BEAM))
        other, scored = timed(peer)
        runs.append((mine / USERS_OURS, other / USERS_THEIRS))
        assert (ranking.items >= 0).all()
        assert scored == BEAM * USERS_THEIRS, "both sides fill their lists"
    result = Duel(min(mine for mine, _ in runs), min(other for _, other in runs))
    rates = f" a history; {1 / result.ours:.0f} and {1 / result.theirs:.1f} histories/s"
    result.report(f"evaluate TIGER at beam {BEAM} ({world.source})", peer="cornac", note=rates)
    assert result.ratio >= EVALUATION_GOAL
