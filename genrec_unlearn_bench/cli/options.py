"""Options that several verbs share, each written once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["AsJson", "CacheDir", "DataDir", "Debug", "SharedCache", "examples"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of a table.")]

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the dataset's files, or with one folder for each dataset.", show_default=False, metavar="DIR"
    ),
]

CacheDir = Annotated[
    Path | None,
    typer.Option(
        help="Where computed stages are kept (default: $GENREC_UNLEARN_BENCH_CACHE, or the user's cache).",
        show_default=False,
        metavar="DIR",
    ),
]


def _below(folder: Path | None) -> Path | None:
    """Named in the environment, so that the processes a verb starts look there as well."""
    if folder is not None:
        os.environ["GENREC_UNLEARN_BENCH_SHARED_CACHE"] = str(folder)
    return folder


SharedCache = Annotated[
    Path | None,
    typer.Option(
        help="A store that is read where one's own has nothing, and never written "
        "(default: $GENREC_UNLEARN_BENCH_SHARED_CACHE).",
        show_default=False,
        metavar="DIR",
        callback=_below,
    ),
]


def examples(*lines: str) -> str:
    """The end of a verb's help: its examples, one a paragraph, so that none is wrapped into the next."""
    return "\n\n".join(["Examples:", *(f"  $ {line}" for line in lines)])
