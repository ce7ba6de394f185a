"""``bench leaderboard``: the tables of the results at hand, in every format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench.cli import results
from genrec_unlearn_bench.cli.command import AsJson
from genrec_unlearn_bench.cli.console import print_line, stdout
from genrec_unlearn_bench.config import named, one_of

if TYPE_CHECKING:
    from genrec_unlearn_bench.reporting.outputs import Output, Report
    from genrec_unlearn_bench.reporting.selection import Selection


def leaderboard(
    results_dir: results.ResultsDirs = None,
    published: results.Published = False,
    layout: results.Layout = "main",
    format_: results.Format = None,
    task: results.Tasks = None,
    backbone: results.Backbones = None,
    method: results.Methods = None,
    ruleset: results.Rulesets = None,
    scale: results.Scales = None,
    suite: results.Suites = None,
    metric: results.Metrics = None,
    beam: results.Beam = None,
    baseline: results.Baseline = None,
    compare: results.Compare = None,
    out: results.Out = None,
    standalone: results.Standalone = False,
    bib: results.Bib = False,
    skip_broken: results.SkipBroken = False,
    as_json: AsJson = False,
) -> None:
    """Make tables of results: on the terminal, or as markdown, CSV, JSON, LaTeX or a page of HTML.

    What every mark means, which tests were made, how many seeds there are and what was left out stands below a table.
    """
    from genrec_unlearn_bench.reporting.outputs import FORMATS

    formats = results.known_formats("json" if as_json else format_, out, FORMATS)
    if compare is not None:
        one_of("comparison", compare, ["reported"])
    found = results.gathered(results_dir, published=published, skip_broken=skip_broken)
    wanted = results.selection(task, backbone, method, ruleset, scale, suite)
    report = make(found, wanted, layout, named(metric), beam, baseline, reported=compare is not None)
    give(report, formats, out, standalone=standalone, bib=bib)


def make(
    found: results.Gathered,
    wanted: Selection,
    layout: str,
    columns: Sequence[str],
    beam: int | None,
    baseline: str | None,
    *,
    reported: bool = False,
) -> Report:
    """Tables of the selected results in a layout, or of the columns where some are named."""
    from genrec_unlearn_bench.reporting import selection
    from genrec_unlearn_bench.reporting.layouts import find_layout
    from genrec_unlearn_bench.reporting.outputs import make_report
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol

    protocol = statistics_protocol()
    shape = selection.chosen_layout(columns, beam=beam or protocol.beam) if columns else find_layout(layout)
    return make_report(
        found.board(protocol, wanted),
        shape,
        protocol,
        kinds=selection.task_kinds(found.results),
        variant_of=selection.variants(),
        wanted=wanted,
        beam=beam,
        baseline=baseline,
        compare_reported=reported,
    )


def give(report: Report, formats: list[str], out: Path | None, *, standalone: bool, bib: bool) -> None:
    """Print one format, or write all of them."""
    from genrec_unlearn_bench.reporting.formats.terminal import draw
    from genrec_unlearn_bench.reporting.outputs import outputs

    if out is None and formats == ["terminal"]:
        draw(stdout(), report.tables, across=report.across, reported=report.reported)
        return
    made = {name: outputs(report, name, standalone=standalone, bib=bib) for name in formats}
    if out is None:
        # No line break is added: a redirected file is the one that --out would write.
        print(made[formats[0]][0].content, end="")
        return
    _write(made, out)


def _write(made: dict[str, tuple[Output, ...]], out: Path) -> None:
    from genrec_unlearn_bench.files import atomic_bytes

    single = not out.is_dir() and out.suffix.lower() in results.SUFFIXES
    for files in made.values():
        for file in files:
            if single and file.role == "further":
                continue
            if not single:
                place = out / file.name
            elif file.role == "main":
                place = out
            else:
                # What a file needs beside it: the bibliography by the file's name, figures by their own.
                place = out.with_suffix(".bib") if file.name.endswith(".bib") else out.with_name(file.name)
            content = file.content if isinstance(file.content, bytes) else file.content.encode("utf-8")
            atomic_bytes(place, content, "--out")
            print_line(str(place))
