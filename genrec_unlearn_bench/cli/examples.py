"""``bench examples``: side-by-side top-10 lists of the original, its oracle and methods, for some users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genrec_unlearn_bench.cli import options, results
from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import named
from genrec_unlearn_bench.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.metric import Group as Side
    from genrec_unlearn_bench.reporting.examples.page import Page

__all__ = ["examples"]

FORMATS = ("terminal", "html", "latex", "json")
SUFFIXES = {".html": "html", ".tex": "latex", ".json": "json", ".txt": "terminal"}
"""Of a file that --output names, with the format that it stands for."""
SIDES = ("forget", "retain")

Seed = Annotated[int | None, typer.Option(help="Training seed.", min=0, show_default="the lowest of all rows")]
Requests = Annotated[int, typer.Option(help="Of streams: into how many requests the forget set was divided.", min=1)]
Top = Annotated[int, typer.Option(help="How many of the most changed users to show.", min=1, max=100)]
Users = Annotated[
    list[int] | None,
    typer.Option(help="Show these users instead, by their number in per_user.parquet; repeat for several."),
]
Group = Annotated[
    str | None, typer.Option(help="forget or retain: whose test examples.", show_default="forget; with --user, both")
]
History = Annotated[int, typer.Option(help="How many of the last items of a history to show.", min=0, max=50)]
Ids = Annotated[bool, typer.Option("--ids", help="Name users and items by their ids, too.")]
Format = Annotated[str | None, typer.Option("--format", help="terminal, html, latex or json.", show_default="terminal")]
Output = Annotated[
    Path | None, typer.Option(help="File to write to; stdout without.", metavar="FILE", show_default=False)
]


@handled
def examples(
    task: results.Tasks = None,
    method: results.Methods = None,
    seed: Seed = None,
    top: Top = 5,
    user: Users = None,
    group: Group = None,
    history: History = 5,
    ids: Ids = False,
    format_: Format = None,
    output: Output = None,
    standalone: results.Standalone = False,
    results_dir: results.ResultsDirs = None,
    backbone: results.Backbones = None,
    scale: results.Scales = None,
    ruleset: results.Rulesets = None,
    suite: results.Suites = None,
    requests: Requests = 1,
    beam: results.Beam = None,
    cache_dir: options.CacheDir = None,
    skip_broken: results.SkipBroken = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Show top-10 lists side by side: the original's, its oracle's and methods', with what is to be forgotten marked.

    Shown are the users whose lists the methods changed most, or those named. As histories are personal data, ids are
    left out unless --ids asks for them. Lists lie in the cache that the runs were made with.
    """
    wanted_format = _format(format_, output, as_json=as_json)
    groups = _groups(group, users=bool(user))
    width = _beam(beam)
    from genrec_unlearn_bench.reporting.examples import scene as choice
    from genrec_unlearn_bench.reporting.examples.page import make_page
    from genrec_unlearn_bench.reporting.examples.scene import of_requests, set_scene, side_by_side
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol
    from genrec_unlearn_bench.reporting.selection import selected_board
    from genrec_unlearn_bench.store.store import StageStore, default_cache

    protocol = statistics_protocol()
    found = results.gathered(results_dir, published=False, skip_broken=skip_broken)
    wanted = results.selection(task, backbone, None, ruleset, scale, suite)
    board = selected_board(of_requests(found.results, requests), protocol, wanted)
    chosen = side_by_side(board, protocol, methods=named(method), seed=seed)
    with progressing() as progress:
        scene = set_scene(chosen, StageStore(cache_dir or default_cache(), progress))
    if user:
        rows, rule = choice.of_users(scene, user, groups), choice.NAMED
    else:
        (side,) = groups
        rows, rule = [(side, int(row)) for row in choice.most_changed(scene, side, width, top)], choice.RULE
    page = make_page(scene, rows, beam=width, rule=rule, history=history, ids=ids)
    _give(page, wanted_format, output, standalone=standalone)


def _format(text: str | None, output: Path | None, *, as_json: bool) -> str:
    """The format asked for; of a file's name where none is."""
    of_file = SUFFIXES.get(output.suffix.lower()) if output is not None else None
    asked = "json" if as_json else text.strip().lower() if text else None
    if asked is not None and asked not in FORMATS:
        raise UnknownName("format", asked, FORMATS)
    if of_file and asked and of_file != asked:
        raise UsageError(
            f"the file {str(output)!r} is {of_file} by its name, and {asked} was asked for", hint="change one of them"
        )
    return asked or of_file or "terminal"


def _groups(text: str | None, *, users: bool) -> tuple[Side, ...]:
    from genrec_unlearn_bench.evaluation.metric import Group as Side

    if text is not None and text not in SIDES:
        raise UnknownName("group", text, SIDES)
    if text is None:
        return (Side.FORGET, Side.RETAIN) if users else (Side.FORGET,)
    return (Side(text),)


def _beam(beam: int | None) -> int:
    from genrec_unlearn_bench.evaluation.ranking import BEAMS
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol

    if beam is None:
        return statistics_protocol().beam
    if beam not in BEAMS:
        raise UsageError(
            f"lists are kept at the beams {' and '.join(map(str, BEAMS))}, and --beam is {beam}",
            hint=" or ".join(f"--beam {known}" for known in BEAMS),
        )
    return beam


def _give(page: Page, name: str, output: Path | None, *, standalone: bool) -> None:
    if output is None and name == "json":
        print_json(page.model_dump(mode="json"))
        return
    if output is None and name == "terminal":
        from genrec_unlearn_bench.reporting.examples.render import draw

        draw(stdout(), page)
        return
    text = _text(page, name, standalone=standalone)
    if output is None:
        # No line break is added: a redirected file is the one that --output would write.
        print(text, end="")
        return
    from genrec_unlearn_bench.files import atomic_text

    atomic_text(output, text, "--output")
    print(output)


def _text(page: Page, name: str, *, standalone: bool) -> str:
    if name == "html":
        from genrec_unlearn_bench.reporting.examples.render import render_html

        return render_html(page)
    if name == "latex":
        from genrec_unlearn_bench.reporting.examples.render import render_latex

        return render_latex(page, standalone=standalone)
    if name == "json":
        return f"{page.model_dump_json(indent=2)}\n"
    from genrec_unlearn_bench.reporting.examples.render import render_terminal

    return render_terminal(page)
