"""``bench leaderboard``: the tables of the results at hand, in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import AsJson, stdout
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import write_outputs
from genrec_unlearn_bench.progress_display import print_line


def leaderboard(
    results_dir: options.ResultsDirs = None,
    published: options.Published = False,
    protocol: options.Protocol = None,
    layout: options.Layout = "main",
    format_: options.TableFormat = None,
    task: options.TaskNames = None,
    backbone: options.BackboneNames = None,
    method: options.MethodNames = None,
    ruleset: options.RulesetNames = None,
    scale: options.ScaleNames = None,
    suite: options.SuiteNames = None,
    metric: options.Metrics = None,
    beam: options.Beam = None,
    baseline: options.Baseline = None,
    compare: Annotated[str | None, Option(help="reported: the TRACER paper's numbers (terminal, md, json).")] = None,
    out: Annotated[Path | None, Option(help="Folder or file to write to, instead of stdout.", metavar="PATH")] = None,
    standalone: options.Standalone = False,
    bib: Annotated[bool, Option("--bib", help="Beside LaTeX, the BibTeX of all that is in the tables.")] = False,
    skip_broken: options.SkipBroken = False,
    as_json: AsJson = False,
) -> None:
    """Make tables of results: on the terminal, or as markdown, CSV, JSON, LaTeX or a page of HTML.

    What every mark means, which tests were made, how many seeds there are and what was left out stands below a table.
    """
    from genrec_unlearn_bench.reporting.formats.terminal import draw
    from genrec_unlearn_bench.reporting.outputs import FORMATS, outputs, placed

    formats = options.chosen_formats("json" if as_json else format_, out, FORMATS)
    if compare is not None:
        one_of("comparison", compare, ["reported"])
    if "html" in formats and (method or metric or beam or layout != "main"):
        hint = "leave out --method, --metric, --beam and --layout, or take another --format"
        raise UsageError("a page has all rows and layouts", hint=hint)
    wanted = options.filters(task=task, backbone=backbone, method=method, ruleset=ruleset, scale=scale, suite=suite)
    found = options.read_results(results_dir, published=published, skip_broken=skip_broken, protocol=protocol)
    reported = compare is not None
    report = found.report(wanted, layout, named(metric), beam=beam, baseline=baseline, compare_reported=reported)
    if formats[0] == "terminal":
        draw(stdout(), report.tables, across=report.across, reported=report.reported)
        return
    made = [file for name in formats for file in outputs(report, name, standalone=standalone, bib=bib)]
    if out is None:
        # No line break is added: a redirected file is the one that --out would write.
        print(made[0].content, end="")
        return
    for place in write_outputs(placed(made, out), out, "--out"):
        print_line(str(place))
