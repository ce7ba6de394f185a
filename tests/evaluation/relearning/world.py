"""A planted world in which it is known what a model holds of the concept, and what it only hides.

Five groups of 24 items; codes are group, place // 4 and place % 4. Shoppers walk in circles inside a group. The
concept is every fourth place: its items alone use the last level's code 3, and their first two codes are shuffled among
them, so that which of them follows can be known by heart only. What half of the concept's items teach says nothing of
the others.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import torch

from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.data.examples import BoolArray, Examples
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups
from genrec_unlearn_bench.data.holdout import Holdout
from genrec_unlearn_bench.evaluation.measurement import Measured, References, Subject
from genrec_unlearn_bench.evaluation.relearning.measurement import START, Relearning, RelearningConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable
from tests.evaluation import planted
from tests.planted import examples as walks_as_examples

GROUPS, PLACES = 5, 24
ITEMS = GROUPS * PLACES
CONCEPT_CODE = 3
CONFIG = RelearningConfig(steps=(0, 5, 40), lr=1e-3)
SHAPE = T5Shape(d_model=32, d_kv=8, d_ff=64, layers=1, heads=4, dropout=0.0, history_limit=2)


def concept() -> BoolArray:
    """[N] every fourth place."""
    return np.arange(ITEMS) % 4 == 3


def table() -> SidTable:
    """Three levels with codes to spare."""
    items = np.arange(ITEMS)
    codes = np.stack([items // PLACES, items % PLACES // 4, items % 4], axis=1).astype(np.int64)
    marked = np.flatnonzero(concept())
    codes[marked] = codes[np.random.default_rng(0).permutation(marked)]
    return SidTable(codes, (8, 8, 8), 3)


def relabelled() -> SidTable:
    """Every concept item carries the codes of another one."""
    marked = np.flatnonzero(concept())
    return table().reassigned(marked, table().codes[np.roll(marked, 7)])


@cache
def split(kind: ConceptKind = ConceptKind.BRAND) -> ForgetSplit:
    """Walks of 200 train and 80 test shoppers; users are numbered through."""
    train, test = (_walks(count, seed) for count, seed in ((200, 1), (80, 2)))
    test = replace(test, users=test.users + 100, event_users=test.event_users + 100)
    if kind is ConceptKind.INTERACTION:
        chosen = np.arange(len(train)) % 6 == 0
        pairs = np.stack([train.users[chosen], train.targets[chosen]], axis=1)
        groups = Groups(train.subset(chosen), train.subset(~chosen))
        return ForgetSplit(kind, np.zeros(ITEMS, dtype=bool), pairs, groups, groups, groups, planted.manifest(kind))
    marked = concept()
    parts = [Groups(part.subset(marked[part.targets]), part.subset(~marked[part.targets])) for part in (train, test)]
    nothing = np.zeros((0, 2), dtype=np.int64)
    return ForgetSplit(kind, marked, nothing, parts[0], parts[1], parts[1], planted.manifest(kind))


@cache
def trained(*, on_concept: bool, seed: int = 0) -> T5Recommender:
    """The original, or a model that never learned the concept. Not to be changed: tests share them."""
    torch.set_num_threads(1)
    model = T5Recommender.fresh(SHAPE, table(), seed=seed)
    train, valid = _walks(200, 1), _walks(20, 3)
    if not on_concept:
        train, valid = (split().cleaned(part.subset(~concept()[part.targets])) for part in (train, valid))
    config = TrainingConfig(lr=1e-2, batch_size=64, epochs=12, warmup_steps=20, evaluations=2, valid_rows=60)
    train_recommender(model, config, train=train, valid=valid, seed=seed, device="cpu", progress=Progress())
    return model


@cache
def hidden(logits: float = 20.0) -> T5Recommender:
    """The original with an output bias against the concept's token, of so many nats on average; all else is there."""
    model = trained(on_concept=True).clone()
    part = split().train.forget
    with torch.no_grad():
        states = model.forward(part.histories(2), part.targets, hidden=True).hidden[-1]
        state = states[:, 2].mean(0)
        # Tied heads read states times d_model ** -0.5.
        shift = logits * state / state.norm() ** 2 * model.shape.d_model**0.5
        model.model.lm_head.weight[model.vocabulary.offsets[2] + CONCEPT_CODE] -= shift
    return model


def subject(model: Recommender, task: ForgetSplit | None = None) -> Subject:
    """The model under measurement, with what the reading gives."""
    bare = Subject(
        recommender=model,
        original_sids=table(),
        split=task or split(),
        features=planted.features(ITEMS),
        holdout=Holdout(np.zeros((0, 2), dtype=np.int64), _walks(1, 4), _walks(1, 5), ""),
        scale="smoke",
        seed=0,
    )
    return replace(bare, pass_arrays={START.name: START.run(bare, Progress()).samples})


def attacked(model: Recommender, *parts: str, config: RelearningConfig = CONFIG) -> dict[str, Measured]:
    """The parts of the measurement on one model."""
    found = subject(model)
    return {part: Relearning().measure(found, part, config, Progress()) for part in parts}


def references(*parts: str, config: RelearningConfig = CONFIG, row: str = "") -> References:
    """The same parts on the original and on the model that never learned the concept."""
    return References(
        original=attacked(trained(on_concept=True), *parts, config=config),
        oracles=[attacked(trained(on_concept=False), *parts, config=config)],
        row=row,
    )


def _walks(users: int, seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    walks = []
    for _ in range(users):
        group, place = rng.integers(GROUPS), rng.integers(PLACES)
        walks.append([int(group * PLACES + (place + step) % PLACES) for step in range(10)])
    return walks_as_examples(walks)
