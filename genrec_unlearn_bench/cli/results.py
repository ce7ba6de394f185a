"""Options and loading of the verbs that read results: which results, and which of their rows and columns."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from genrec_unlearn_bench.cli.console import first_lines, print_line
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import DataMissing, UsageError

if TYPE_CHECKING:
    from genrec_unlearn_bench.reporting.board import Board
    from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
    from genrec_unlearn_bench.reporting.results import Loaded, Result
    from genrec_unlearn_bench.reporting.selection import Selection

ResultsDirs = Annotated[
    list[Path] | None,
    Option(help="Folders of results (default: results, else the suite's own).", metavar="DIR"),
]
Published = Annotated[bool, Option("--published", help="Add the suite's own results and the submissions.")]
Layout = Annotated[str, Option(help="main, full, item, efficiency, ablation, attack or streams.")]
Format = Annotated[
    str | None,
    Option("--format", help="md, csv, json, latex, html, terminal; several.", show_default="terminal"),
]
Baseline = Annotated[str | None, Option(help="Row that all others are tested against.", show_default="original")]
Compare = Annotated[str | None, Option(help="reported: the TRACER paper's numbers beside ours.")]
Out = Annotated[Path | None, Option(help="Folder or file to write to, instead of stdout.", metavar="PATH")]
Standalone = Annotated[bool, Option("--standalone", help="LaTeX as a whole document that compiles by itself.")]
Bib = Annotated[bool, Option("--bib", help="Beside LaTeX, the BibTeX of all that is in the tables.")]
Tasks = Annotated[list[str] | None, Option("--task", help="Tasks to show; several, globs work: sports-*.")]
Backbones = Annotated[list[str] | None, Option("--backbone", help="Backbones to show; several, globs work.")]
Methods = Annotated[list[str] | None, Option("--method", help="Methods to show; several, globs work.")]
Rulesets = Annotated[list[str] | None, Option("--ruleset", help="default, fixed or tuned; several.")]
Scales = Annotated[list[str] | None, Option("--scale", help="smoke, small, paper or official; several.")]
Suites = Annotated[
    list[str] | None,
    Option("--suite", help="core or full, which train on different data."),
]
Metrics = Annotated[
    list[str] | None,
    Option("--metric", help="Measures: forget:hr@10, retain:ndcg@10/50 (bench ls metrics)."),
]
Beam = Annotated[int | None, Option(help="Beam width of list metrics: 10 (the paper's) or 50.", show_default="10")]
SkipBroken = Annotated[bool, Option("--skip-broken", help="Go on without records that cannot be read, and count them.")]

SUFFIXES = {".md": "md", ".csv": "csv", ".json": "json", ".tex": "latex", ".html": "html", ".txt": "terminal"}
"""Of a file that --out names, with the format that it stands for."""


@dataclass(frozen=True)
class Gathered:
    """Results, descriptions of the records that could not be read, and the folders that were read."""

    results: tuple[Result, ...]
    faults: tuple[str, ...]
    places: tuple[str, ...] = ()
    published: bool = False

    def board(self, protocol: StatisticsProtocol, wanted: Selection) -> Board:
        """The board of the selected results. Raises UsageError with the folders that were read."""
        from genrec_unlearn_bench.reporting.selection import selected_board

        with self.located():
            board = selected_board(self.results, protocol, wanted)
        if not self.faults:
            return board
        number = len(self.faults)
        note = f"{number} {'record' if number == 1 else 'records'} that cannot be read"
        return replace(board, left_out=(*board.left_out, note))

    @contextmanager
    def located(self, *methods: str) -> Iterator[None]:
        """Add to an error about names which folders were read, and whether the suite's own results have the methods."""
        try:
            yield
        except UsageError as fault:
            fault.where = fault.where or ", ".join(self.places)
            absent = set(methods) - {result.method for result in self.results}
            if absent and not self.published:
                parts = _published_parts(skip_broken=True)
                if absent <= {result.method for part in parts for result in part.results}:
                    fault.hint = "the suite's own results have it: add --published, or name another --results-dir"
            raise


def selection(*names: Sequence[str] | None) -> Selection:
    """Rows by task, backbone, method, ruleset, scale and suite, from the values of these options in that order."""
    from genrec_unlearn_bench.reporting.selection import Selection

    return Selection(*map(named, names))


def gathered(folders: Sequence[Path] | None, *, published: bool = False, skip_broken: bool) -> Gathered:
    """All results of a call.

    Args:
        folders: Named on the call; ``results`` where it exists and none are named, else what ships with the suite.
        published: Whether to add what ships with the suite: its own results and the submissions.

    Raises:
        DataMissing: There is nothing to read.
        CorruptArtefact: Some records cannot be read, unless ``skip_broken``; then they are named on stderr.
    """
    from genrec_unlearn_bench.reporting.results import load_results

    own = list(folders or ())
    if not own and Path("results").is_dir():
        own = [Path("results")]
    published = published or not own
    # Records make millions of objects and no cycle, and looking for cycles among them takes 40 % of the time to read
    # them (0.77 against 0.44 ms for a record of 41 KB).
    running = gc.isenabled()
    gc.disable()
    try:
        parts = [load_results(own, skip_broken=skip_broken)] if own else []
        parts += _published_parts(skip_broken=skip_broken) if published else []
    finally:
        if running:
            gc.enable()
    faults = tuple(fault for part in parts for fault in part.faults)
    for line in first_lines([f"left out: {fault}" for fault in faults]):
        print_line(line, stderr=True)
    results = tuple(result for part in parts for result in part.results)
    places = (*map(str, own), *(["the suite's own results"] if published else []))
    if not results:
        raise DataMissing(
            "there is no result to show",
            where=", ".join(places),
            hint="run something first (bench run), or name a folder with results (--results-dir)",
        )
    return Gathered(results, faults, places, published)


def _published_parts(*, skip_broken: bool) -> list[Loaded]:
    from genrec_unlearn_bench.reporting.results import load_results
    from genrec_unlearn_bench.submissions.verification import published_sources

    with resources.as_file(resources.files("genrec_unlearn_bench.leaderboard")) as root:
        return [
            load_results([folder], source=source, skip_broken=skip_broken) for source, folder in published_sources(root)
        ]


def known_formats(text: str | None, out: Path | None, known: Collection[str]) -> list[str]:
    """The formats asked for; of a file's name where none are. Raises UsageError."""
    of_file = SUFFIXES.get(out.suffix.lower()) if out is not None and not out.is_dir() else None
    formats = list(dict.fromkeys(part.strip().lower() for part in (text or of_file or "terminal").split(",")))
    for name in formats:
        one_of("format", name, known)
    if len(formats) > 1 and (out is None or of_file is not None):
        where = "go to one file" if of_file is not None else "be printed at once"
        raise UsageError(f"{len(formats)} formats cannot {where}", hint="name a folder for them (--out DIR)")
    if of_file is not None and formats != [of_file]:
        raise UsageError(
            f"the file {str(out)!r} is {of_file} by its name, and --format says {formats[0]}",
            hint="change one of them, or name a folder (--out DIR)",
        )
    return formats
