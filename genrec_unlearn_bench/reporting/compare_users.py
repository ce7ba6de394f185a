"""Two checkpoints compared on the same test users, seed by seed: a claim about these checkpoints and no others.

Another training seed would give other checkpoints, so what is found here says nothing about the methods; for these
there is ``pairs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, UsageError
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.evaluation.ranking import RANK_METRICS, UserBlock
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.users import UserComparison, compare_users

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]

_RANKS = {metric.name: metric for metric in RANK_METRICS}
_SIMILARITIES = {
    "similarity.first": "first_similarity",
    "similarity.mean@10": "mean_similarity",
    "similarity.first.scrubbed": "first_similarity_scrubbed",
    "similarity.mean@10.scrubbed": "mean_similarity_scrubbed",
}
USER_METRICS = (*_RANKS, *_SIMILARITIES, "concept-rate@10")
"""Metrics that have one value for each test example in the per-user table."""


@dataclass(frozen=True)
class CheckpointPair:
    """One seed's two checkpoints on one measure."""

    seed: int
    measure: Measure
    first: str
    second: str
    found: UserComparison


def user_values(block: UserBlock, metric: str) -> FloatArray:
    """[M] one of ``USER_METRICS`` for each test example, NaN where it was not measured."""
    if metric in _RANKS:
        return _RANKS[metric].of(block.integers("rank"))
    if metric in _SIMILARITIES:
        return block.numbers(_SIMILARITIES[metric])
    filled = block.integers("n_list")
    return np.where(filled > 0, block.integers("concept_in_list") / np.maximum(filled, 1), np.nan)


def compare_checkpoints(
    block: Block,
    first: Row,
    second: Row,
    measures: Sequence[Measure],
    protocol: StatisticsProtocol,
    *,
    seeds: Sequence[int] = (),
) -> tuple[CheckpointPair, ...]:
    """Every shared seed's checkpoints on every measure.

    Args:
        seeds: Training seeds to look at; all that both rows have where none are named.

    Raises:
        UsageError: A measure has no user values, or a seed is not among those that both rows have.
        DataMissing: A run has no per-user table.
        CorruptArtefact: A table was changed, or the two are not of the same test examples.
    """
    for measure in measures:
        if measure.metric not in USER_METRICS:
            raise UsageError(
                f"{measure.metric!r} has no value for each user that two checkpoints could be compared on",
                hint=f"take one of {', '.join(USER_METRICS)}, or leave out --users",
            )
    shared = [s for s in first.results if s in second.results and s not in (*first.diverged, *second.diverged)]
    absent = [seed for seed in seeds if seed not in shared]
    if absent or not shared:
        raise UsageError(
            f"{first.label} and {second.label} do not both have seed {', '.join(map(str, absent)) or 'any'}"
            f" in {block.key.title}",
            hint=f"shared seeds: {', '.join(map(str, shared)) or 'none'}",
        )
    out: list[CheckpointPair] = []
    for seed in seeds or shared:
        tables = [_table(row, seed) for row in (first, second)]
        for measure in measures:
            one, two = (_chosen(table, measure) for table in tables)
            _same(one, two, measure, block)
            found = compare_users(
                user_values(one, measure.metric),
                user_values(two, measure.metric),
                one.integers("user"),
                seed=seed,
                permutations=protocol.user_permutations,
                confidence=protocol.confidence,
            )
            out.append(CheckpointPair(seed, measure, first.label, second.label, found))
    return tuple(out)


def _table(row: Row, seed: int) -> pd.DataFrame:
    result = row.results[seed]
    path: Path = result.per_user
    if not path.is_file():
        raise DataMissing(
            f"{row.label} at seed {seed} has no per-user table",
            where=str(path),
            hint="run it again, or compare over seeds alone (without --users)",
        )
    if result.per_user_digest and file_digest(path) != result.per_user_digest:
        raise CorruptArtefact(
            "the per-user table is not the one of its record", where=str(path), hint="restore it, or run it again"
        )
    return read_per_user(path)


def _chosen(table: pd.DataFrame, measure: Measure) -> UserBlock:
    """The rows of a group at a beam, in the order of the test examples."""
    rows = table[(table["group"] == measure.group.value) & (table["beam"] == measure.beam)]
    return UserBlock(measure.group, measure.beam or 0, rows.sort_values("example", kind="stable"))


def _same(one: UserBlock, two: UserBlock, measure: Measure, block: Block) -> None:
    """Refuse rows of different test examples. A published table has other numbers for users and no targets."""
    same = {
        "examples": np.array_equal(one.integers("example"), two.integers("example")),
        "users": np.array_equal(_numbered(one), _numbered(two)),
        "targets": _hidden(one) or _hidden(two) or np.array_equal(one.integers("target"), two.integers("target")),
    }
    differing = [name for name, equal in same.items() if not equal]
    if differing:
        raise CorruptArtefact(
            f"the two tables are not of the same test examples: other {' and '.join(differing)} for {measure.text}",
            where=block.key.title,
            hint="compare runs of the same task and dataset",
        )


def _numbered(block: UserBlock) -> NDArray[np.int64]:
    """[M] users by order of first appearance, whatever they are called."""
    _, first, inverse = np.unique(block.integers("user"), return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(order[inverse])


def _hidden(block: UserBlock) -> bool:
    return bool((block.integers("target") < 0).all())
