"""The table of a stream below that of ``bench run``: what was measured after each request, method by method."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.cli.run_table import number

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from genrec_unlearn_bench.pipeline.pipeline import Finished

__all__ = ["stream_rows", "stream_table"]

CAPTION = (
    "right after each request, at beam 10 · interact.: train interactions it asked to forget\n"
    "forget: its own test interactions · so far: all requests up to it · earlier: those before (rising: back again)\n"
    "retain: never requested in the stream · time: of the request, of all so far, and that over one retraining's"
)

_COLUMNS = (
    ("request\ninteract.", "interactions"),
    ("forget\nHR@10", "forget_hr@10"),
    ("so far\nHR@10", "so_far_hr@10"),
    ("earlier\nHR@10", "earlier_hr@10"),
    ("retain\nHR@10", "retain_hr@10"),
    ("\nNDCG@10", "retain_ndcg@10"),
    ("time\nseconds", "seconds"),
    ("\nall", "cumulative_seconds"),
    ("\n/ retrain", "share_of_retraining"),
)


def stream_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a result's ``measurements/stream.csv`` as plain values, None where nothing was measured; none where
    the result is of a single request, or its stream came to nothing that can be measured."""
    frame = _frame(folder)
    rows: list[dict[str, Any]] = (
        [] if frame is None else json.loads(frame.to_json(orient="records", double_precision=15))
    )
    return rows


def stream_table(finished: Sequence[Finished]) -> RenderableType | None:
    """A row for every request of every run, reference rows included; None where no run was a stream."""
    from rich import box
    from rich.console import Group as Pile
    from rich.table import Table
    from rich.text import Text

    found = [(done.record, frame) for done in finished if (frame := _frame(done.folder)) is not None]
    if not found:
        return None
    first = found[0][0].cell
    seeds = len({record.cell.seed for record, _ in found}) > 1
    backbones = len({record.cell.backbone for record, _ in found}) > 1
    table = Table(
        title=f"{first.task} · {first.scale} · {first.requests} requests, one after the other",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
    )
    table.add_column("\nmethod", no_wrap=True)
    table.add_column("\n", justify="right")
    for head, _ in _COLUMNS:
        table.add_column(head, justify="right", no_wrap=True)
    for record, frame in found:
        cell = record.cell
        name = " ".join(
            [*([record.backbone_label or cell.backbone] if backbones else []), cell.method]
            + ([f"seed {cell.seed}"] if seeds else [])
        )
        for place, (_, row) in enumerate(frame.iterrows()):
            table.add_row(
                name if not place else "", f"{row['request']:.0f}", *(_cell(row, column) for _, column in _COLUMNS)
            )
        table.add_section()
    return Pile(table, Text(CAPTION, style="dim"))


def _cell(row: pd.Series[Any], column: str) -> str:
    value = float(row[column])
    if value != value:
        return number(None)
    if column == "interactions":
        return f"{value:.0f}"
    if "seconds" in column:
        return f"{value:.1f}"
    return f"{value:.2f}" if column == "share_of_retraining" else number(value)


def _frame(folder: Path) -> pd.DataFrame | None:
    from genrec_unlearn_bench.pipeline.results import MEASUREMENTS

    path = folder / MEASUREMENTS / "stream.csv"
    if not path.is_file():
        return None
    import pandas as pd

    return pd.read_csv(path, keep_default_na=True)
