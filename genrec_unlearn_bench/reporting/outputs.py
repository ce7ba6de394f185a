"""Every format's files from one set of tables: what ``bench leaderboard`` prints or writes, and the published site.

Nothing but the results of a leaderboard's folder goes into its site, so anybody can make it again and compare bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from genrec_unlearn_bench.errors import DataMissing, UnknownName
from genrec_unlearn_bench.reporting.across import Across, across
from genrec_unlearn_bench.reporting.board import Board, make_board
from genrec_unlearn_bench.reporting.document import render_json
from genrec_unlearn_bench.reporting.formats.csv_tables import long_csv
from genrec_unlearn_bench.reporting.formats.markdown import render_markdown
from genrec_unlearn_bench.reporting.html_page import render_html
from genrec_unlearn_bench.reporting.latex_tables import render_latex
from genrec_unlearn_bench.reporting.paper import bibliography, statistics_paragraph
from genrec_unlearn_bench.reporting.protocol import Layout, StatisticsProtocol, layouts, statistics_protocol
from genrec_unlearn_bench.reporting.reported import ReportedComparison, reported_comparisons
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.selection import chosen, narrowed
from genrec_unlearn_bench.reporting.tables import Table, make_tables

FORMATS = ("terminal", "md", "csv", "json", "html", "latex")
"""All but the first are files."""
SUFFIXES = {".md": "md", ".csv": "csv", ".json": "json", ".tex": "latex", ".html": "html"}
SITE = "site"
"""Folder of the published site in a leaderboard's."""
SITE_FORMATS = ("md", "csv", "latex")


