"""Every format's files from one set of tables: what ``bench leaderboard`` prints or writes, and the published site.

The renderers know nothing of files; here is which of them makes which file, and which file is the one to look at.
Nothing but the results of a leaderboard's folder goes into its site, so anybody can make it again and compare bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from genrec_unlearn_bench.errors import DataMissing, UnknownName
from genrec_unlearn_bench.files import atomic_bytes
from genrec_unlearn_bench.reporting.across import Across, across
from genrec_unlearn_bench.reporting.board import Board, make_board
from genrec_unlearn_bench.reporting.layouts import Layout, layouts
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol, statistics_protocol
from genrec_unlearn_bench.reporting.reported import Beside, beside
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.selection import Selection, narrowed, task_kinds, variants
from genrec_unlearn_bench.reporting.tables import Table, make_tables

FORMATS = ("terminal", "md", "csv", "json", "html", "latex")
SUFFIXES = {".md": "md", ".csv": "csv", ".json": "json", ".tex": "latex", ".html": "html", ".txt": "terminal"}
"""Ends of a file's name, with the format that each stands for."""
SITE = "site"
"""Folder of the published site in a leaderboard's."""
SITE_FORMATS = ("md", "csv", "latex")


@dataclass(frozen=True)
class Output:
    """One file.

    Attributes:
        name: Inside the folder that was asked for.
        role: The file to look at, what it needs beside it, or a further file that only a folder gets.
    """

    name: str
    content: str | bytes
    role: str = "main"


@dataclass(frozen=True, eq=False)
class Report:
    """All that a format can show of one call.

    Attributes:
        reported: Published numbers beside ours; None where they were not asked for.
        stem: Of file names: the layout's name.
    """

    board: Board
    protocol: StatisticsProtocol
    tables: tuple[Table, ...]
    across: tuple[Across, ...]
    reported: tuple[Beside, ...] | None
    baseline: str | None
    stem: str


def make_report(
    board: Board,
    layout: Layout,
    protocol: StatisticsProtocol,
    *,
    kinds: Mapping[str, str],
    variant_of: Mapping[str, str],
    wanted: Selection | None = None,
    beam: int | None = None,
    baseline: str | None = None,
    compare_reported: bool = False,
) -> Report:
    """Tables, comparisons over blocks and published numbers of one layout.

    Args:
        wanted: Whose methods alone are shown, where it names some.

    Raises:
        DataMissing: No result fits the layout.
        UnknownName: No block has a row of the baseline's name.
    """
    if baseline is not None:
        labels = {row.label for block in board.blocks for row in block.rows}
        if baseline not in labels:
            raise UnknownName("row", baseline, labels)
    tables = make_tables(board, layout, protocol, kinds=kinds, beam=beam, baseline=baseline, variant_of=variant_of)
    if wanted is not None:
        tables = tuple(table for each in tables if (table := narrowed(each, wanted)).sections)
    if not tables:
        raise DataMissing(
            f"the layout {layout.name!r} shows {_shows(layout)}, and no result is of that sort",
            hint="take another --layout, or run what it shows",
        )
    return Report(
        board=board,
        protocol=protocol,
        tables=tables,
        across=across(tables[0].analysis),
        reported=beside(tables) if compare_reported else None,
        baseline=baseline,
        stem=layout.name,
    )


def outputs(report: Report, format_: str, *, standalone: bool = False, bib: bool = False) -> tuple[Output, ...]:
    """The files of one format, the one to look at first.

    Args:
        standalone: LaTeX as a whole document.
        bib: Beside LaTeX, the bibliography of all methods, backbones and datasets in the tables.

    Raises UnknownName for a format that there is not.
    """
    tables, compared, published = report.tables, report.across, report.reported
    match format_:
        case "terminal":
            from genrec_unlearn_bench.reporting.formats.terminal import render_terminal

            return (Output(f"{report.stem}.txt", render_terminal(tables, across=compared, reported=published)),)
        case "md":
            from genrec_unlearn_bench.reporting.formats.markdown import render_markdown

            figures = _figures(compared, svg=True)
            return (
                Output(
                    f"{report.stem}.md",
                    render_markdown(tables, across=compared, reported=published, figures=bool(figures)),
                ),
                *figures,
            )
        case "csv":
            return _csv(report)
        case "json":
            from genrec_unlearn_bench.reporting.document import render_json

            return (Output(f"{report.stem}.json", render_json(tables, across=compared, reported=published)),)
        case "html":
            return _html(report)
        case "latex":
            return _latex(report, standalone=standalone, bib=bib)
        case _:
            raise UnknownName("format", format_, FORMATS)


