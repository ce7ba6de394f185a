"""Options and loading of the verbs that read results: which results, and which of their rows and columns."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from genrec_unlearn_bench.cli.console import print_first
from genrec_unlearn_bench.config import named
from genrec_unlearn_bench.errors import DataMissing

if TYPE_CHECKING:
    from genrec_unlearn_bench.reporting.board import Board
    from genrec_unlearn_bench.reporting.results import Result
    from genrec_unlearn_bench.reporting.selection import Selection

ResultsDirs = Annotated[
    list[Path] | None,
    Option(help="Folder with results; repeat for several (default: results, else those of the suite).", metavar="DIR"),
]
Published = Annotated[
    bool, Option("--published", help="Add the suite's own results and the submissions, with their badges.")
]
Layout = Annotated[str, Option(help="main, full, item, efficiency, ablation, attack or streams.")]
Format = Annotated[
    str | None,
    Option("--format", help="md, csv, json, latex, html or terminal; several with commas.", show_default="terminal"),
]
Baseline = Annotated[str | None, Option(help="Row that all others are tested against.", show_default="original")]
Compare = Annotated[str | None, Option(help="reported: the TRACER paper's numbers beside ours.")]
Out = Annotated[
    Path | None, Option(help="Folder or file to write to; one format goes to stdout without.", metavar="PATH")
]
Standalone = Annotated[bool, Option("--standalone", help="LaTeX as a whole document that compiles by itself.")]
Bib = Annotated[bool, Option("--bib", help="Beside LaTeX, the BibTeX of all that is in the tables.")]
Tasks = Annotated[list[str] | None, Option("--task", help="Tasks to show; several, globs work: sports-*.")]
Backbones = Annotated[list[str] | None, Option("--backbone", help="Backbones to show; several, globs work.")]
Methods = Annotated[
    list[str] | None, Option("--method", help="Methods to show beside the reference rows; several, globs work.")
]
Rulesets = Annotated[list[str] | None, Option("--ruleset", help="default, fixed or tuned; several.")]
Scales = Annotated[list[str] | None, Option("--scale", help="smoke, small, paper or official; several.")]
Suites = Annotated[
    list[str] | None,
    Option("--suite", help="core or full; each has tables of its own, as they train on different data."),
]
Metrics = Annotated[
    list[str] | None,
    Option("--metric", help="Measure, as in forget:hr@10 or retain:ndcg@10/50; several (bench ls metrics)."),
]
Beam = Annotated[int | None, Option(help="Beam width of list metrics: 10 (the paper's) or 50.", show_default="10")]
SkipBroken = Annotated[bool, Option("--skip-broken", help="Go on without records that cannot be read, and count them.")]


def selection(*names: Sequence[str] | None) -> Selection:
    """Rows by task, backbone, method, ruleset, scale and suite, from the values of these options in that order."""
    from genrec_unlearn_bench.reporting.selection import Selection

    return Selection(*map(named, names))


@dataclass(frozen=True)
class Gathered:
    """Results, and descriptions of the records that could not be read."""

    results: tuple[Result, ...]
    faults: tuple[str, ...]

    def with_faults(self, board: Board) -> Board:
        """The board, with the number of unreadable records added to what was left out."""
        if not self.faults:
            return board
        number = len(self.faults)
        note = f"{number} {'record' if number == 1 else 'records'} that cannot be read"
        return replace(board, left_out=(*board.left_out, note))


def gathered(folders: Sequence[Path] | None, *, published: bool, skip_broken: bool) -> Gathered:
    """All results of a call.

    Args:
        folders: Named on the call; ``results`` where it exists and none are named, else what ships with the suite.
        published: Whether to add what ships with the suite: its own results and the submissions.

    Raises:
        DataMissing: There is nothing to read.
        CorruptArtefact: Some records cannot be read, unless ``skip_broken``; then they are named on stderr.
    """
    from genrec_unlearn_bench.reporting.results import load_results
    from genrec_unlearn_bench.submissions.verification import published_sources

    own = list(folders or ())
    if not own and Path("results").is_dir():
        own = [Path("results")]
    # Records make millions of objects and no cycle, and looking for cycles among them takes 40 % of the time to read
    # them (0.77 against 0.44 ms for a record of 41 KB).
    running = gc.isenabled()
    gc.disable()
    try:
        parts = [load_results(own, skip_broken=skip_broken)] if own else []
        if published or not own:
            with resources.as_file(resources.files("genrec_unlearn_bench.leaderboard")) as root:
                parts += [
                    load_results([folder], source=source, skip_broken=skip_broken)
                    for source, folder in published_sources(root)
                ]
    finally:
        if running:
            gc.enable()
    faults = tuple(fault for part in parts for fault in part.faults)
    print_first(faults, "left out", stderr=True)
    results = tuple(result for part in parts for result in part.results)
    if not results:
        raise DataMissing(
            "there is no result to show",
            where=", ".join(map(str, own)) or None,
            hint="run something first (bench run), or name a folder with results (--results-dir)",
        )
    return Gathered(results, faults)
