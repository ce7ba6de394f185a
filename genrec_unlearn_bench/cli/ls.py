"""``bench ls``: what there is. Imports no torch, so that it answers at once."""

from __future__ import annotations

from typing import Annotated

import typer

from genrec_unlearn_bench.cli.console import print_json, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.listing import KINDS, Listing, listing
from genrec_unlearn_bench.cli.options import AsJson, DataDir, Debug

__all__ = ["ls"]


@handled
def ls(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="tasks, methods, backbones, datasets, measurements, metrics or grids; all where none is given."
        ),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List tasks, methods, backbones, datasets, measurements, metrics or grids."""
    if kind is None:
        _overview([listing(name, data_dir) for name in KINDS], as_json=as_json)
        return
    found = listing(kind, data_dir)
    if as_json:
        print_json(list(found.records))
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for index, column in enumerate(found.columns):
        table.add_column(column, no_wrap=index == 0, overflow="fold")
    for row in found.rows:
        table.add_row(*row)
    stdout().print(table)


def _overview(found: list[Listing], *, as_json: bool) -> None:
    if as_json:
        print_json({part.kind: [row[0] for row in part.rows] for part in found})
        return
    from rich.padding import Padding
    from rich.text import Text

    console = stdout()
    for part in found:
        names = [row[0] for row in part.rows]
        # Ninety-nine metrics would push everything else off the screen.
        shown = names if len(names) <= 40 else [*names[:8], "…"]
        console.print(Text.assemble((part.kind, "bold"), f" ({len(names)})"))
        console.print(Padding(Text(", ".join(shown)), (0, 0, 1, 2)))
    console.print("More about a kind: bench ls tasks. About one thing: bench show demo-brand.")
