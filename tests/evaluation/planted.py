"""Small planted worlds: a catalogue, a task, and rankers whose every answer is known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from genrec_unlearn_bench.backbones.recommender import Ranker, Recommender, ServingRules
from genrec_unlearn_bench.data.examples import Examples, Histories
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups, TaskManifest
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.core import BLOCK, evaluate
from genrec_unlearn_bench.evaluation.decode import EvaluationContext, decode_block
from genrec_unlearn_bench.evaluation.lists import GroupLists, Lists, read_lists
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.evaluation.ranking import TEST_GROUPS
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable

Answer = Callable[[Histories, int, int], Ranking]


def examples(
    histories: Sequence[Sequence[int]], targets: Sequence[int], users: Sequence[int] | None = None
) -> Examples:
    lengths = np.array([len(row) for row in histories], dtype=np.int64)
    ends = np.cumsum(lengths).astype(np.int64)
    owners = np.arange(len(targets)) if users is None else np.asarray(users)
    return Examples(
        users=owners.astype(np.int64),
        targets=np.asarray(targets, dtype=np.int64),
        times=np.arange(len(targets), dtype=np.int64),
        events=np.array([item for row in histories for item in row], dtype=np.int64),
        event_users=np.repeat(owners, lengths).astype(np.int64),
        starts=(ends - lengths).astype(np.int64),
        ends=ends,
    )


def item_table(size: int, categories: Sequence[tuple[str, ...]] | None = None) -> ItemTable:
    blank = ("",) * size
    return ItemTable(
        ids=tuple(f"item {i}" for i in range(size)),
        titles=blank,
        descriptions=blank,
        brands=blank,
        brands_raw=blank,
        prices=np.full(size, np.nan),
        categories=tuple(categories) if categories is not None else ((),) * size,
        texts=blank,
    )


def manifest(kind: ConceptKind) -> TaskManifest:
    return TaskManifest(
        task="planted",
        version=1,
        dataset="planted",
        dataset_digest="",
        kind=kind,
        concepts=(),
        forget_items=(),
        forget_interactions=(),
        train_share=0.1,
        draws=1,
        within_tolerance=True,
        retain_history_share=0.0,
        counts={},
        digest="",
    )


def split(
    size: int, forget: Examples, retain: Examples, *, concept: Sequence[int] = (), pairs: Sequence[tuple[int, int]] = ()
) -> ForgetSplit:
    items = np.zeros(size, dtype=np.bool_)
    items[list(concept)] = True
    kind = ConceptKind.INTERACTION if len(pairs) else ConceptKind.BRAND
    groups = Groups(forget, retain)
    table = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return ForgetSplit(kind, items, table, groups, groups, groups, manifest(kind))


def features(size: int, width: int = 8, seed: int = 0) -> ItemFeatures:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(2, size, width)).astype(np.float32)
    plain, scrubbed = rows / np.linalg.norm(rows, axis=2, keepdims=True)
    return ItemFeatures(plain, scrubbed, "planted")


def table(codes: Sequence[Sequence[int]], size: int = 4, version: int = 0) -> SidTable:
    array = np.asarray(codes, dtype=np.int64)
    return SidTable(array, (size,) * array.shape[1], array.shape[1], version=version)


def lists(rows: Sequence[Sequence[int]], k: int, log_probs: Sequence[Sequence[float]] | None = None) -> Ranking:
    items = np.full((len(rows), k), -1, dtype=np.int64)
    chances = np.full((len(rows), k), -np.inf, dtype=np.float32)
    for index, row in enumerate(rows):
        cut = list(row)[:k]
        items[index, : len(cut)] = cut
        chances[index, : len(cut)] = (
            -np.log(2.0) * np.arange(1, len(cut) + 1) if log_probs is None else list(log_probs[index])[:k]
        )
    return Ranking(items, chances)


class PlantedRanker(Ranker):
    """Answers with a function of histories, and remembers what it was asked."""

    name: ClassVar[str] = "planted"

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[tuple[Histories, int, int]] = []

    def recommend(self, histories: Histories, k: int, *, beam: int = 50) -> Ranking:
        self.calls.append((histories, k, beam))
        return self.answer(histories, k, beam)

    def save(self, folder: Path) -> None:
        raise OSError("not kept")

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Self:
        raise OSError("not kept")


def _absent(*_: Any, **__: Any) -> Any:
    raise AssertionError("a measurement asked for something it has no business with")


class PlantedRecommender(Recommender):
    """The same with a SID table; ``in_space`` answers when it is decoded in another table's space."""

    name: ClassVar[str] = "planted-recommender"

    def __init__(
        self,
        answer: Answer,
        sids: SidTable,
        *,
        in_space: Answer | None = None,
        limit: int = 5,
        ignored: np.ndarray[Any, np.dtype[np.bool_]] | None = None,
    ) -> None:
        self.answer = answer
        self.in_space = in_space
        self.sids = sids
        self.history_limit = limit
        self.serving = ServingRules(ignored=ignored)
        self.calls: list[tuple[Histories, int, int, SidTable | None]] = []

    def recommend(
        self, histories: Histories, k: int, *, beam: int = 50, exact: bool = False, sids: SidTable | None = None
    ) -> Ranking:
        self.calls.append((histories, k, beam, sids))
        read = histories if self.serving.ignored is None else histories.without(self.serving.ignored)
        answer = self.answer if sids is None or self.in_space is None else self.in_space
        return answer(read.latest(self.history_limit), k, beam)

    def with_sids(self, table: SidTable) -> Self:
        """Its calls are remembered by both."""
        other = copy(self)
        other.sids = table
        return other

    def with_serving(self, rules: ServingRules) -> Self:
        other = copy(self)
        other.serving = rules
        return other

    module = property(_absent)
    vocabulary = property(_absent)
    encode = decode = server = clone = codes_of = save = _absent
    load = classmethod(_absent)


def context(
    ranker: Ranker,
    task: ForgetSplit,
    *,
    original: SidTable | None = None,
    items: ItemTable | None = None,
    text: ItemFeatures | None = None,
    seed: int = 0,
) -> EvaluationContext:
    size = len(task.items)
    return EvaluationContext(
        ranker=ranker,
        original_sids=original,
        items=items if items is not None else item_table(size),
        split=task,
        features=text if text is not None else features(size),
        seed=seed,
    )


@dataclass(frozen=True, eq=False)
class Evaluated:
    """An evaluation with its files read back."""

    values: tuple[MetricValue, ...]
    per_user: pd.DataFrame
    lists: Lists


def evaluated(setting: EvaluationContext, *, block: int = BLOCK) -> Evaluated:
    with TemporaryDirectory() as folder:
        table_file, lists_file = Path(folder, "table"), Path(folder, "lists")
        values = evaluate(setting, table_file, lists_file, Progress(), block=block)
        return Evaluated(values, read_per_user(table_file), read_lists(lists_file))


def decode_groups(setting: EvaluationContext) -> tuple[GroupLists, ...]:
    """Forget and retain test examples, decoded at every beam."""
    return tuple(decode_block(setting, group, setting.test(group), Progress()) for group in TEST_GROUPS)
