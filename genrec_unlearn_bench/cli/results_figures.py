"""``bench results figures``: figures of results as PDF, SVG and PNG, each with its numbers and its caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.config import named, one_of

if TYPE_CHECKING:
    from genrec_unlearn_bench.reporting.figures.catalogue import Drawn, Skipped
    from genrec_unlearn_bench.reporting.figures.model import Width

Kinds = Annotated[
    list[str] | None, Option("--kind", help="pareto, probing, …; several (default: all there is data for).")
]
Seeds = Annotated[list[int] | None, Option("--seed", help="Training seeds to show (default: all).", min=0)]
Field = Annotated[str | None, Option(help="Ablations: the swept setting (default: every one that was swept).")]
Out = Annotated[Path, Option(help="Folder to write to.", metavar="DIR")]
Formats = Annotated[str, Option("--format", help="pdf, svg and png; several with commas.")]
PaperWidth = Annotated[str, Option(help="column (3.33 inches) or page (7 inches).")]


def figures(
    kind: Kinds = None,
    results_dir: options.ResultsDirs = None,
    published: options.Published = False,
    protocol: options.Protocol = None,
    task: options.TaskNames = None,
    backbone: options.BackboneNames = None,
    method: options.MethodNames = None,
    seed: Seeds = None,
    ruleset: options.RulesetNames = None,
    scale: options.ScaleNames = None,
    suite: options.SuiteNames = None,
    field: Field = None,
    metric: options.Metrics = None,
    beam: options.ListBeam = None,
    out: Out = Path("figures"),
    format_: Formats = "pdf,svg,png",
    width: PaperWidth = "column",
    skip_broken: options.SkipBroken = False,
) -> Output:
    """Draw figures of results, for a paper or a page.

    Beside every picture lie its numbers (.csv) and the lines of LaTeX that place it, with a caption (.tex). The same
    results give the same bytes. What could not be drawn is named, with the run that would give its data.
    """
    from genrec_unlearn_bench.reporting.figures.catalogue import draw_all, find_kind
    from genrec_unlearn_bench.reporting.figures.drawing import FORMATS
    from genrec_unlearn_bench.reporting.figures.model import FigureRequest, Width
    from genrec_unlearn_bench.reporting.frame import filtered

    formats = [name.lower() for name in named([format_])]
    for name in formats:
        one_of("format", name, FORMATS)
    inches = Width(one_of("width", width, list(Width)))
    for name in named(kind):
        find_kind(name)
    found = options.read_results(results_dir, published=published, skip_broken=skip_broken, protocol=protocol)
    found = replace(found, results=filtered(found.results, {"seed": seed} if seed else {}))
    wanted = options.selection(task, backbone, method, ruleset, scale, suite)
    request = FigureRequest(found.protocol, wanted.methods, field or "", named(metric), beam)
    return _write(draw_all(found.board(wanted), named(kind), request), formats, inches, out)


def _write(drawn: Drawn, formats: Sequence[str], width: Width, out: Path) -> Output:
    from genrec_unlearn_bench.files import atomic_bytes
    from genrec_unlearn_bench.reporting.figures.drawing import figure_files

    written, lines = [], []
    for figure in drawn.figures:
        files = figure_files(figure, formats, width)
        for file in files:
            atomic_bytes(out / file.name, file.content, "--out")
        content = {"name": figure.name, "kind": figure.kind, "block": figure.block.title}
        paths = [str(out / file.name) for file in files]
        written.append({**content, "caption": " ".join(figure.caption), "files": paths})
        endings = ", ".join(path.rpartition(".")[2] for path in paths)
        lines.append(f"{figure.kind}: {out / figure.name} ({endings})")
    by_kind: dict[str, list[Skipped]] = {}
    for one in drawn.skipped:
        by_kind.setdefault(one.kind, []).append(one)
    for kind, (first, *others) in by_kind.items():
        # Of many blocks the first is named, as the others lack the same.
        more = f" (and {len(others)} more)" if others else ""
        lines.append(f"not drawn: {kind}: {first.reason}{more}; would be by: {first.hint}")
    return Output({"figures": written, "skipped": [vars(one) for one in drawn.skipped]}, lines)
