"""Which runs stand side by side: the original, its oracle and the methods asked for, of one block and one seed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from genrec_unlearn_bench.errors import DataMissing, UnknownName, UsageError
from genrec_unlearn_bench.reporting.board import Block, Board, Row
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.results import Result

__all__ = ["SideBySide", "of_requests", "side_by_side"]

UNASKED = 3
"""Methods that are shown where none are named; more have to be chosen."""


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Runs that may be compared list by list.

    Attributes:
        title: The block's (task, backbone, scale, ruleset).
        rows: Label and run: the original, the oracle, then the others in the order asked for.
    """

    title: str
    seed: int
    rows: tuple[tuple[str, Result], ...]


def of_requests(results: Sequence[Result], requests: int) -> Sequence[Result]:
    """The results of single requests, or of streams of so many. Raises UsageError where there are none."""
    chosen = [result for result in results if result.requests == requests]
    if not chosen:
        known = sorted({result.requests for result in results})
        raise UsageError(
            f"no result is of {requests} {'request' if requests == 1 else 'requests'}",
            hint=" or ".join(f"--requests {number}" for number in known),
        )
    return chosen


def side_by_side(
    board: Board, protocol: StatisticsProtocol, *, methods: Sequence[str] = (), seed: int | None = None
) -> SideBySide:
    """The runs of one call.

    Args:
        methods: Labels, methods or globs of rows; where none are given, all methods if these are few.
        seed: The lowest that all rows have, where None.

    Raises:
        UsageError: Several blocks or too many methods fit, or a row has diverged at that seed.
        UnknownName: No row is called so.
        DataMissing: The original, the oracle or a method has no run at the seed.
    """
    if len(board.blocks) > 1:
        listing = "".join(f"\n  - {block.key.title}" for block in board.blocks[:12])
        raise UsageError(
            f"{len(board.blocks)} blocks of results fit, and lists of one stand side by side:{listing}",
            hint="choose one with --task, --backbone, --scale, --ruleset and --suite; setups of the same names, by a "
            "--results-dir that holds one of them",
        )
    (block,) = board.blocks
    rows = _rows(block, protocol, methods)
    chosen = _seed(block, rows, seed)
    runs = tuple((row.label, row.results[chosen]) for row in rows)
    for label, result in runs:
        if result.diverged:
            raise UsageError(
                f"the run of {label!r} has diverged at seed {chosen}: its lists say nothing about the method",
                where=str(result.folder),
                hint="leave it out (--method), or choose another seed (--seed)",
            )
    return SideBySide(block.key.title, chosen, runs)


def _rows(block: Block, protocol: StatisticsProtocol, methods: Sequence[str]) -> tuple[Row, ...]:
    first = [_reference(block, name) for name in (protocol.baseline, protocol.oracle)]
    known = [row for row in block.rows if row.kind == "method"]
    if not methods:
        if not known:
            raise DataMissing("there is no run of a method", where=block.key.title, hint="run one: bench run --method")
        if len(known) > UNASKED:
            names = ", ".join(row.label for row in known)
            raise UsageError(
                f"there are {len(known)} methods, too many to stand side by side: {names}",
                where=block.key.title,
                hint=f"name some of them: --method {known[0].label} --method {known[1].label}",
            )
        return (*first, *known)
    out = {row.label: row for row in first}
    for pattern in methods:
        found = [row for row in block.rows if _fits(row, pattern)]
        if not found:
            raise UnknownName("method", pattern, [row.label for row in block.rows])
        out |= {row.label: row for row in found}
    return tuple(out.values())


def _fits(row: Row, pattern: str) -> bool:
    return pattern in (row.label, row.method) or fnmatchcase(row.label, pattern)


def _reference(block: Block, method: str) -> Row:
    row = next((row for row in block.rows if row.method == method), None)
    if row is None:
        other = next(iter(block.rows)).first
        raise DataMissing(
            f"there is no run of {method!r} to stand beside the others",
            where=block.key.title,
            hint=f"run it: {_command(other, method)}",
        )
    return row


def _seed(block: Block, rows: Sequence[Row], seed: int | None) -> int:
    shared = sorted(set.intersection(*(set(row.results) for row in rows)))
    if seed is None and shared:
        return shared[0]
    if seed is not None and seed in shared:
        return seed
    wanted = next((s for row in rows for s in row.results), 0) if seed is None else seed
    missing = [row for row in rows if wanted not in row.results]
    has = "; ".join(f"{row.label} has {', '.join(map(str, row.results))}" for row in missing)
    at = "no seed is shared by all rows" if seed is None else f"not all rows have a run at seed {seed}"
    other = next(row.results[wanted] for row in rows if wanted in row.results) if len(missing) < len(rows) else None
    commands = f"run it: {_command(other, missing[0].method)}" if other is not None else "choose another --seed"
    raise DataMissing(f"{at}: {has}", where=block.key.title, hint=commands)


def _command(result: Result, method: str) -> str:
    """The command of a run with another row in its method's place, whose configuration it does not share."""
    words = shlex.split(result.command)
    out: list[str] = []
    before = ""
    for word in words:
        if before == "--method":
            out.append(method)
        elif word != "--set" and before != "--set":
            out.append(word)
        before = word
    return shlex.join(out)
