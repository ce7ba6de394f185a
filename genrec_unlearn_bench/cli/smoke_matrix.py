"""``bench smoke --matrix``: every method on every backbone for every kind of request, as one small table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.registry import methods

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from genrec_unlearn_bench.pipeline.matrix import Tried

__all__ = ["TASKS", "matrix"]

TASKS = ("demo-brand", "demo-price", "demo-item", "demo-interaction")
"""One of every kind of request."""


def matrix(
    asked: Sequence[str], backbones: Sequence[str], tasks: Sequence[str], cache: Path, *, processes: int, as_json: bool
) -> None:
    """Run the matrix and print it. Raises BenchError that names every broken cell."""
    from genrec_unlearn_bench.pipeline.matrix import run_matrix, tally
    from genrec_unlearn_bench.store.store import StageStore

    every = [name for name, entry in methods().items() if entry.kind == "method" and not entry.variant_of]
    began = time.perf_counter()
    with progressing() as progress:
        store = StageStore(cache, progress)
        cells = run_matrix(
            _named(asked) or every, backbones, _named(tasks) or TASKS, store, progress, processes=processes
        )
    seconds = time.perf_counter() - began
    broken = [cell for cell in cells if cell.status == "broken"]
    if as_json:
        print_json({"cells": [cell.model_dump(mode="json") for cell in cells], "seconds": round(seconds, 1)})
    else:
        stdout().print(_table(cells, backbones))
        counts = ", ".join(f"{count} {status}" for status, count in tally(cells).items())
        stdout().print(f"{len(cells)} cells in {seconds:.0f} s: {counts}")
    if broken:
        listing = "".join(f"\n  - {cell.place}: {'; '.join(cell.faults)}" for cell in broken)
        raise BenchError(
            f"{len(broken)} of {len(cells)} cells are broken:{listing}",
            hint="bench smoke --matrix --method … --backbone … --task … tries one of them alone",
        )


def _named(texts: Sequence[str]) -> list[str]:
    """Options may be repeated or hold commas."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _table(cells: Sequence[Tried], backbones: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    from genrec_unlearn_bench.pipeline.matrix import tally

    kinds = len({cell.task for cell in cells})
    table = Table(
        title=f"each method on each backbone, {kinds} kind{'s' if kinds > 1 else ''} of request",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
    )
    table.add_column("method", no_wrap=True)
    for backbone in backbones:
        table.add_column(backbone, no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    for name in dict.fromkeys(cell.method for cell in cells):
        row = [cell for cell in cells if cell.method == name]
        counts = [tally([cell for cell in row if cell.backbone == backbone]) for backbone in backbones]
        told = [" ".join(f"{count} {status}" for status, count in each.items()) for each in counts]
        table.add_row(name, *told, f"{sum(cell.seconds for cell in row):.0f}")
    return table
