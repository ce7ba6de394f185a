"""``bench results``: compare two rows, test the paper's claims, draw figures, show examples, export lists, pull."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from rich.padding import Padding
from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import AsJson, Output, sheet, stdout
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.files import write_outputs
from genrec_unlearn_bench.progress_display import open_store, print_line, progressing

Numbers = Annotated[list[int] | None, Argument(help="Claims to show in full; all in brief where none is given.")]
Own = Annotated[
    list[Path] | None,
    Option("--results-dir", help="Folders of your results (default: results); the suite's are added.", metavar="DIR"),
]
Kinds = Annotated[
    list[str] | None, Option("--kind", help="pareto, probing, …; several (default: all there is data for).")
]
Users = Annotated[list[int] | None, Option(help="Show these users (their numbers in per_user.parquet) instead.")]
Format = Annotated[str | None, Option("--format", help="terminal, html or json.", show_default="terminal")]


def compare(
    first: Annotated[str, Argument(help="Method, or the label of a row as a table shows it.", metavar="A")],
    second: Annotated[str, Argument(help="The row to compare it with.", metavar="B")],
    metric: options.Metrics = None,
    results_dir: options.ResultsDirs = None,
    published: options.Published = False,
    protocol: options.Protocol = None,
    task: options.TaskNames = None,
    backbone: options.BackboneNames = None,
    ruleset: options.RulesetNames = None,
    scale: options.ScaleNames = None,
    suite: options.SuiteNames = None,
    beam: options.Beam = None,
    users: Annotated[bool, Option("--users", help="Compare checkpoints over users, seed by seed.")] = False,
    seed: Annotated[list[int] | None, Option(help="With --users: training seeds (default: all shared).", min=0)] = None,
    skip_broken: options.SkipBroken = False,
) -> Output:
    """Compare two methods: paired over training seeds, corrected over the measures, block by block.

    The measures are the protocol's primary ones unless --metric names others; they are the family that Holm's
    correction is over.
    """
    if seed and not users:
        raise UsageError("--seed chooses checkpoints to compare over users", hint="leave it out, or add --users")
    from genrec_unlearn_bench.reporting import checkpoints, comparisons

    found = options.read_results(results_dir, published=published, skip_broken=skip_broken, protocol=protocol)
    wanted = options.filters(task=task, backbone=backbone, ruleset=ruleset, scale=scale, suite=suite)
    pairs, rules = found.compare(first, second, wanted, named(metric), beam=beam), found.protocol
    if not users:
        draw = comparisons.draw_pairs
        return Output(lambda: comparisons.pairs_document(pairs, rules), [lambda console: draw(console, pairs, rules)])
    seeds = [one for pair in pairs for one in checkpoints.compare_checkpoints(pair, rules, seeds=seed or ())]
    return Output(
        lambda: checkpoints.users_document(seeds, rules),
        [lambda console: checkpoints.draw_checkpoints(console, seeds, rules)],
    )


def claims(
    number: Numbers = None,
    results_dir: Own = None,
    out: Annotated[Path | None, Option(help="Markdown file to write, with everything.", metavar="FILE")] = None,
    skip_broken: options.SkipBroken = False,
) -> Output:
    """Test the claims of TRACER's paper on one's own results and the suite's: holds, does not hold, cannot be told.

    Every verdict follows from records by the rule that stands beside the claim, so that a new record can change it.
    """
    from genrec_unlearn_bench.reporting import claim_report as report
    from genrec_unlearn_bench.reporting.claims import paper_claims
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol
    from genrec_unlearn_bench.submissions.result_set import load_every_protocol

    content, protocol = paper_claims(), statistics_protocol()
    known = {str(claim.number): claim for claim in content.claims}
    chosen = [known[one_of("claim", str(wanted), known)] for wanted in dict.fromkeys(number or map(int, known))]
    found = load_every_protocol(results_dir or (), skip_broken=skip_broken)
    options.print_faults(found.faults)
    blocks = report.find_blocks(found.results, protocol)
    tested = [report.check_claim(claim, blocks, content, protocol) for claim in chosen]
    document = report.claims_document(tested, protocol)
    if out is not None:
        write_outputs({out: report.claims_markdown(tested, protocol).encode("utf-8")}, out, "--out")
        return Output(document, [str(out)])
    titles = [f"{each.claim.number}. {each.claim.title}: {each.verdict.value}" for each in tested]
    if number:
        return Output(
            document,
            ["\n\n".join([title, *report.section(each), ""]) for title, each in zip(titles, tested, strict=True)],
        )
    rows = [[str(each.claim.number), each.claim.title, each.verdict.value, each.reason] for each in tested]
    more = "The paper's words, conditions, numbers and what is missing: bench results claims 1, or all with --out FILE."
    below = Padding(f"{report.how_text(tested, protocol)}\n\n{more}", 0)
    return Output(document, [sheet(rows, ["", "claim", "verdict", "why"]), below])


def figures(
    kind: Kinds = None,
    results_dir: options.ResultsDirs = None,
    published: options.Published = False,
    protocol: options.Protocol = None,
    task: options.TaskNames = None,
    backbone: options.BackboneNames = None,
    method: options.MethodNames = None,
    seed: Annotated[list[int] | None, Option("--seed", help="Training seeds to show (default: all).", min=0)] = None,
    ruleset: options.RulesetNames = None,
    scale: options.ScaleNames = None,
    suite: options.SuiteNames = None,
    metric: options.Metrics = None,
    beam: options.Beam = None,
    out: Annotated[Path, Option(help="Folder to write to.", metavar="DIR")] = Path("figures"),
    format_: Annotated[str, Option("--format", help="pdf, svg and png; several with commas.")] = "pdf,svg,png",
    width: Annotated[str, Option(help="column (3.33 inches) or page (7 inches).")] = "column",
    skip_broken: options.SkipBroken = False,
) -> Output:
    """Draw figures of results, for a paper or a page.

    Beside every picture lie its numbers (.csv) and a caption (.txt). The same results give the same bytes. What could
    not be drawn is named, with the run that would give its data.
    """
    from genrec_unlearn_bench.reporting.figures import catalogue, drawing
    from genrec_unlearn_bench.reporting.figures.model import WIDTHS, FigureRequest

    formats = [one_of("format", name.lower(), drawing.FORMATS) for name in named([format_])]
    one_of("width", width, WIDTHS)
    for name in named(kind):
        catalogue.find_kind(name)
    found = options.read_results(results_dir, published=published, skip_broken=skip_broken, protocol=protocol)
    chosen = {"method": method, "ruleset": ruleset, "scale": scale, "suite": suite, "seed": seed}
    board = found.board(options.filters(task=task, backbone=backbone, **chosen))
    request = FigureRequest(found.protocol, named(method), named(metric), beam)
    drawn, skipped = catalogue.draw_all(board, named(kind), request)
    written, lines = [], []
    made = [(figure, drawing.figure_files(figure, formats, width)) for figure in drawn]
    write_outputs({out / file: content for _, files in made for file, content in files.items()}, out, "--out")
    for figure, files in made:
        facts = {"name": figure.name, "kind": figure.kind, "block": figure.block.title}
        written.append({**facts, "caption": " ".join(figure.caption), "files": [str(out / file) for file in files]})
        lines.append(f"{figure.kind}: {out / figure.name} ({', '.join(file.rpartition('.')[2] for file in files)})")
    for name, (first, *others) in groupby(skipped, lambda one: one.kind):
        # Of many blocks the first is named, as the others lack the same.
        more = f" (and {len(others)} more)" if others else ""
        lines.append(f"not drawn: {name}: {first.reason}{more}; would be by: {first.hint}")
    return Output({"figures": written, "skipped": [one._asdict() for one in skipped]}, lines)


def examples(
    task: options.TaskNames = None,
    method: options.MethodNames = None,
    seed: Annotated[int | None, Option(help="Training seed.", min=0, show_default="the lowest of all rows")] = None,
    top: Annotated[int, Option(help="How many of the most changed users to show.", min=1, max=100)] = 5,
    user: Users = None,
    group: Annotated[str | None, Option(help="forget or retain.", show_default="forget; with --user, both")] = None,
    ids: Annotated[bool, Option("--ids", help="Name users and items by their ids, too.")] = False,
    format_: Format = None,
    out: Annotated[Path | None, Option(help="File to write to; stdout without.", metavar="FILE")] = None,
    results_dir: options.ResultsDirs = None,
    protocol: options.Protocol = None,
    backbone: options.BackboneNames = None,
    scale: options.ScaleNames = None,
    ruleset: options.RulesetNames = None,
    suite: options.SuiteNames = None,
    beam: options.Beam = None,
    cache_dir: options.CacheDir = None,
    skip_broken: options.SkipBroken = False,
    as_json: AsJson = False,
) -> None:
    """Show top-10 lists side by side: the original's, its oracle's and methods', with what is to be forgotten marked.

    Shown are the users whose lists the methods changed most, or those named. As histories are personal data, ids are
    left out unless --ids asks for them. Lists lie in the cache that the runs were made with.
    """
    form, *others = options.chosen_formats("json" if as_json else format_, out, ("terminal", "html", "json"))
    if others:
        raise UsageError("examples are written in one format at a time", hint="make one call for each")
    from genrec_unlearn_bench.evaluation.ranking import TEST_GROUPS
    from genrec_unlearn_bench.reporting.examples import page, runs
    from genrec_unlearn_bench.reporting.measure import check_beam

    sides = TEST_GROUPS if group is None else (Group(one_of("group", group, TEST_GROUPS)),)
    found = options.read_results(results_dir, skip_broken=skip_broken, protocol=protocol)
    found = replace(found, published=True)  # Published results have no lists, and no option adds them.
    wanted = {**options.filters(task=task, backbone=backbone, ruleset=ruleset, scale=scale, suite=suite), "requests": 1}
    with found.located():
        chosen = runs.choose_runs(found.board(wanted), found.protocol, methods=named(method), seed=seed)
    width = check_beam(found.protocol.beam if beam is None else beam)
    with open_store(cache_dir) as (store, _):
        read = runs.load_task_runs(*chosen, store)
    if user:
        rows = runs.of_users(read, user, sides)
    else:
        rows = [(sides[0], int(row)) for row in runs.most_changed(read, sides[0], width, top)]
    made = page.make_page(read, rows, beam=width, rule=runs.NAMED if user else runs.RULE, ids=ids)
    if form == "terminal":
        page.draw(stdout(), made)
        return
    text = page.render_html(made) if form == "html" else json.dumps(made.model_dump(mode="json"), indent=2) + "\n"
    if out is None:
        # No line break is added: a redirected file is the one that --out would write.
        print(text, end="")
    else:
        write_outputs({out: text.encode("utf-8")}, out, "--out")
        print_line(str(out))


def export(
    runs: Annotated[list[Path], Argument(help="Folders of results.", metavar="RUN...")],
    out: Annotated[Path, Option(help="Folder to write to; trec: one in it for each of several runs.", metavar="DIR")],
    format_: Annotated[
        str, Option("--format", help="trec: run files and qrels; parquet: one table of metrics.")
    ] = "trec",
    cache_dir: options.CacheDir = None,
) -> Output:
    """Write ranked lists and targets, so that ir-measures, ranx or trec_eval can compute ranking metrics.

    Or, as parquet, all metrics in one table with a README.md, for pandas and the datasets library.

    One qrels file a test group and one run file a group and beam. Queries are rows of the group's test examples, the
    same in every run of a task; items are rows of the dataset. Lists lie in the cache that the run was made with.
    """
    one_of("format", format_, ("trec", "parquet"))
    from genrec_unlearn_bench.pipeline.list_lookup import find_lists, trec_files
    from genrec_unlearn_bench.pipeline.results import find_run, read_record

    if format_ == "parquet":
        return _export_table(runs, out)
    folders = list(dict.fromkeys(find_run(run) for run in runs))
    # All are read before anything is written, so that a wrong name among them leaves nothing half done.
    records = [read_record(folder) for folder in folders]
    exported: list[dict[str, Any]] = []
    with open_store(cache_dir) as (store, _):
        for folder, record in zip(folders, records, strict=True):
            cell = record.cell
            name = f"{cell.task}-{cell.backbone}-{cell.method}-{cell.scale}-seed{cell.seed}-{record.key[:10]}"
            place = out if len(records) == 1 else out / name
            files = {place / name: text.encode("utf-8") for name, text in trec_files(find_lists(record, store))}
            write_outputs(files, out, "--out")
            exported.append({"run": str(folder), "key": record.key, "files": [str(path) for path in files]})
    return Output(exported, [path for one in exported for path in one["files"]])


def _export_table(folders: list[Path], out: Path) -> Output:
    """The metrics of all records below some folders, of one protocol, as parquet."""
    from genrec_unlearn_bench.reporting.frame import write_parquet
    from genrec_unlearn_bench.submissions.result_set import load_result_set

    found = load_result_set(list(dict.fromkeys(folders)), published=False, skip_broken=False)
    rows, table = write_parquet(found.results, out), out / "results.parquet"
    exported = {"path": str(table), "rows": rows, "cells": len(found.results), "left_out": list(found.others)}
    lines = [f"{table}  ({rows} rows from {len(found.results)} records)"]
    return Output(exported, [*lines, *(f"left out: {other}" for other in found.others)])


def pull(
    place: Annotated[str, Argument(help="A submission or tree of results: folder, zip file, its address.")],
    results_dir: options.ResultsDir = Path("results"),
) -> Output:
    """Fetch results that others have published, so that one pays for one's own method alone.

    They are checked as `bench submission verify` does; what lies here already is never written over.
    """
    from genrec_unlearn_bench.submissions import pull as pulling

    with progressing() as progress:
        pulled = pulling.pull(place, results_dir, progress)
    new = [str(folder) for folder, is_new in pulled.items() if is_new]
    kept = len(pulled) - len(new)
    return Output({"new": new, "kept": kept}, [f"{len(new)} new, {kept} here already"])
