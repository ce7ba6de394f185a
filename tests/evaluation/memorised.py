"""A planted world in which nothing can be learned but what is memorised: histories and targets are drawn at random.

The original is trained to the end on all train examples, the oracles on the retain ones alone. Whatever tells forget
train examples from the holdout is memory, as both are drawn alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch

from genrec_unlearn_bench import testing as planted
from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups
from genrec_unlearn_bench.data.holdout import Holdout
from genrec_unlearn_bench.evaluation.likelihoods import LIKELIHOODS
from genrec_unlearn_bench.evaluation.measurement import Subject
from genrec_unlearn_bench.progress import Progress
from tests.evaluation.planted import examples, manifest

ITEMS = planted.GROUPS * planted.MEMBERS
LENGTH = 3
"""Items of a history."""


def drawn(count: int, targets: IntArray, generator: np.random.Generator) -> Examples:
    """Random histories, none of which holds its target, which is one of ``targets``."""
    wanted = generator.choice(targets, size=count)
    shifts = generator.permuted(np.tile(np.arange(1, ITEMS), (count, 1)), axis=1)[:, :LENGTH]
    return examples(((wanted[:, None] + shifts) % ITEMS).tolist(), wanted.tolist())


def joined(first: Examples, second: Examples) -> Examples:
    """Both, one behind the other."""
    moved = {name: getattr(second, name) + len(first.events) for name in ("starts", "ends")}
    shifted = replace(second, **moved)
    names = Examples.__dataclass_fields__
    return Examples(**{name: np.concatenate([getattr(first, name), getattr(shifted, name)]) for name in names})


@dataclass(frozen=True, eq=False)
class World:
    split: ForgetSplit
    holdout: Holdout
    original: T5Recommender
    oracles: tuple[T5Recommender, T5Recommender]


def groups(forget: int, retain: int, generator: np.random.Generator) -> Groups:
    concept = np.flatnonzero(planted.concept())
    return Groups(drawn(forget, concept, generator), drawn(retain, np.setdiff1d(np.arange(ITEMS), concept), generator))


def trained(part: Examples, seed: int) -> T5Recommender:
    shape = T5Shape(d_model=48, d_kv=12, d_ff=96, layers=1, heads=4, dropout=0.0, history_limit=planted.HISTORY)
    model = T5Recommender.fresh(shape, planted.sids(), seed=seed)
    config = TrainingConfig(lr=5e-3, batch_size=64, epochs=40, warmup_steps=10, evaluations=1, valid_rows=50)
    train_recommender(model, config, train=part, valid=part, seed=seed, device="cpu", progress=Progress())
    return model


@cache
def world() -> World:
    """The same in every test; nothing changes it."""
    torch.set_num_threads(1)
    generator = np.random.default_rng(2)
    train, held, test = (groups(*sizes, generator) for sizes in ((110, 110), (110, 110), (60, 60)))
    split = ForgetSplit(
        ConceptKind.BRAND,
        planted.concept(),
        np.zeros((0, 2), dtype=np.int64),
        train,
        test,
        test,
        manifest(ConceptKind.BRAND),
    )
    pairs = np.zeros((0, 2), dtype=np.int64)
    return World(
        split,
        Holdout(pairs, held.forget, held.retain, "planted"),
        trained(joined(train.forget, train.retain), seed=1),
        (trained(train.retain, seed=1), trained(train.retain, seed=2)),
    )


def subject(model: T5Recommender, split: ForgetSplit | None = None, holdout: Holdout | None = None) -> Subject:
    """A model of the world as measurements get it, with its likelihoods read."""
    planted_world = world()
    found = Subject(
        recommender=model,
        original_sids=planted_world.original.sids,
        split=split or planted_world.split,
        features=planted.features(planted.sids()),
        holdout=holdout or planted_world.holdout,
        scale="smoke",
        seed=0,
    )
    return replace(found, pass_arrays={LIKELIHOODS.name: LIKELIHOODS.run(found, Progress()).samples})
