"""``bench results``: compare two rows, draw figures, show examples, export ranked lists, fetch published results."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import AsJson, Output, print_json, stdout
from genrec_unlearn_bench.cli.run import check_beam
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import atomic_bytes, atomic_text
from genrec_unlearn_bench.progress_display import open_store, print_line, progressing

if TYPE_CHECKING:
    from genrec_unlearn_bench.reporting.examples.page import Page

Kinds = Annotated[
    list[str] | None, Option("--kind", help="pareto, probing, …; several (default: all there is data for).")
]
Field = Annotated[str | None, Option(help="Ablations: the swept setting (default: every one that was swept).")]
Users = Annotated[list[int] | None, Option(help="Show these users (their numbers in per_user.parquet) instead.")]
Format = Annotated[str | None, Option("--format", help="terminal, html, latex or json.", show_default="terminal")]


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
    beam: options.ListBeam = None,
    users: Annotated[bool, Option("--users", help="Compare checkpoints over users, seed by seed.")] = False,
    seed: Annotated[list[int] | None, Option(help="With --users: training seeds (default: all shared).", min=0)] = None,
    skip_broken: options.SkipBroken = False,
) -> Output:
    """Compare two methods: paired over training seeds, corrected over the measures, block by block.

    The measures are the protocol's primary ones unless --metric names others; they are the family that Holm's
    correction is over. Methods that a table's marks are about are compared in the table's own families
    (bench leaderboard).
    """
    if seed and not users:
        raise UsageError(
            "--seed chooses checkpoints, and methods are compared over all seeds that they share",
            hint="leave it out, or add --users",
        )
    from genrec_unlearn_bench.reporting import checkpoints, comparisons

    found = options.read_results(results_dir, published=published, skip_broken=skip_broken, protocol=protocol)
    wanted = options.selection(task, backbone, None, ruleset, scale, suite)
    pairs, rules = found.compare(first, second, wanted, named(metric), beam=beam), found.protocol
    if not users:
        draw = comparisons.draw_pairs
        return Output(lambda: comparisons.pairs_document(pairs, rules), [lambda console: draw(console, pairs, rules)])
    seeds = [one for pair in pairs for one in checkpoints.compare_checkpoints(pair, rules, seeds=seed or ())]
    return Output(
        lambda: checkpoints.users_document(seeds, rules),
        [lambda console: checkpoints.draw_checkpoints(console, seeds, rules)],
    )


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
    field: Field = None,
    metric: options.Metrics = None,
    beam: options.ListBeam = None,
    out: Annotated[Path, Option(help="Folder to write to.", metavar="DIR")] = Path("figures"),
    format_: Annotated[str, Option("--format", help="pdf, svg and png; several with commas.")] = "pdf,svg,png",
    width: Annotated[str, Option(help="column (3.33 inches) or page (7 inches).")] = "column",
    skip_broken: options.SkipBroken = False,
) -> Output:
    """Draw figures of results, for a paper or a page.

    Beside every picture lie its numbers (.csv) and the lines of LaTeX that place it, with a caption (.tex). The same
    results give the same bytes. What could not be drawn is named, with the run that would give its data.
    """
    from genrec_unlearn_bench.reporting.figures import catalogue, drawing
    from genrec_unlearn_bench.reporting.figures.model import FigureRequest, Width
    from genrec_unlearn_bench.reporting.frame import filtered

    formats = [one_of("format", name.lower(), drawing.FORMATS) for name in named([format_])]
    inches = Width(one_of("width", width, list(Width)))
    for name in named(kind):
        catalogue.find_kind(name)
    found = options.read_results(results_dir, published=published, skip_broken=skip_broken, protocol=protocol)
    found = replace(found, results=filtered(found.results, {"seed": seed} if seed else {}))
    wanted = options.selection(task, backbone, method, ruleset, scale, suite)
    request = FigureRequest(found.protocol, wanted.methods, field or "", named(metric), beam)
    drawn = catalogue.draw_all(found.board(wanted), named(kind), request)
    written, lines = [], []
    for figure in drawn.figures:
        files = drawing.figure_files(figure, formats, inches)
        for file in files:
            atomic_bytes(out / file.name, file.content, "--out")
        content = {"name": figure.name, "kind": figure.kind, "block": figure.block.title}
        paths = [str(out / file.name) for file in files]
        written.append({**content, "caption": " ".join(figure.caption), "files": paths})
        lines.append(f"{figure.kind}: {out / figure.name} ({', '.join(Path(path).suffix[1:] for path in paths)})")
    for name, (first, *others) in groupby(drawn.skipped, lambda one: one.kind):
        # Of many blocks the first is named, as the others lack the same.
        more = f" (and {len(others)} more)" if others else ""
        lines.append(f"not drawn: {name}: {first.reason}{more}; would be by: {first.hint}")
    return Output({"figures": written, "skipped": [vars(one) for one in drawn.skipped]}, lines)


def examples(
    task: options.TaskNames = None,
    method: options.MethodNames = None,
    seed: Annotated[int | None, Option(help="Training seed.", min=0, show_default="the lowest of all rows")] = None,
    top: Annotated[int, Option(help="How many of the most changed users to show.", min=1, max=100)] = 5,
    user: Users = None,
    group: Annotated[str | None, Option(help="forget or retain.", show_default="forget; with --user, both")] = None,
    history: Annotated[int, Option(help="How many of the last items of a history to show.", min=0, max=50)] = 5,
    ids: Annotated[bool, Option("--ids", help="Name users and items by their ids, too.")] = False,
    format_: Format = None,
    out: Annotated[Path | None, Option(help="File to write to; stdout without.", metavar="FILE")] = None,
    standalone: options.Standalone = False,
    results_dir: options.ResultsDirs = None,
    protocol: options.Protocol = None,
    backbone: options.BackboneNames = None,
    scale: options.ScaleNames = None,
    ruleset: options.RulesetNames = None,
    suite: options.SuiteNames = None,
    requests: Annotated[int, Option(help="Of streams: into how many requests the forget set was divided.", min=1)] = 1,
    beam: options.ListBeam = None,
    cache_dir: options.CacheDir = None,
    skip_broken: options.SkipBroken = False,
    as_json: AsJson = False,
) -> None:
    """Show top-10 lists side by side: the original's, its oracle's and methods', with what is to be forgotten marked.

    Shown are the users whose lists the methods changed most, or those named. As histories are personal data, ids are
    left out unless --ids asks for them. Lists lie in the cache that the runs were made with.
    """
    formats = options.chosen_formats("json" if as_json else format_, out, ("terminal", "html", "latex", "json"))
    if len(formats) > 1:
        raise UsageError("examples are written in one format at a time", hint="make one call for each")
    if beam is not None:
        check_beam(beam)
    from genrec_unlearn_bench.reporting.examples import page, runs
    from genrec_unlearn_bench.reporting.frame import filtered

    sides = tuple(runs.SIDES[: 2 if user else 1])
    if group is not None:
        name = one_of("group", group, runs.SIDES)
        sides = tuple(side for side in runs.SIDES if side == name)

    found = options.read_results(results_dir, skip_broken=skip_broken, protocol=protocol)
    width = beam or found.protocol.beam
    found = replace(found, results=filtered(found.results, {"requests": requests}))
    wanted = options.selection(task, backbone, None, ruleset, scale, suite)
    chosen = runs.choose_runs(found.board(wanted), found.protocol, methods=named(method), seed=seed)
    with open_store(cache_dir) as (store, _):
        read = runs.load_task_runs(chosen, store)
    rows, rule = runs.choose_examples(read, sides, users=user or (), beam=width, top=top)
    made = page.make_page(read, rows, beam=width, rule=rule, history=history, ids=ids)
    _print_page(made, formats[0], out, standalone=standalone)


def _print_page(page: Page, format_: str, out: Path | None, *, standalone: bool) -> None:
    from genrec_unlearn_bench.reporting.examples import render

    if out is None and format_ == "terminal":
        render.draw(stdout(), page)
    elif out is None and format_ == "json":
        print_json(page.model_dump(mode="json"))
    else:
        text = {
            "html": lambda: render.render_html(page),
            "latex": lambda: render.render_latex(page, standalone=standalone),
            "json": lambda: f"{page.model_dump_json(indent=2)}\n",
            "terminal": lambda: render.render_terminal(page),
        }[format_]()
        if out is None:
            # No line break is added: a redirected file is the one that --out would write.
            print(text, end="")
        else:
            atomic_text(out, text, "--out")
            print_line(str(out))


def export(
    runs: Annotated[list[str], Argument(help="Folders of results, or the beginnings of their keys.", metavar="RUN...")],
    out: Annotated[Path, Option(help="Folder to write to; trec: one in it for each of several runs.", metavar="DIR")],
    format_: Annotated[
        str, Option("--format", help="trec: run files and qrels; parquet: one table of metrics.")
    ] = "trec",
    ids: Annotated[str, Option(help="How items are named: own (the dataset's ids) or rows (their numbers).")] = "own",
    results_dir: Annotated[Path, Option(help="Where runs are looked for by key.", metavar="DIR")] = Path("results"),
    cache_dir: options.CacheDir = None,
) -> Output:
    """Write ranked lists and targets, so that ir-measures, ranx or trec_eval can compute ranking metrics.

    Or, as parquet, all metrics in one table with a README.md, for pandas and the datasets library.

    One qrels file a test group and one run file a group and beam. Queries are rows of the group's test examples, the
    same in every run of a task; users are not named. Lists lie in the cache that the run was made with.
    """
    one_of("format", format_, ("trec", "parquet"))
    one_of("kind of id", ids, ("own", "rows"))
    from genrec_unlearn_bench.pipeline import list_lookup
    from genrec_unlearn_bench.pipeline.results import PLACES, find_run, read_record

    places = tuple(dict.fromkeys([results_dir, *PLACES]))
    if format_ == "parquet":
        return _export_table([Path(text) if Path(text).is_dir() else find_run(text, places) for text in runs], out)
    folders = list(dict.fromkeys(find_run(text, places) for text in runs))
    # All are read before anything is written, so that a wrong name among them leaves nothing half done.
    records = [read_record(folder) for folder in folders]
    exported: list[dict[str, Any]] = []
    lines: list[str] = []
    with open_store(cache_dir) as (store, _):
        for folder, record in zip(folders, records, strict=True):
            cell = record.cell
            name = f"{cell.task}-{cell.backbone}-{cell.method}-{cell.scale}-seed{cell.seed}-{record.key[:10]}"
            place = out if len(records) == 1 else out / name
            found = list_lookup.find_lists(record, store)
            item_ids = list_lookup.find_dataset_of(record, store).items.ids if ids == "own" else None
            if item_ids is not None:
                list_lookup.check_names(item_ids)
            lines.append(f"{folder}:")
            files = []
            for file in list_lookup.trec_files(found, item_ids):
                atomic_text(place / file.name, file.text, "--out")
                files.append({"path": str(place / file.name), "lines": file.lines, "queries": file.queries})
                lines.append(f"  {place / file.name}  ({file.lines} lines, {file.queries} queries)")
            exported.append({"run": str(folder), "key": record.key, "files": files})
    return Output(exported, lines)


def _export_table(folders: list[Path], out: Path) -> Output:
    """The metrics of all records below some folders, of one protocol, as parquet."""
    from genrec_unlearn_bench.reporting.frame import write_parquet
    from genrec_unlearn_bench.submissions.result_set import load_result_set

    found = load_result_set(list(dict.fromkeys(folders)), published=False, skip_broken=False)
    rows = write_parquet(found.results, out)
    table = out / "results.parquet"
    lines = [
        f"{table}  ({rows} rows from {len(found.results)} records)",
        *(f"left out: {other}" for other in found.others),
    ]
    exported = {"path": str(table), "rows": rows, "cells": len(found.results), "left_out": list(found.others)}
    return Output(exported, lines)


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