@dataclass(frozen=True)
class Output:
    """One file.

    Attributes:
        role: ``main`` is the file to look at, ``beside`` what it needs, ``further`` what only a folder gets.
    """

    name: str
    content: str | bytes
    role: str = "main"

    @property
    def data(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else self.content.encode("utf-8")


@dataclass(frozen=True, eq=False)
class Report:
    """All that a format can show of one call."""

    board: Board
    tables: tuple[Table, ...]
    across: tuple[Across, ...]
    reported: tuple[ReportedComparison, ...] | None
    """Published numbers beside ours, in terminal, markdown and JSON; None where they were not requested."""
    baseline: str | None


def make_report(
    board: Board,
    layout: Layout,
    protocol: StatisticsProtocol,
    *,
    methods: Sequence[str] = (),
    beam: int | None = None,
    baseline: str | None = None,
    compare_reported: bool = False,
) -> Report:
    """Tables, comparisons over blocks and published numbers of one layout.

    Args:
        methods: Which are shown, names or globs; all where there are none.

    Raises:
        DataMissing: No result fits the layout.
        UnknownName: No block has a row of the baseline's name.
    """
    labels = {row.label for block in board.blocks for row in block.rows}
    if baseline is not None and baseline not in labels:
        raise UnknownName("row", baseline, labels)
    tables = make_tables(board, layout, protocol, beam=beam, baseline=baseline)
    if methods:
        tables = tuple(table for each in tables if (table := narrowed(each, methods)).sections)
        named = {row.method for block in board.blocks for row in block.rows if chosen(row.method, methods)}
        if not tables and named <= {*protocol.references}:
            what = f"{' and '.join(sorted(named))}: reference rows alone"
            raise DataMissing(what, hint="name a method as well: reference rows are always shown beside methods")
    if not tables:
        shown = [f"requests of the kind {' or '.join(layout.kinds)}"] if layout.kinds else []
        shown += ["methods with variants"] if layout.rows == "variants" else []
        raise DataMissing(
            f"the layout {layout.name!r} shows {' and '.join(shown) or 'nothing'}, and no result is of that sort",
            hint="take another --layout, or run what it shows",
        )
    compared, published = across(tables[0].analysis), reported_comparisons(tables) if compare_reported else None
    return Report(board, tables, compared, published, baseline)


def outputs(report: Report, format_: str, *, standalone: bool = False, bib: bool = False) -> tuple[Output, ...]:
    """The files of one format, the one to look at first.

    Args:
        standalone: LaTeX as a whole document.
        bib: Beside LaTeX, the bibliography of all methods, backbones and datasets in the tables.
    """
    tables, stem = report.tables, report.tables[0].layout.name
    shown: dict[str, Any] = {"across": report.across, "reported": report.reported}
    out: list[Output]
    match format_:
        case "md":
            figures = _figures(report, "svg")
            out = [Output(f"{stem}.md", render_markdown(tables, **shown, figures=bool(figures))), *figures]
        case "csv":
            out = [Output(f"{stem}-long.csv", long_csv(tables))]
        case "json":
            out = [Output(f"{stem}.json", render_json(tables, **shown))]
        case "html":
            page = render_html(report.board, tables[0].protocol, baseline=report.baseline)
            out = [Output("index.html", page), *_figures(report, "svg")]
        case "latex":
            out = [Output(f"{stem}.tex", render_latex(tables, standalone=standalone))]
            out += [Output(f"{stem}.bib", bibliography(tables).text, "beside")] if bib else []
            out += [Output(f"{stem}-statistics.tex", statistics_paragraph(tables), "further")]
            out += _figures(report, "pdf")
        case _:
            raise UnknownName("format", format_, FORMATS)
    return tuple(out)


def _figures(report: Report, form: Literal["svg", "pdf"]) -> list[Output]:
    drawn = [(each.name, each.diagram(form)) for each in report.across]
    return [Output(f"{name}.{form}", content, "beside") for name, content in drawn if content is not None]


def placed(files: Iterable[Output], out: Path) -> dict[Path, bytes]:
    """Files by their path: in a folder, or the main one under the name ``out`` with what it needs beside it."""
    single = not out.is_dir() and out.suffix.lower() in SUFFIXES
    if not single:
        return {out / file.name: file.data for file in files}
    # The bibliography goes by the main file's name, figures by their own.
    names = {"main": out.name, ".bib": out.with_suffix(".bib").name}
    shown = [file for file in files if file.role != "further"]
    return {out.with_name(names.get(file.role, names.get(file.name[-4:], file.name))): file.data for file in shown}


def site_files(results: Sequence[Result], *, root: Path) -> dict[str, bytes]:
    """The site's files by their path, ``/`` between parts: the results of the newest protocol that there are any of,
    and in ``protocol-1/`` and so on those of the others.

    ``index.html`` is the whole leaderboard; ``tables/`` has every layout that the results fill as markdown, as CSV and
    as LaTeX with its bibliography.

    Args:
        root: The leaderboard's folder, for ``results/manifests`` and ``health``.
    """
    files: dict[str, bytes] = {}
    newest = max(result.protocol_version for result in results)
    for version in {result.protocol_version for result in results}:
        place = "" if version == newest else f"protocol-{version}/"
        chosen = [result for result in results if result.protocol_version == version]
        found = _protocol_files(chosen, statistics_protocol(version), root=root)
        files |= {f"{place}{name}": content for name, content in found.items()}
    return dict(sorted(files.items()))


def _protocol_files(results: Sequence[Result], protocol: StatisticsProtocol, *, root: Path) -> dict[str, bytes]:
    """The pages of one protocol's results."""
    board, known = make_board(results, protocol), layouts(protocol.suite_protocol)
    files: dict[str, bytes] = {}
    for layout in known.values():
        try:
            report = make_report(board, layout, protocol)
        except DataMissing:
            # No result of this sort has been published yet.
            continue
        for name in SITE_FORMATS:
            files |= {f"tables/{each.name}": each.data for each in outputs(report, name, standalone=True, bib=True)}
    linked = [f"tables/{layout}{ending}" for layout in known for ending in (".md", "-long.csv", ".tex")]
    page = render_html(
        board,
        protocol,
        manifests=root / "results" / "manifests",
        health=root / "health",
        files=[name for name in linked if name in files],
    )
    return {**files, "index.html": page.encode("utf-8")}


def differences(files: dict[str, bytes], folder: Path) -> tuple[str, ...]:
    """Differences between a site and the files in a folder, as sentences."""
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    out = [f"{name}: is missing" for name in files if name not in there]
    out += [f"{name}: is not made any more" for name in there if name not in files]
    out += [f"{name}: differs" for name in files if name in there and there[name].read_bytes() != files[name]]
    return tuple(sorted(out))