def write_outputs(files: Iterable[Output], out: Path, option: str) -> list[Path]:
    """Write files into a folder, or the main one under the name ``out`` with what it needs beside it.

    Returns their paths. Raises StorageError naming ``option``.
    """
    single = not out.is_dir() and out.suffix.lower() in SUFFIXES
    written = []
    for file in files:
        if not single:
            place = out / file.name
        elif file.role == "main":
            place = out
        elif file.role == "further":
            continue
        else:
            # The bibliography by the main file's name, figures by their own.
            place = out.with_suffix(".bib") if file.name.endswith(".bib") else out.with_name(file.name)
        atomic_bytes(place, file.content if isinstance(file.content, bytes) else file.content.encode("utf-8"), option)
        written.append(place)
    return written


def _shows(layout: Layout) -> str:
    kinds = f"requests of the kind {' or '.join(layout.kinds)}" if layout.kinds else ""
    rows = "methods with variants" if layout.rows == "variants" else ""
    return " and ".join(part for part in (kinds, rows) if part) or "nothing"


def _csv(report: Report) -> tuple[Output, ...]:
    from genrec_unlearn_bench.reporting.formats.csv_tables import across_csv, long_csv, reported_csv, wide_csv

    out = [Output(f"{report.stem}-long.csv", long_csv(report.tables))]
    out += [Output(f"{table.name}.csv", wide_csv(table), "further") for table in report.tables]
    out.append(Output(f"{report.stem}-across.csv", across_csv(report.across), "further"))
    if report.reported is not None:
        out.append(Output(f"{report.stem}-reported.csv", reported_csv(report.reported), "further"))
    return tuple(out)


def _html(report: Report) -> tuple[Output, ...]:
    from genrec_unlearn_bench.reporting.html_page import render_html

    page = render_html(report.board, report.protocol, baseline=report.baseline, reported=report.reported)
    return (Output("index.html", page), *_figures(report.across, svg=True))


def _latex(report: Report, *, standalone: bool, bib: bool) -> tuple[Output, ...]:
    from genrec_unlearn_bench.reporting.latex_tables import render_latex
    from genrec_unlearn_bench.reporting.paper import bibliography, statistics_paragraph

    text = render_latex(report.tables, standalone=standalone, reported=report.reported)
    out = [Output(f"{report.stem}.tex", text)]
    if bib:
        out.append(Output(f"{report.stem}.bib", bibliography(report.tables).text, "beside"))
    out.append(Output(f"{report.stem}-statistics.tex", statistics_paragraph(report.tables), "further"))
    return (*out, *_figures(report.across, svg=False))


def _figures(found: Sequence[Across], *, svg: bool) -> tuple[Output, ...]:
    out: list[Output] = []
    for each in found:
        diagram = each.diagram()
        if diagram is not None:
            content = diagram.svg if svg else diagram.pdf
            out.append(Output(f"{each.name}.{'svg' if svg else 'pdf'}", content, "beside"))
    return tuple(out)


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
    for version in sorted({result.protocol_version for result in results}, reverse=True):
        chosen = [result for result in results if result.protocol_version == version]
        place, code = ("", "../../") if version == newest else (f"protocol-{version}/", "../../../")
        found = _protocol_files(chosen, statistics_protocol(version), root=root, code=code)
        files |= {f"{place}{name}": content for name, content in found.items()}
    return dict(sorted(files.items()))


def _protocol_files(
    results: Sequence[Result], protocol: StatisticsProtocol, *, root: Path, code: str
) -> dict[str, bytes]:
    """The pages of one protocol's results; ``code`` leads from them to the repository."""
    from genrec_unlearn_bench.reporting.html_page import render_html

    board = make_board(results, protocol)
    kinds = task_kinds(results)
    files: dict[str, bytes] = {}
    known = layouts(protocol.suite_protocol)
    for layout in known.values():
        try:
            report = make_report(board, layout, protocol, kinds=kinds, variant_of=variants())
        except DataMissing:
            # No result of this sort has been published yet.
            continue
        for output in (each for name in SITE_FORMATS for each in outputs(report, name, standalone=True, bib=True)):
            content = output.content
            files[f"tables/{output.name}"] = content if isinstance(content, bytes) else content.encode("utf-8")
    linked = [f"tables/{layout}{ending}" for layout in known for ending in (".md", "-long.csv", ".tex")]
    page = render_html(
        board,
        protocol,
        manifests=root / "results" / "manifests",
        health=root / "health",
        code=code,
        files=[name for name in linked if name in files],
    )
    files["index.html"] = page.encode("utf-8")
    return files


def differences(files: dict[str, bytes], folder: Path) -> tuple[str, ...]:
    """Differences between a site and the files in a folder, as sentences."""
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    out = [f"{name}: is missing" for name in files if name not in there]
    out += [f"{name}: is not made any more" for name in there if name not in files]
    out += [f"{name}: differs" for name in files if name in there and there[name].read_bytes() != files[name]]
    return tuple(sorted(out))
