"""Are the rows of a per-user table possible: the right examples in the right order, and numbers a list can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.forget import ConceptKind, TaskManifest
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.per_user import COLUMNS
from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH, WIDE_BEAM, UserBlock, blocks
from genrec_unlearn_bench.submissions.bundle import Bundle, Result
from genrec_unlearn_bench.submissions.faults import Finding
from genrec_unlearn_bench.submissions.table import FAMILIES, clusters

if TYPE_CHECKING:
    import pandas as pd

Marked = NDArray[np.bool_]
WITHOUT_BEAM = ("popularity", "sasrec")
"""Rows that score every item: their list is as long at both beams."""
_ROUNDING = 1e-6
"""Log-probabilities and cosines are sums of 32-bit numbers."""


def check_rows(bundle: Bundle, result: Result, table: pd.DataFrame) -> Iterator[Finding]:
    manifest = bundle.manifests.get(result.record.cell.task)
    other = ~table["group"].isin([Group.FORGET.value, Group.RETAIN.value]) | ~table["beam"].isin([10, WIDE_BEAM])
    if other.any():
        yield result.table_path, f"{int(other.sum())} rows belong to no group or beam of the protocol"
        return
    for block in blocks(table):
        examples = block.integers("example")
        wanted = len(examples) if manifest is None else _size(manifest, block.group)
        name = f"group {block.group.value}, beam {block.beam}"
        if fault := _order_fault(examples, wanted):
            yield result.table_path, f"{name}: {fault}"
    if not _in_blocks(table):
        yield result.table_path, "the groups and beams of the table do not follow each other as they are written"


def check_users(bundle: Bundle, result: Result, table: pd.DataFrame) -> Iterator[Finding]:
    if (table["target"] != -1).any():
        yield result.table_path, "the table still says what users chose (column target)"
    if not np.array_equal(clusters(table), table["user"].to_numpy()):
        yield f"{result.table_path}: user", "the users are not numbered in order of their first row"


def check_ranges(bundle: Bundle, result: Result, table: pd.DataFrame) -> Iterator[Finding]:
    manifest = bundle.manifests.get(result.record.cell.task)
    for column, kind in COLUMNS.items():
        if kind == "float64" and np.isinf(table[column].to_numpy()).any():
            yield result.table_path, f"the column {column} holds an infinite number"
    withheld_log = bool(table["log_prob"].isna().all())
    for block in blocks(table):
        name = f"group {block.group.value}, beam {block.beam}"
        for what, wrong in (
            *_ranks(block, wide=result.record.cell.method in WITHOUT_BEAM),
            *_lists(block, log_probs=not withheld_log),
            *_measures(block),
            *_neighbours(block),
            *_concept(block, manifest),
        ):
            if wrong.any():
                row = int(block.integers("example")[wrong][0])
                yield result.table_path, f"{name}: {what} ({int(wrong.sum())} rows, the first is example {row})"


def check_withheld(bundle: Bundle, result: Result, table: pd.DataFrame, withheld: frozenset[str]) -> Iterator[Finding]:
    for family in sorted(withheld):
        if table[list(FAMILIES[family])].notna().any().any():
            yield result.table_path, f"the family {family!r} is said to be withheld, and some of it is there"


def _ranks(block: UserBlock, *, wide: bool) -> Iterator[tuple[str, Marked]]:
    ranks = block.integers("rank")
    most = WIDE_BEAM if wide else max(LIST_LENGTH, block.beam)
    yield f"rank lies outside 0 … {most}", (ranks < 0) | (ranks > most)


def _lists(block: UserBlock, *, log_probs: bool) -> Iterator[tuple[str, Marked]]:
    ranks, filled = block.integers("rank"), block.integers("n_list")
    concept, chances = block.integers("concept_in_list"), block.numbers("log_prob")
    yield f"n_list lies outside 0 … {LIST_LENGTH}", (filled < 0) | (filled > LIST_LENGTH)
    yield "concept_in_list is more than the list holds, or negative", (concept < 0) | (concept > filled)
    yield "a target stands behind the end of its list", (ranks <= LIST_LENGTH) & (ranks > filled)
    if log_probs:
        yield "log_prob is there without a rank, or a rank without it", np.isfinite(chances) != (ranks > 0)
        yield "log_prob is positive", chances > _ROUNDING


def _measures(block: UserBlock) -> Iterator[tuple[str, Marked]]:
    for column in FAMILIES["similarity"]:
        values = block.numbers(column)
        yield f"{column} lies outside [-1, 1]", np.abs(values) > 1 + _ROUNDING
    present = np.isfinite(block.numbers("js_forget"))
    for column in FAMILIES["influence"]:
        values = block.numbers(column)
        yield f"{column} lies outside [0, 1]", (values < -_ROUNDING) | (values > 1 + _ROUNDING)
        yield f"{column} is there where js_forget is not, or the other way round", np.isfinite(values) != present
    in_history = block.integers("concept_in_history")
    yield "concept_in_history is negative", in_history < 0
    yield "history influence is there for a history without concept items", present & (in_history == 0)
    if block.beam != WIDE_BEAM:
        yield f"history influence is there for a beam that is not {WIDE_BEAM}", present


def _neighbours(block: UserBlock) -> Iterator[tuple[str, Marked]]:
    for column in ("near_prefix", "near_category"):
        values = block.integers(column)
        yield f"{column} is none of -1, 0, 1", ~np.isin(values, (-1, 0, 1))
        if block.group is not Group.RETAIN:
            yield f"{column} is judged for a group that is not judged", values != -1
    ranks, filled = block.integers("original_rank"), block.integers("original_n_list")
    concept = block.integers("original_concept_in_list")
    yield f"original_rank lies outside -1 … {WIDE_BEAM}", (ranks < -1) | (ranks > WIDE_BEAM)
    yield f"original_n_list lies outside -1 … {LIST_LENGTH}", (filled < -1) | (filled > LIST_LENGTH)
    yield "original_concept_in_list is more than the list holds", (concept < -1) | (concept > filled)
    yield (
        "only some of the original_* columns are there",
        ((ranks < 0) != (filled < 0)) | ((ranks < 0) != (concept < 0)),
    )
    if block.group is not Group.FORGET or block.beam != WIDE_BEAM:
        yield f"original_* is there beside the forget group at beam {WIDE_BEAM}", ranks >= 0


def _concept(block: UserBlock, manifest: TaskManifest | None) -> Iterator[tuple[str, Marked]]:
    """A forget target is a concept item and a retain target is none, so a hit must show in the counts."""
    if manifest is None:
        return
    hit = (block.integers("rank") > 0) & (block.integers("rank") <= LIST_LENGTH)
    concept, filled = block.integers("concept_in_list"), block.integers("n_list")
    if block.group is Group.FORGET:
        yield "the target, a concept item, is in a list without concept items", hit & (concept < 1)
    elif manifest.kind is not ConceptKind.INTERACTION:
        yield "the target, no concept item, is in a list of concept items alone", hit & (filled - concept < 1)


def _order_fault(examples: NDArray[np.int64], wanted: int) -> str | None:
    distinct = len(np.unique(examples))
    if distinct < len(examples):
        return f"{len(examples) - distinct} rows are there twice"
    if len(examples) < wanted:
        return f"{wanted - len(examples)} of the {wanted} test examples that the manifest counts are missing"
    if len(examples) > wanted:
        return f"there are {len(examples) - wanted} rows more than the {wanted} test examples that the manifest counts"
    if len(examples) and (examples.min() != 0 or examples.max() != wanted - 1):
        return f"the examples are not numbered 0 … {wanted - 1}"
    if not np.array_equal(examples, np.arange(wanted)):
        return "the rows are not in the order of the test examples"
    return None


def _in_blocks(table: pd.DataFrame) -> bool:
    groups: Any = (table["group"] != Group.FORGET.value).to_numpy()
    key = groups.astype(np.int64) * 1000 + table["beam"].to_numpy(dtype=np.int64)
    return bool((np.diff(key) >= 0).all())


def _size(manifest: TaskManifest, group: Group) -> int:
    return manifest.counts.get(f"test_{group.value}", 0)
