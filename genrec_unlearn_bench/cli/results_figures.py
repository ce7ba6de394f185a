"""``bench figures``: the figures of the results at hand, each as PDF, SVG and PNG with its numbers and its caption."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from genrec_unlearn_bench.cli import options, results
from genrec_unlearn_bench.cli.console import handled, print_json, print_line
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import DataMissing

if TYPE_CHECKING:
    from genrec_unlearn_bench.reporting.figures.catalogue import Drawn, Skipped
    from genrec_unlearn_bench.reporting.figures.model import Width
    from genrec_unlearn_bench.reporting.results import Result

__all__ = ["figures"]

Results = Annotated[
    list[Path] | None,
    Argument(help="Folders with results (default: results, else those of the suite).", metavar="[RESULTS]..."),
]
Kinds = Annotated[
    list[str] | None,
    Option(
        "--kind",
        help="probing, relearning, membership, forget-quality, quantisation, pareto, overlap, ablation or stream; "
        "several (default: all that there is data for).",
    ),
]
Rows = Annotated[
    list[str] | None, Option("--method", help="Rows to show beside original and retrain; several, globs work.")
]
Seeds = Annotated[list[int] | None, Option("--seed", help="Training seeds to show (default: all).", min=0)]
Field = Annotated[str | None, Option(help="Ablations: the swept setting (default: every one that was swept).")]
Measures = Annotated[
    list[str] | None, Option("--metric", help="Ablations and Pareto: measures, as in forget:hr@10; several.")
]
Output = Annotated[Path, Option(help="Folder to write to.", metavar="DIR")]
Formats = Annotated[str, Option("--format", help="pdf, svg and png; several with commas.")]
PaperWidth = Annotated[str, Option(help="column (3.33 inches) or page (7 inches).")]


@handled
def figures(
    folders: Results = None,
    kind: Kinds = None,
    published: results.Published = False,
    task: results.Tasks = None,
    backbone: results.Backbones = None,
    method: Rows = None,
    seed: Seeds = None,
    ruleset: results.Rulesets = None,
    scale: results.Scales = None,
    suite: results.Suites = None,
    field: Field = None,
    metric: Measures = None,
    beam: results.Beam = None,
    output: Output = Path("figures"),
    format_: Formats = "pdf,svg,png",
    width: PaperWidth = "column",
    skip_broken: results.SkipBroken = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Draw figures of results, for a paper or a page.

    Beside every picture lie its numbers (.csv) and the lines of LaTeX that place it, with a caption (.tex). The same
    results give the same bytes. What could not be drawn is named, with the run that would give its data.
    """
    from genrec_unlearn_bench.reporting.figures.catalogue import draw_all, find_kind
    from genrec_unlearn_bench.reporting.figures.model import Width
    from genrec_unlearn_bench.reporting.figures.request import Asked
    from genrec_unlearn_bench.reporting.figures.writing import FORMATS
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol
    from genrec_unlearn_bench.reporting.selection import selected_board

    formats = [name.lower() for name in named([format_])]
    for name in formats:
        one_of("format", name, FORMATS)
    inches = Width(one_of("width", width, list(Width)))
    for name in named(kind):
        find_kind(name)
    protocol = statistics_protocol()
    found = results.gathered(folders, published=published, skip_broken=skip_broken)
    wanted = results.selection(task, backbone, method, ruleset, scale, suite)
    board = selected_board(_of_seeds(found.results, seed or ()), protocol, wanted)
    asked = Asked(protocol, wanted.methods, field or "", named(metric), beam)
    drawn = draw_all(board, named(kind), asked)
    _write(drawn, formats, inches, output, as_json=as_json)


def _of_seeds(found: Sequence[Result], seeds: Sequence[int]) -> list[Result]:
    kept = [result for result in found if not seeds or result.seed in seeds]
    if not kept:
        there = ", ".join(str(seed) for seed in sorted({result.seed for result in found}))
        raise DataMissing(f"no result has one of the seeds {', '.join(map(str, seeds))}", hint=f"there are {there}")
    return kept


def _write(drawn: Drawn, formats: Sequence[str], width: Width, output: Path, *, as_json: bool) -> None:
    from genrec_unlearn_bench.files import atomic_bytes
    from genrec_unlearn_bench.reporting.figures.writing import figure_files

    written = []
    for figure in drawn.figures:
        files = figure_files(figure, formats, width)
        for file in files:
            atomic_bytes(output / file.name, file.content, "--output")
        content = {"name": figure.name, "kind": figure.kind, "block": figure.block.title}
        paths = [str(output / file.name) for file in files]
        written.append({**content, "caption": " ".join(figure.caption), "files": paths})
        if not as_json:
            endings = ", ".join(path.rpartition(".")[2] for path in paths)
            print_line(f"{figure.kind}: {output / figure.name} ({endings})")
    if as_json:
        print_json({"figures": written, "skipped": [vars(one) for one in drawn.skipped]})
        return
    by_kind: dict[str, list[Skipped]] = {}
    for one in drawn.skipped:
        by_kind.setdefault(one.kind, []).append(one)
    for kind, (first, *others) in by_kind.items():
        # Of many blocks the first is named, as the others lack the same.
        more = f" (and {len(others)} more)" if others else ""
        print_line(f"not drawn: {kind}: {first.reason}{more}; would be by: {first.hint}")
