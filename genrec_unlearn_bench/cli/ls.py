"""``bench ls``: tasks, methods, backbones, datasets, measurements, metrics and grids. Never imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, sheet, text_of
from genrec_unlearn_bench.listing import KINDS, kind_named, names_of, records_of, rows_of

if TYPE_CHECKING:
    from rich.console import Console

PROSE = 40
"""Characters from which a column may be wrapped."""
NARROWEST = 24
"""Characters that a wrapped column needs: a title is longer than its longest word."""


def ls(
    kind: Annotated[
        str | None, Argument(help="tasks, methods, backbones, datasets, measurements, metrics or grids.")
    ] = None,
    data_dir: options.DataDir = None,
) -> Output:
    """List tasks, methods, backbones, datasets, measurements, metrics or grids."""
    if kind is None:
        return Output(
            lambda: {name: names_of(name, data_dir) for name in KINDS},
            [lambda console: _draw_overview(data_dir, console)],
        )
    name = kind_named(kind)
    return Output(lambda: records_of(name, data_dir), [lambda console: _draw(rows_of(name, data_dir), console)])


def _draw(found: Sequence[Mapping[str, Any]], console: Console) -> None:
    """A table; where words would be broken in it, one paragraph for each thing."""
    columns = list(found[0])
    rows = [[text_of(cell) for cell in row.values()] for row in found]
    longest = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    needed = sum(min(length, NARROWEST) if length > PROSE else length for length in longest[1:])
    if longest[0] + needed + 3 * len(longest) + 1 <= console.width:
        table = sheet(rows, columns)
        for column, length in zip(table.columns[1:], longest[1:], strict=True):
            column.no_wrap = length <= PROSE
        console.print(table)
        return
    for name, *rest in rows:
        _draw_paragraph(name, " · ".join(text for text in rest if text not in ("", "–")), console)


def _draw_overview(data_dir: Path | None, console: Console) -> None:
    for kind in KINDS:
        if kind == "metrics":
            # Hundreds, and their declarations are the one thing here that imports numpy.
            _draw_paragraph(kind, "hundreds: bench ls metrics, or bench show hr@10 for one of them", console)
        else:
            names = names_of(kind, data_dir)
            _draw_paragraph(f"{kind} ({len(names)})", ", ".join(names), console)
    console.print("More about a kind: bench ls tasks. About one thing: bench show demo-brand.")


def _draw_paragraph(title: str, text: str, console: Console) -> None:
    from rich.padding import Padding

    console.print(title, style="bold")
    console.print(Padding(text, (0, 0, 1, 2)))
