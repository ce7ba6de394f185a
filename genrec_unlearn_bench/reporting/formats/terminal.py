"""Tables for the terminal, drawn with rich; a table wider than the screen is cut into parts that repeat the names."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from genrec_unlearn_bench.reporting.across import Across
from genrec_unlearn_bench.reporting.analysis import Mark
from genrec_unlearn_bench.reporting.formats.grid import GridRow, WideGrid, plain_grid, print_sentences
from genrec_unlearn_bench.reporting.reported import ReportedComparison, reported_notes
from genrec_unlearn_bench.reporting.sentences import notes
from genrec_unlearn_bench.reporting.tables import Section, Shown, Table, show
from genrec_unlearn_bench.reporting.wording import bare, visible

STYLES = {Mark.BEST: "bold", Mark.SECOND: "underline", Mark.PLAIN: ""}
SIGNS = {Mark.BEST: "*", Mark.SECOND: "_", Mark.PLAIN: ""}


def draw(
    console: Console,
    tables: Sequence[Table],
    *,
    across: Sequence[Across] = (),
    reported: Sequence[ReportedComparison] | None = None,
) -> None:
    """Print every table with what has to be said below it.

    Where there is no type to set (a pipe, a file), the best set is marked ``*`` and the second ``_``.
    """
    typed = console.is_terminal
    for table in tables:
        _title(console, table.title)
        for section in table.sections:
            for task in table.tasks:
                _title(console, f"{task} on {section.title}", style="italic")
                console.print(_grid(section, task, typed=typed))
        print_sentences(console, notes(table, best="Bold" if typed else "*", second="underlined" if typed else "_"))
        console.print()
    if across:
        _title(console, "Across blocks")
    for each in across:
        print_sentences(console, (each.sentence,))
        console.print()
        if each.found is not None:
            ranks = [(place.label, f"{place.mean_rank:.2f}", place.letters) for place in each.standings]
            console.print(plain_grid(("", "mean rank", "group"), ranks))
            print_sentences(console, each.notes)
            console.print()
    if reported is not None:
        _title(console, "Reported beside ours")
        if reported:
            rows = [(f"{pair.task} on {pair.backbone}", *pair.texts) for pair in reported]
            console.print(plain_grid(("", "method", "measure", "reported", "ours"), rows, left=3))
        print_sentences(console, reported_notes(reported))
        console.print()


def _title(console: Console, text: str, *, style: str = "bold") -> None:
    console.print(Text(visible(text), style=style))


def _grid(section: Section, task: str, *, typed: bool) -> WideGrid:
    """One task's columns."""
    columns = [entry.column for entry in section.lines[0].entries if entry.column.top == task]
    rows = []
    for before, line in zip([None, *section.lines], section.lines, strict=False):
        cells = [_cell(show(entry), typed=typed) for entry in line.entries if entry.column.top == task]
        style = "dim" if line.kind == "reference" else ""
        rows.append(GridRow((line.name,), cells, style, section=before is not None and before.kind != line.kind))
    return WideGrid(("",), [(column.head, column.full_title) for column in columns], rows)


def _cell(shown: Shown, *, typed: bool) -> Text:
    """Leading zeros and brackets are left out: the main table then fits 120 columns."""
    text = Text("" if typed else SIGNS[shown.mark])
    text.append(bare(shown.number), style=STYLES[shown.mark])
    spread = bare(shown.spread.replace("± ", "±"))
    rank = shown.rank.strip("()").replace(", ", " ")
    for part in (spread, shown.sign, rank):
        if part:
            text.append(f" {part}", style="")
    return text
