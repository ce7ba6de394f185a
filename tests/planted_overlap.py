"""A planted catalogue whose concept shares as many codes with the rest as is asked for, and nothing else changes.

64 items in 8 groups of 8, walked through in circles as in ``tests.planted``. An item's semantic ID is six binary codes:
three bits of its group and three of its place. The concept is item g of group g, for every g: one item of each group,
and half of them carry either bit at each level, as half of the retain items do. So Ω, the chance that a concept and a
retain item have the same code, is 1/2 at every level.

Each level has two further codes, the twins of the first two, that no retain item carries. A concept item whose codes
are twins at p of its six levels shares codes at the other 6 - p alone, so that Ω = (6 - p) / 12 exactly: 0.5 with no
twin, 0.25 with three, 0 with six. Sequences, retain items' IDs, features, codebooks, seeds and sizes stay the same.
As the retrained model never meets a concept item, its weights are the same for every Ω.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests.planted import GROUPS, MEMBERS, catalogue, examples, groups, sequences

__all__ = ["LEVELS", "OVERLAPS", "OverlapWorld", "concept", "measured_part", "request", "retrained", "sids", "trained"]

LEVELS = 6
OVERLAPS = (0.0, 0.25, 0.5)
USERS = {"train": 300, "valid": 40, "test": 80}
SHAPE = T5Shape(d_model=32, d_kv=16, d_ff=64, layers=1, heads=2, dropout=0.0, history_limit=3)
TRAINING = TrainingConfig(lr=5e-3, batch_size=64, epochs=14, warmup_steps=20, evaluations=2, valid_rows=100)
ITEMS = np.arange(GROUPS * MEMBERS)


@dataclass(frozen=True, eq=False)
class OverlapWorld:
    """One catalogue, with the recommender that was trained on it."""

    overlap: float
    request: ForgetRequest
    test: Groups
    original: T5Recommender


def concept() -> np.ndarray:
    """[64] item g of group g."""
    return ITEMS // MEMBERS == ITEMS % MEMBERS


def sids(overlap: float) -> SidTable:
    """The table for an Ω that is a multiple of 1/12 up to 0.5."""
    twins = round((0.5 - overlap) * 2 * LEVELS)
    if not 0 <= twins <= LEVELS or abs((LEVELS - twins) / (2 * LEVELS) - overlap) > 1e-9:
        raise ValueError(f"Ω is a multiple of 1/12 between 0 and 0.5 here, not {overlap}")
    group, place = ITEMS // MEMBERS, ITEMS % MEMBERS
    # Gray's order of the places: neighbours in the circle differ in one bit, which a tiny network learns in seconds.
    bits = (group * MEMBERS + (place ^ (place >> 1)))[:, None] >> np.arange(LEVELS)[::-1] & 1
    turned = (np.arange(LEVELS) + group[:, None]) % LEVELS < twins
    codes = (bits + 2 * (turned & concept()[:, None])).astype(np.int64)
    books = _codebooks()
    latents = sum(book[codes[:, level]] for level, book in enumerate(books)) + _noise()
    return SidTable(
        codes=codes,
        level_sizes=(4,) * LEVELS,
        quantised_levels=LEVELS,
        codebooks=books,
        latents=latents.astype(np.float32),
    )


def _codebooks() -> tuple[np.ndarray, ...]:
    """Each level has a plane of its own: one axis tells the two bits apart, the other the twins. The nearest codeword
    is an item's code, and its twin is the next."""
    books = []
    for level in range(LEVELS):
        book = np.zeros((4, 2 * LEVELS), dtype=np.float32)
        for code in range(4):
            book[code, 2 * level : 2 * level + 2] = 2 * (code % 2) - 1, 0.7 * (2 * (code // 2) - 1)
        books.append(book)
    return tuple(books)


def _noise() -> np.ndarray:
    return np.random.default_rng(0).normal(scale=0.1, size=(len(ITEMS), 2 * LEVELS))


def features() -> ItemFeatures:
    """Those of the catalogue without twins, for every Ω: what an item is does not depend on how it is written."""
    latents = sids(0.5).latents
    assert latents is not None
    unit = latents / np.linalg.norm(latents, axis=1, keepdims=True)
    return ItemFeatures(unit, unit, "planted overlap")


def _part(name: str) -> Examples:
    return examples(sequences(USERS[name], 9, seed=list(USERS).index(name) + 1))


def request(seed: int = 0) -> ForgetRequest:
    """The same for every Ω."""
    marked = concept()
    return ForgetRequest(
        catalogue=catalogue(),
        kind=ConceptKind.BRAND,
        items=marked,
        pairs=np.zeros((0, 2), dtype=np.int64),
        train=groups(_part("train"), marked),
        valid=groups(_part("valid"), marked),
        features=features(),
        seed=seed,
    )


def measured_part() -> Groups:
    """The users that are measured."""
    return groups(_part("test"), concept())


def trained(overlap: float, seed: int = 0) -> OverlapWorld:
    """The catalogue of that Ω and a recommender trained on all of it."""
    model = _fit(sids(overlap), _part("train"), _part("valid"), seed)
    return OverlapWorld(overlap, request(seed), measured_part(), model)


def retrained(overlap: float, seed: int = 0, training: TrainingConfig = TRAINING) -> T5Recommender:
    """Trained from the same weights on the retain examples, concept items taken out of their histories."""
    wanted = request(seed)
    train, valid = (part.retain.without_items(wanted.items) for part in (wanted.train, wanted.valid))
    return _fit(sids(overlap), train, valid, seed, training)


def _fit(
    table: SidTable, train: Examples, valid: Examples, seed: int, training: TrainingConfig = TRAINING
) -> T5Recommender:
    torch.set_num_threads(1)
    model = T5Recommender.fresh(SHAPE, table, seed=seed)
    train_recommender(model, training, train=train, valid=valid, seed=seed, device="cpu", progress=Progress())
    return model
