"""Options of ``bench examples``: whose lists, and how they are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Format", "Group", "History", "Ids", "Output", "Requests", "Seed", "Top", "Users"]

Seed = Annotated[int | None, typer.Option(help="Training seed.", min=0, show_default="the lowest of all rows")]
Requests = Annotated[int, typer.Option(help="Of streams: into how many requests the forget set was divided.", min=1)]
Top = Annotated[int, typer.Option(help="How many of the most changed users to show.", min=1, max=100)]
Users = Annotated[
    list[int] | None,
    typer.Option(help="Show these users instead, by their number in per_user.parquet; repeat for several."),
]
Group = Annotated[
    str | None, typer.Option(help="forget or retain: whose test examples.", show_default="forget; with --user, both")
]
History = Annotated[int, typer.Option(help="How many of the last items of a history to show.", min=0, max=50)]
Ids = Annotated[bool, typer.Option("--ids", help="Name users and items by their ids, too.")]
Format = Annotated[str | None, typer.Option("--format", help="terminal, html, latex or json.", show_default="terminal")]
Output = Annotated[
    Path | None, typer.Option(help="File to write to; stdout without.", metavar="FILE", show_default=False)
]
