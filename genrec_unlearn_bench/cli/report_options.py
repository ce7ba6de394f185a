"""Options of the verbs that read results: which results, and which of their rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Backbones",
    "Baseline",
    "Beam",
    "Bib",
    "Compare",
    "Format",
    "Layout",
    "Methods",
    "Metrics",
    "Out",
    "Published",
    "ResultsDirs",
    "Rulesets",
    "Scales",
    "SkipBroken",
    "Standalone",
    "Suites",
    "Tasks",
    "named",
]

ResultsDirs = Annotated[
    list[Path] | None,
    typer.Option(
        help="Folder with results; repeat for several (default: results, else those of the suite).",
        show_default=False,
        metavar="DIR",
    ),
]
Published = Annotated[
    bool, typer.Option("--published", help="Add the suite's own results and the submissions, with their badges.")
]
Layout = Annotated[str, typer.Option(help="main, full, item, efficiency, ablation, attack or streams.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="md, csv, json, latex, html or terminal; several with commas.", show_default="terminal"
    ),
]
Baseline = Annotated[str | None, typer.Option(help="Row that all others are tested against.", show_default="original")]
Compare = Annotated[str | None, typer.Option(help="reported: the TRACER paper's numbers beside ours.")]
Out = Annotated[
    Path | None, typer.Option(help="Folder or file to write to; one format goes to stdout without.", metavar="PATH")
]
Standalone = Annotated[bool, typer.Option("--standalone", help="LaTeX as a whole document that compiles by itself.")]
Bib = Annotated[bool, typer.Option("--bib", help="Beside LaTeX, the BibTeX of all that is in the tables.")]
Tasks = Annotated[list[str] | None, typer.Option("--task", help="Tasks to show; several, globs work: sports-*.")]
Backbones = Annotated[list[str] | None, typer.Option("--backbone", help="Backbones to show; several, globs work.")]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Methods to show beside the reference rows; several, globs work.")
]
Rulesets = Annotated[list[str] | None, typer.Option("--ruleset", help="default, fixed or tuned; several.")]
Scales = Annotated[list[str] | None, typer.Option("--scale", help="smoke, small, paper or official; several.")]
Suites = Annotated[
    list[str] | None,
    typer.Option("--suite", help="core or full; each has tables of its own, as they train on different data."),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", help="Measure, as in forget:hr@10 or retain:ndcg@10/50; several (bench ls metrics)."),
]
Beam = Annotated[
    int | None, typer.Option(help="Beam width of list metrics: 10 (the paper's) or 50.", show_default="10")
]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Go on without records that cannot be read, and count them.")
]


def named(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Every name given, repeated or with commas, once."""
    parts = (part.strip() for text in texts or () for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))
