"""A run's ranked lists and targets as files of other evaluation tools: TREC run and qrels, a pair for each group.

The query of a line is the row of the group's test example, which is the same in all runs of a task: two runs' files can
be held against each other, and against ``example`` of the per-user tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.lists import trec_qrels, trec_run
from genrec_unlearn_bench.pipeline.list_lookup import RunLists


@dataclass(frozen=True)
class Exported:
    """One file.

    Attributes:
        lines: How many lines it has: filled places of all lists, or test examples.
        queries: How many test examples the group has.
    """

    name: str
    text: str
    lines: int
    queries: int


def trec_files(found: RunLists, ids: Sequence[str] | None) -> Iterator[Exported]:
    """``<group>.qrels``, and ``<group>.beam<beam>.run`` for every beam; nothing for a group without examples.

    Args:
        ids: The items' own identifiers (``check_names`` first); None writes their row numbers.
    """
    tag = run_tag(found)
    for group in dict.fromkeys(group for group, _ in found.rankings):
        targets = found.targets(group)
        if not len(targets):
            continue
        yield _file(f"{group.value}.qrels", trec_qrels(targets, ids=ids), len(targets))
        for (of, beam), ranking in found.rankings.items():
            if of is group:
                lines = trec_run(ranking, ids=ids, tag=tag)
                yield _file(f"{group.value}.beam{beam}.run", lines, len(targets))


def run_tag(found: RunLists) -> str:
    """The name of the system in the last column: method, scale, seed and the beginning of the run's key."""
    cell = found.record.cell
    # The columns are separated by blanks.
    return "_".join(f"{cell.method}-{cell.scale}-seed{cell.seed}-{found.record.key[:10]}".split())


def check_names(ids: Sequence[str]) -> None:
    """Whether the dataset's own identifiers stay what they are as a column of a TREC file.

    Raises UsageError where two of them become one, or one becomes nothing, as blanks cannot stand in a column.
    """
    seen: dict[str, str] = {}
    for name in ids:
        column = "_".join(name.split())
        if not column or column in seen:
            clash = f"{seen[column]!r} and {name!r} would both be {column!r}" if column else f"{name!r} is blank"
            raise UsageError(
                f"the dataset's own item ids cannot be written to a TREC file: {clash}", hint="use --ids rows"
            )
        seen[column] = name


def _file(name: str, lines: Iterator[str], queries: int) -> Exported:
    written = list(lines)
    return Exported(name, "".join(f"{line}\n" for line in written), len(written), queries)
