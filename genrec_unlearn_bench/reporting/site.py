"""The published leaderboard: every page and table that the results of a leaderboard's folder make, as bytes.

Nothing but these results goes in, so anybody can make it again and compare it byte by byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.html_page import render_html
from genrec_unlearn_bench.reporting.layouts import layouts
from genrec_unlearn_bench.reporting.outputs import make_report, outputs
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.selection import task_kinds, variants

FOLDER = "site"
FORMATS = ("md", "csv", "latex")


def site_files(results: Sequence[Result], protocol: StatisticsProtocol, *, root: Path) -> dict[str, bytes]:
    """The site's files by their path, ``/`` between parts.

    ``index.html`` is the whole leaderboard; ``tables/`` has every layout that the results fill as markdown, as CSV and
    as LaTeX with its bibliography.

    Args:
        root: The leaderboard's folder, for ``results/manifests`` and ``health``.
    """
    board = make_board(results, protocol)
    kinds = task_kinds(results)
    files: dict[str, bytes] = {}
    for layout in layouts().values():
        try:
            report = make_report(board, layout, protocol, kinds=kinds, variant_of=variants())
        except DataMissing:
            # No result of this sort has been published yet.
            continue
        for output in (each for name in FORMATS for each in outputs(report, name, standalone=True, bib=True)):
            content = output.content
            files[f"tables/{output.name}"] = content if isinstance(content, bytes) else content.encode("utf-8")
    linked = [f"tables/{layout}{ending}" for layout in layouts() for ending in (".md", "-long.csv", ".tex")]
    page = render_html(
        board,
        protocol,
        manifests=root / "results" / "manifests",
        health=root / "health",
        code="../../",
        files=[name for name in linked if name in files],
    )
    files["index.html"] = page.encode("utf-8")
    return dict(sorted(files.items()))


def differences(files: dict[str, bytes], folder: Path) -> tuple[str, ...]:
    """Differences between a site and the files in a folder, as sentences."""
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    out = [f"{name}: is missing" for name in files if name not in there]
    out += [f"{name}: is not made any more" for name in there if name not in files]
    out += [f"{name}: differs" for name in files if name in there and there[name].read_bytes() != files[name]]
    return tuple(sorted(out))
