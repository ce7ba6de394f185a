"""Planted worlds for probes: what the labels can be told from is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.holdout import Holdout
from genrec_unlearn_bench.evaluation.measurement import Subject
from genrec_unlearn_bench.evaluation.probing.measurement import ProbingConfig
from genrec_unlearn_bench.evaluation.probing.probes import SplitScores, draw_tasks, layer_probes, summary
from genrec_unlearn_bench.evaluation.probing.splits import Rows
from genrec_unlearn_bench.sids.table import SidTable
from tests.evaluation import planted

FloatArray = NDArray[np.float64]
CONFIG = ProbingConfig(splits=2, minimum=3, inverse_l2=(1e-4, 1e-2, 1.0))
ITEMS, CONCEPT, USERS, CODES = 240, 60, 400, 6


@dataclass(frozen=True)
class World:
    """Rows of many items and users; ``item_code`` [ITEMS] is the level-1 code of each item."""

    rows: Rows
    item_code: NDArray[np.int64]


def world(seed: int = 0, *, positives: int = 300, negatives: int = 900) -> World:
    """Popularity is uneven; a quarter of the items is the concept; users and codes are independent of all else."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, CODES, ITEMS)
    popularity = rng.lognormal(0, 0.7, ITEMS)
    marked = np.arange(ITEMS) < CONCEPT
    items = np.concatenate(
        [
            rng.choice(ITEMS, count, p=popularity * side / (popularity * side).sum())
            for count, side in ((positives, marked), (negatives, ~marked))
        ]
    )
    users = rng.integers(0, USERS, len(items))
    return World(Rows(np.arange(len(items)), marked[items], items, users, code[items]), code)


def numbers(states: FloatArray, rows: Rows, config: ProbingConfig = CONFIG, seed: int = 0) -> dict[str, float]:
    """The curve's numbers of one layer."""
    tasks = draw_tasks(rows, config, seed)
    found = summary(layer_probes(states, tasks, config), tasks, config)
    return {key: float(value) for key, value in found.items() if isinstance(value, float | int)}


def answers(scores: FloatArray, labels: NDArray[np.bool_], items: NDArray[np.int64] | None = None) -> SplitScores:
    return SplitScores(scores, labels, np.arange(len(labels)) if items is None else items)


def catalogue(*, told: bool, seed: int = 0) -> tuple[SidTable, NDArray[np.bool_]]:
    """160 items in 8 level-1 codes, a quarter of them the concept. Where ``told``, its items have third tokens of
    their own; otherwise tokens say nothing of it."""
    rng = np.random.default_rng(seed)
    items = np.arange(160)
    concept = items % 4 == 0
    third = rng.integers(0, 8, 160) + (8 * concept if told else 8 * rng.integers(0, 2, 160))
    codes = np.stack([rng.permutation(items) % 8, rng.integers(0, 16, 160), third], axis=1)
    return SidTable(codes, (16, 16, 16), 3), concept


def subject(
    table: SidTable,
    concept: NDArray[np.bool_],
    *,
    users: int = 300,
    events: int = 7,
    model: Callable[[SidTable], Recommender] | None = None,
    seed: int = 0,
) -> Subject:
    """Users who buy at random: a model with random weights that is given their histories."""
    rng = np.random.default_rng(seed)
    walks = rng.integers(0, len(concept), (users, events))
    train = planted.examples(walks[:, :-1].tolist(), walks[:, -1].tolist())
    task = divided(train, concept)
    return Subject(
        recommender=(model or t5)(table),
        original_sids=table,
        split=task,
        features=planted.features(len(concept)),
        holdout=Holdout(np.zeros((0, 2), dtype=np.int64), train.subset(np.arange(0)), train.subset(np.arange(0)), ""),
        scale="smoke",
        seed=seed,
    )


def divided(train: Examples, concept: NDArray[np.bool_]) -> ForgetSplit:
    hit = concept[train.targets]
    return planted.split(len(concept), train.subset(hit), train.subset(~hit), concept=np.flatnonzero(concept).tolist())


def without_items(task: ForgetSplit, pairs: list[tuple[int, int]]) -> ForgetSplit:
    """The same groups, asked for as single interactions."""
    made = planted.split(len(task.items), task.train.forget, task.train.retain, pairs=pairs)
    return replace(made, items=np.zeros_like(task.items))


def t5(table: SidTable) -> T5Recommender:
    """Random weights, but that the upper half of the third tokens have something in common."""
    shape = T5Shape(d_model=16, d_kv=8, d_ff=16, layers=2, heads=2, dropout=0.1, history_limit=5)
    made = T5Recommender.fresh(shape, table, seed=0)
    with torch.no_grad():
        made.model.shared.weight[made.vocabulary.offsets[2] + 8 :, :4] += 4.0
    return made
