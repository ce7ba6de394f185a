"""Test data for unlearning methods in other repositories: a recommender trained in seconds on planted data.

Every token of the concept is shared with retain items. 64 items in 8 groups of 8; level-1 code = group, so every
group's items share their first token, and the deeper codes repeat in every group. Sequences cycle through a group,
sometimes repeating an item or crossing to the next group. The concept is one item of every group: suppressing its
tokens must hurt retain items, reassigning them need not.

    world = build()
    result = MyMethod(MyMethodConfig(max_steps=20)).unlearn(world.original, world.request, Progress())
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.data.examples import BoolArray, Examples
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.splits import timeline
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable, nearest_codes, ordinals
from genrec_unlearn_bench.unlearning.request import ForgetRequest

GROUPS, MEMBERS, CODES = 8, 8, 16
HISTORY = 4
"""History limit of the recommender."""


@dataclass(frozen=True, eq=False)
class Planted:
    """A trained original, its semantic IDs (with codebooks and latents), a request and test examples.

    Methods must not change it, so it can be shared between tests.
    """

    table: SidTable
    request: ForgetRequest
    test: Groups
    original: T5Recommender


def sids(seed: int = 0) -> SidTable:
    """3 levels of 16 codes; latents are sums of codewords plus noise, so that quantisation recovers the codes."""
    rng = np.random.default_rng(seed)
    books = [(rng.normal(size=(CODES, 8)) * scale).astype(np.float32) for scale in (4.0, 1.5, 0.5)]
    items = np.arange(GROUPS * MEMBERS)
    codes = np.stack([items // MEMBERS, (items % MEMBERS) // 2, items % MEMBERS], axis=1)
    exact = books[0][codes[:, 0]] + books[1][codes[:, 1]] + books[2][codes[:, 2]]
    latents = (exact + rng.normal(size=exact.shape) * 0.02).astype(np.float32)
    codes = nearest_codes(latents, books)
    return SidTable(
        codes=np.concatenate([codes, ordinals(codes)[:, None]], axis=1),
        level_sizes=(CODES, CODES, CODES, 4),
        quantised_levels=3,
        codebooks=tuple(books),
        latents=latents,
    )


def concept() -> BoolArray:
    """[64] one item of every group."""
    marked = np.zeros(GROUPS * MEMBERS, dtype=bool)
    marked[np.arange(GROUPS) * MEMBERS + 3] = True
    return marked


def sequences(users: int, length: int, seed: int) -> list[list[int]]:
    """Random walks through the groups, as above."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(users):
        group, member = rng.integers(GROUPS), rng.integers(MEMBERS)
        walk: list[int] = []
        for _ in range(length):
            walk.append(int(group * MEMBERS + member))
            luck = rng.random()
            if luck < 0.95:
                member = (member + 1) % MEMBERS
            if luck < 0.05:
                group = (group + 1) % GROUPS
        out.append(walk)
    return out


def examples(walks: list[list[int]]) -> Examples:
    """Every event but the first of each walk as a target, with all events before it as its history."""
    events = np.concatenate([np.asarray(walk) for walk in walks]).astype(np.int64)
    owners = np.repeat(np.arange(len(walks)), [len(walk) for walk in walks]).astype(np.int64)
    every, _ = timeline(owners, events, np.arange(len(events), dtype=np.int64))
    return every.subset(np.flatnonzero(every.ends > every.starts))


def groups(part: Examples, marked: BoolArray) -> Groups:
    hit = marked[part.targets]
    return Groups(part.subset(hit), part.subset(~hit))


def features(table: SidTable) -> ItemFeatures:
    """The latents as the items' features."""
    if table.latents is None:
        raise ValueError("the planted table has latents")
    unit = table.latents / np.linalg.norm(table.latents, axis=1, keepdims=True)
    return ItemFeatures(unit, unit, "planted")


def catalogue() -> ItemTable:
    count = GROUPS * MEMBERS
    names = tuple(f"group {item // MEMBERS} member {item % MEMBERS}" for item in range(count))
    nothing = ("",) * count
    prices = np.full(count, np.nan)
    ids = tuple(f"item-{item}" for item in range(count))
    return ItemTable(ids, names, nothing, nothing, nothing, prices, ((),) * count, nothing)


def nll(model: Recommender, part: Examples) -> float:
    """Mean negative log-likelihood of the examples' target tokens, in nats."""
    return -float(model.target_log_probs(part.histories(model.history_limit), part.targets).mean())


def build(seed: int = 0) -> Planted:
    """Train the original; takes a few seconds on one thread."""
    torch.set_num_threads(1)
    table, marked = sids(), concept()
    train, valid, test = (examples(sequences(n, 9, s)) for n, s in ((300, 1), (40, 2), (60, 3)))
    request = ForgetRequest(
        catalogue=catalogue(),
        kind=ConceptKind.BRAND,
        items=marked,
        pairs=np.zeros((0, 2), dtype=np.int64),
        train=groups(train, marked),
        valid=groups(valid, marked),
        features=features(table),
        seed=seed,
    )
    shape = T5Shape(d_model=48, d_kv=12, d_ff=96, layers=1, heads=4, dropout=0.0, history_limit=HISTORY)
    model = T5Recommender.fresh(shape, table, seed=seed)
    config = TrainingConfig(lr=5e-3, batch_size=128, epochs=16, warmup_steps=20, evaluations=4, valid_rows=200)
    train_recommender(model, config, train=train, valid=valid, seed=seed, device="cpu", progress=Progress())
    return Planted(table, request, groups(test, marked), model)
