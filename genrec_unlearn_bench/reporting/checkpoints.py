"""Two checkpoints compared on the same test users, seed by seed: tests, terminal output and JSON.

Another training seed would give other checkpoints, so what is found here says nothing about the methods; for these
there is ``comparisons``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, UsageError
from genrec_unlearn_bench.evaluation.exposure import exposed_values
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.evaluation.ranking import RANK_METRICS, UserBlock, block_of
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline.results import PER_USER
from genrec_unlearn_bench.reporting.board import BlockKey, Row
from genrec_unlearn_bench.reporting.comparisons import SCHEMA_VERSION, PairedBlock, interval_text, names_of
from genrec_unlearn_bench.reporting.formats.grid import plain_grid
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.paired import FloatArray
from genrec_unlearn_bench.reporting.statistics.users import CLAIM, UserComparison, compare_users
from genrec_unlearn_bench.reporting.tables import decimals
from genrec_unlearn_bench.reporting.wording import fields, p_text, six, visible

if TYPE_CHECKING:
    import pandas as pd

_EXPOSED = tuple(f"{family}.{name}" for family in ("worst-case", "exposed") for name in ("hr@10", "ndcg@10"))
USER_METRICS = (*RANK_METRICS, *_EXPOSED)
"""Metrics of lists, which have a value for each test example in the per-user table."""


@dataclass(frozen=True)
class CheckpointPair:
    """One seed's two checkpoints on one measure."""

    key: BlockKey
    seed: int
    measure: Measure
    first: str
    second: str
    found: UserComparison


def user_values(block: UserBlock, metric: str) -> FloatArray:
    """[M] one of ``USER_METRICS`` for each test example, NaN where it was not measured."""
    return exposed_values(block, metric) if metric in _EXPOSED else RANK_METRICS[metric](block.integers("rank"))


def compare_checkpoints(
    pair: PairedBlock, protocol: StatisticsProtocol, *, seeds: Sequence[int] = ()
) -> list[CheckpointPair]:
    """The checkpoints of some seeds, or of all that both rows have, on every measure of a compared pair of rows.

    Raises UsageError for a measure without user values and a seed that is not shared, DataMissing where a run has no
    per-user table, and CorruptArtefact where a table was changed or is not of the same test examples.
    """
    first, second, key = pair.first, pair.second, pair.block.key
    measures = [each.measure for each in pair.measures]
    if unfit := [measure.metric for measure in measures if measure.metric not in USER_METRICS]:
        hint = f"take {', '.join(USER_METRICS)}, or leave out --users"
        raise UsageError(f"{unfit[0]!r} has no value for each user that checkpoints are compared on", hint=hint)
    shared = [s for s in first.results if s in second.results and s not in (*first.diverged, *second.diverged)]
    absent = [seed for seed in seeds if seed not in shared]
    if absent or not shared:
        raise UsageError(
            f"{first.label} and {second.label} do not both have seed {', '.join(map(str, absent)) or 'any'}"
            f" in {key.title}",
            hint=f"shared seeds: {', '.join(map(str, shared)) or 'none'}",
        )
    out = []
    for seed in seeds or shared:
        tables = [_table(row, seed) for row in (first, second)]
        for measure in measures:
            one, two = (block_of(table, measure.group, measure.beam or 0) for table in tables)
            if not np.array_equal(_examples(one), _examples(two)):
                raise CorruptArtefact(
                    f"the two tables are not of the same test examples for {measure.text}",
                    where=key.title,
                    hint="compare runs of the same task and dataset",
                )
            found = compare_users(
                user_values(one, measure.metric),
                user_values(two, measure.metric),
                one.integers("user"),
                seed=seed,
                permutations=protocol.user_permutations,
                confidence=protocol.confidence,
            )
            out.append(CheckpointPair(key, seed, measure, first.label, second.label, found))
    return out


def _table(row: Row, seed: int) -> pd.DataFrame:
    result = row.results[seed]
    path = result.folder / PER_USER
    if not path.is_file():
        hint = "run it again, or compare over seeds alone (without --users)"
        raise DataMissing(f"{row.label} at seed {seed} has no per-user table", where=str(path), hint=hint)
    if result.per_user_digest and file_digest(path) != result.per_user_digest:
        hint = "restore it, or run it again"
        raise CorruptArtefact("the per-user table is not the one of its record", where=str(path), hint=hint)
    return read_per_user(path)


def _examples(block: UserBlock) -> NDArray[np.int64]:
    """[2, M] test examples, and users by first appearance: a published table has other numbers for them."""
    import pandas as pd

    return np.stack([block.integers("example"), pd.factorize(block.integers("user"))[0]])


def users_document(found: Sequence[CheckpointPair], protocol: StatisticsProtocol) -> dict[str, Any]:
    """The document of ``bench results compare --users --json``; p-values are not corrected."""
    return {
        "kind": "genrec-unlearn-bench checkpoints",
        "schema_version": SCHEMA_VERSION,
        "claim": CLAIM,
        "protocol": protocol.model_dump(mode="json"),
        "comparisons": [
            {
                **names_of(pair.key),
                **fields(pair, "seed", "first", "second"),
                "measure": pair.measure.text,
                "difference": six(pair.found.estimate),
                **fields(pair.found, "low", "high", "p", "rows", "users", "permutations"),
            }
            for pair in found
        ],
    }


def draw_checkpoints(console: Console, found: Sequence[CheckpointPair], protocol: StatisticsProtocol) -> None:
    """Print every pair of checkpoints, with what they can and cannot show."""
    heads = ("measure", "seed", "A - B", "p", "test rows", "users")
    for title, pairs in groupby(found, lambda pair: f"{pair.key.title}: A = {pair.first}, B = {pair.second}"):
        console.print(Text(visible(title), style="bold"))
        rows = [
            (
                *(pair.measure.title, str(pair.seed)),
                interval_text(pair.found.estimate, pair.found.low, pair.found.high, decimals(pair.measure.spec)),
                *(p_text(six(pair.found.p)), str(pair.found.rows), str(pair.found.users)),
            )
            for pair in pairs
        ]
        console.print(plain_grid(heads, rows))
    console.print(
        Text(
            f"{protocol.name.capitalize()}: {CLAIM}. Paired sign flips over users ({protocol.user_permutations} "
            "patterns, all test rows of a user together), not corrected for the number of lines. Another training "
            "seed gives other checkpoints: for a claim about methods compare over seeds (without --users)."
        )
    )
