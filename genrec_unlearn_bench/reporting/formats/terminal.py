"""Tables for the terminal, drawn with rich; a table wider than the screen is cut into parts that repeat the names.

Text from outside is shown character by character: no markup, no escape sequence, no change of direction gets through.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.reporting.across import Across
from genrec_unlearn_bench.reporting.analysis import Mark
from genrec_unlearn_bench.reporting.formats.cells import Shown, column_title, line_label, mean_text, show
from genrec_unlearn_bench.reporting.formats.notes import notes
from genrec_unlearn_bench.reporting.reported import Beside, beside_notes
from genrec_unlearn_bench.reporting.tables import Column, Section, Table
from genrec_unlearn_bench.reporting.wording import bare, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

__all__ = ["draw", "print_sentences", "render_terminal", "rendered"]

STYLES = {Mark.BEST: "bold", Mark.SECOND: "underline", Mark.PLAIN: ""}
SIGNS = {Mark.BEST: "*", Mark.SECOND: "_", Mark.PLAIN: ""}
GAP = 3
"""Columns of the screen between two columns of a table."""
LABEL = 48
"""Columns that a name may take before it is folded."""
WIDTH = 120
"""Of text that goes into a file."""


def draw(
    console: Console,
    tables: Sequence[Table],
    *,
    across: Sequence[Across] = (),
    reported: Sequence[Beside] | None = None,
) -> None:
    """Print every table with what has to be said below it.

    Where there is no type to set (a pipe, a file), the best set is marked ``*`` and the second ``_``.
    """
    from rich.text import Text

    typed = console.is_terminal
    for table in tables:
        title = f"{table.title}: scale {table.scale}, ruleset {table.ruleset}"
        console.print(Text(visible(title), style="bold"))
        for section in table.sections:
            for task in table.tasks:
                console.print(Text(visible(f"{task} on {section.title}"), style="italic"))
                for grid in _grids(section, task, console.width, typed=typed):
                    console.print(grid)
        print_sentences(console, notes(table, best="Bold" if typed else "*", second="underlined" if typed else "_"))
        console.print()
    if across:
        console.print(Text("Across blocks", style="bold"))
        for each in across:
            _across(console, each)
    if reported is not None:
        console.print(Text("Reported beside ours", style="bold"))
        if reported:
            console.print(_reported(reported))
        print_sentences(console, beside_notes(reported))
        console.print()


def render_terminal(
    tables: Sequence[Table], *, across: Sequence[Across] = (), reported: Sequence[Beside] | None = None
) -> str:
    """The same as plain text of 120 columns, best sets marked ``*`` and second ones ``_`` in place of type."""
    return rendered(lambda console: draw(console, tables, across=across, reported=reported))


def rendered(draw: Callable[[Console], None]) -> str:
    """Output of ``draw`` as plain text of 120 columns."""
    from rich.console import Console

    out = io.StringIO()
    # Neither the environment nor the terminal at hand may change the bytes.
    console = Console(
        file=out, width=WIDTH, color_system=None, force_terminal=False, highlight=False, markup=False, _environ={}
    )
    draw(console)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def print_sentences(console: Console, sentences: Iterable[str]) -> None:
    """Print sentences, each a paragraph that is set in by two columns."""
    from rich.padding import Padding
    from rich.text import Text

    for sentence in sentences:
        console.print(Padding(Text(visible(sentence)), (0, 0, 0, 2)))


def _grids(section: Section, task: str, width: int, *, typed: bool) -> Iterable[Grid]:
    """One task's columns in as many parts as the width asks for; each begins with the names."""
    lines = section.lines
    chosen = [i for i, entry in enumerate(lines[0].entries) if entry.column.top == task]
    heads = [_head(lines[0].entries[i].column) for i in chosen]
    cells = [[_cell(show(line.entries[i]), typed=typed) for i in chosen] for line in lines]
    labels = [_label(line_label(line), line.kind) for line in lines]
    first = min(max(label.cell_len for label in labels), LABEL)
    widths = [
        max(max(map(len, head.plain.split("\n"))), *(row[i].cell_len for row in cells)) for i, head in enumerate(heads)
    ]
    begin = 0
    while begin < len(heads):
        end, used = begin + 1, first + GAP + widths[begin]
        while end < len(heads) and used + GAP + widths[end] < width:
            used += GAP + widths[end]
            end += 1
        grid = _grid(heads[begin:end])
        for place, (label, row) in enumerate(zip(labels, cells, strict=True)):
            if place and lines[place].kind != lines[place - 1].kind:
                grid.add_section()
            grid.add_row(label, *row[begin:end])
        yield grid
        begin = end


def _grid(heads: Sequence[Text], *, left: int = 0) -> Grid:
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    grid.add_column("", overflow="fold", max_width=LABEL)
    for place, head in enumerate(heads):
        grid.add_column(head, justify="left" if place < left else "right", no_wrap=True)
    return grid


def _label(label: str, kind: str) -> Text:
    from rich.text import Text

    return Text(visible(label), style="dim" if kind == "reference" else "")


def _head(column: Column) -> Text:
    from rich.text import Text

    return Text("\n".join(visible(part) for part in (column.head, column_title(column))))


def _cell(shown: Shown, *, typed: bool) -> Text:
    """Leading zeros and brackets are left out: the main table then fits 120 columns."""
    from rich.text import Text

    text = Text("" if typed else SIGNS[shown.mark])
    text.append(bare(shown.number), style=STYLES[shown.mark])
    spread = bare(shown.spread.replace("± ", "±"))
    rank = shown.rank.strip("()").replace(", ", " ")
    for part in (spread, shown.sign + shown.oracle, rank):
        if part:
            text.append(f" {part}", style="")
    return text


def _across(console: Console, each: Across) -> None:
    from rich.text import Text

    print_sentences(console, (each.sentence,))
    console.print()
    if each.found is None:
        return
    grid = _grid([Text("mean rank"), Text("group")])
    for place in each.standings:
        grid.add_row(Text(visible(place.label)), Text(f"{place.mean_rank:.2f}"), Text(place.letters))
    console.print(grid)
    print_sentences(console, each.notes)
    console.print()


def _reported(found: Sequence[Beside]) -> Grid:
    from rich.text import Text

    grid = _grid([Text(head) for head in ("method", "measure", "reported", "ours")], left=2)
    for pair in found:
        mark = f" {pair.mark}" if pair.mark else ""
        grid.add_row(
            Text(visible(f"{pair.task} on {pair.backbone}")),
            Text(visible(pair.method)),
            Text(pair.title),
            Text(mean_text(pair.reported, pair.reported_sd, min(3, pair.decimals)) + mark),
            Text(mean_text(pair.ours, pair.ours_sd, pair.decimals)),
        )
    return grid
