"""Selection for a table: results by task, backbone, method, scale, ruleset and suite, and columns of its own.

Names may be globs. Naming methods hides the others' rows and changes no test: families, ranks and best sets are among
all methods of a block, or whoever selects one method alone would get a smaller family and a mark that it did not earn.
A ruleset is chosen among blocks and not among results, as rows without a configuration belong to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from genrec_unlearn_bench.config import one_of, several
from genrec_unlearn_bench.errors import DataMissing, UnknownName, UsageError
from genrec_unlearn_bench.reporting.board import Board, make_board
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import ColumnGroup, Layout, StatisticsProtocol
from genrec_unlearn_bench.reporting.results import CELL_COLUMNS, Result
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.wording import counted


def selected_board(results: Sequence[Result], protocol: StatisticsProtocol, filters: Mapping[str, Any]) -> Board:
    """The board of the results that pass some filters (``filtered``), with all methods; it notes that some will be
    hidden (``narrowed``).

    Raises:
        UnknownName: A name or glob that nothing has.
        DataMissing: The parts exist, but no result has all of them.
        ProtocolMismatch: Among the selected are results of another protocol version.
    """
    methods, rulesets = (_patterns(filters, column) if column in filters else [] for column in ("method", "ruleset"))
    kept = filtered(results, {column: filters[column] for column in filters if column not in ("method", "ruleset")})
    check_names("method", methods, {result.method for result in results})
    hidden = {r.method for r in kept if r.method not in protocol.references and not chosen(r.method, methods)}
    board = make_board(kept, protocol)
    check_names("ruleset", rulesets, {block.key.ruleset for block in board.blocks})
    blocks = tuple(block for block in board.blocks if chosen(block.key.ruleset, rulesets))
    if not blocks or not any(chosen(result.method, methods) for result in kept):
        raise DataMissing("no result passes all filters at once", hint="leave out one of the filters")
    note = f"{counted(len(hidden), 'method')} not selected; tests, ranks and best sets are among all of them"
    return Board(blocks, (*board.left_out, note) if hidden else board.left_out)


def filtered(results: Iterable[Result], filters: Mapping[str, Any]) -> tuple[Result, ...]:
    """The results that have one of the values, or fit one of the globs, in every named column of ``CELL_COLUMNS``.

    Raises:
        UsageError: A filter without a value. UnknownName: No such column, or a value that no result has.
        DataMissing: Each value exists, but no result has all of them.
    """
    every = kept = tuple(results)
    for column in filters:
        one_of("filter", column, CELL_COLUMNS)
        patterns = _patterns(filters, column)
        field = "backbone_label" if column == "backbone" else column
        check_names(column, patterns, {str(getattr(result, field)) for result in every})
        kept = tuple(result for result in kept if chosen(str(getattr(result, field)), patterns))
    if every and not kept:
        raise DataMissing("no result passes all filters at once", hint="leave out one of the filters")
    return kept


def _patterns(filters: Mapping[str, Any], column: str) -> list[str]:
    if not (patterns := list(map(str, several(filters[column])))):
        raise UsageError(f"no {column} was named", hint="leave the filter out, or name what is to be kept")
    return patterns


def narrowed(table: Table, methods: Sequence[str]) -> Table:
    """The table with the reference rows and the chosen methods; sections without such a method go."""
    sections = []
    for section in table.sections:
        rows = {line.label: next(entry.row for entry in line.entries if entry.row) for line in section.lines}
        kept = {label for label, row in rows.items() if row.kind == "method" and chosen(row.method, methods)}
        if kept:
            lines = [line for line in section.lines if line.kind == "reference" or line.label in kept]
            sections.append(replace(section, lines=tuple(lines)))
    return replace(table, sections=tuple(sections))


def chosen_layout(texts: Sequence[str], *, beam: int) -> Layout:
    """A layout of measures named on the call, ``forget:hr@10`` or with ``*`` for a part of a metric's name.

    Raises UnknownName for a metric that is not declared, UsageError for a group that it is not declared for.
    """
    groups: dict[str, list[str]] = {}
    for text in texts:
        head, pattern = text.rpartition(":")[0], text
        if "*" not in text:
            measure = Measure.parse(text, beam=beam)
            head, pattern = measure.side, measure.text
        groups.setdefault(head.capitalize() or "Model", []).append(pattern)
    columns = tuple(ColumnGroup(head=head, measures=tuple(patterns)) for head, patterns in groups.items())
    return Layout(
        name="chosen", title="Chosen measures", caption="Measures named on the command line.", columns=columns
    )


def chosen(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name is one of some names or globs; every name is where there are none."""
    # A name with brackets is a glob to fnmatch, so the plain name counts too; so does "mor" for "mor (from scratch)".
    plain = (name, name.partition(" (")[0])
    return not patterns or any(pattern in plain or fnmatchcase(name, pattern) for pattern in patterns)


def check_names(kind: str, patterns: Iterable[str], names: set[str]) -> None:
    """Raise UnknownName for the first pattern that fits none of the names."""
    for pattern in patterns:
        if not any(chosen(name, (pattern,)) for name in names):
            raise UnknownName(kind, pattern, names)
