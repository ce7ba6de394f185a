"""``bench results examples``: side-by-side top-10 lists of the original, its oracle and methods, for some users."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import AsJson
from genrec_unlearn_bench.cli.console import open_store, print_json, print_line, stdout
from genrec_unlearn_bench.cli.run import check_beam
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import UsageError

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.metric import Group as Side
    from genrec_unlearn_bench.reporting.examples.page import Page

FORMATS = ("terminal", "html", "latex", "json")
SIDES = ("forget", "retain")

Seed = Annotated[int | None, Option(help="Training seed.", min=0, show_default="the lowest of all rows")]
Requests = Annotated[int, Option(help="Of streams: into how many requests the forget set was divided.", min=1)]
Top = Annotated[int, Option(help="How many of the most changed users to show.", min=1, max=100)]
Users = Annotated[list[int] | None, Option(help="Show these users (their numbers in per_user.parquet) instead.")]
Group = Annotated[str | None, Option(help="forget or retain.", show_default="forget; with --user, both")]
History = Annotated[int, Option(help="How many of the last items of a history to show.", min=0, max=50)]
Ids = Annotated[bool, Option("--ids", help="Name users and items by their ids, too.")]
Format = Annotated[str | None, Option("--format", help="terminal, html, latex or json.", show_default="terminal")]
Out = Annotated[Path | None, Option(help="File to write to; stdout without.", metavar="FILE")]


def examples(
    task: options.TaskNames = None,
    method: options.MethodNames = None,
    seed: Seed = None,
    top: Top = 5,
    user: Users = None,
    group: Group = None,
    history: History = 5,
    ids: Ids = False,
    format_: Format = None,
    out: Out = None,
    standalone: options.Standalone = False,
    results_dir: options.ResultsDirs = None,
    protocol: options.Protocol = None,
    backbone: options.BackboneNames = None,
    scale: options.ScaleNames = None,
    ruleset: options.RulesetNames = None,
    suite: options.SuiteNames = None,
    requests: Requests = 1,
    beam: options.ListBeam = None,
    cache_dir: options.CacheDir = None,
    skip_broken: options.SkipBroken = False,
    as_json: AsJson = False,
) -> None:
    """Show top-10 lists side by side: the original's, its oracle's and methods', with what is to be forgotten marked.

    Shown are the users whose lists the methods changed most, or those named. As histories are personal data, ids are
    left out unless --ids asks for them. Lists lie in the cache that the runs were made with.
    """
    formats = options.chosen_formats("json" if as_json else format_, out, FORMATS)
    if len(formats) > 1:
        raise UsageError("examples are written in one format at a time", hint="make one call for each")
    if beam is not None:
        check_beam(beam)
    groups = _groups(group, users=bool(user))
    from genrec_unlearn_bench.reporting.examples import scene as choice
    from genrec_unlearn_bench.reporting.examples.page import make_page
    from genrec_unlearn_bench.reporting.examples.scene import of_requests, set_scene, side_by_side

    found = options.read_results(results_dir, skip_broken=skip_broken, protocol=protocol)
    width = beam or found.protocol.beam
    found = replace(found, results=tuple(of_requests(found.results, requests)))
    wanted = options.selection(task, backbone, None, ruleset, scale, suite)
    chosen = side_by_side(found.board(wanted), found.protocol, methods=named(method), seed=seed)
    with open_store(cache_dir) as (store, _):
        scene = set_scene(chosen, store)
    if user:
        rows, rule = choice.of_users(scene, user, groups), choice.NAMED
    else:
        (side,) = groups
        rows, rule = [(side, int(row)) for row in choice.most_changed(scene, side, width, top)], choice.RULE
    page = make_page(scene, rows, beam=width, rule=rule, history=history, ids=ids)
    _give(page, formats[0], out, standalone=standalone)


def _groups(text: str | None, *, users: bool) -> tuple[Side, ...]:
    from genrec_unlearn_bench.evaluation.metric import Group as Side

    if text is None:
        return (Side.FORGET, Side.RETAIN) if users else (Side.FORGET,)
    return (Side(one_of("group", text, SIDES)),)


def _give(page: Page, name: str, out: Path | None, *, standalone: bool) -> None:
    from genrec_unlearn_bench.files import atomic_text
    from genrec_unlearn_bench.reporting.examples import render

    if out is None and name == "terminal":
        render.draw(stdout(), page)
    elif out is None and name == "json":
        print_json(page.model_dump(mode="json"))
    else:
        text = {
            "html": lambda: render.render_html(page),
            "latex": lambda: render.render_latex(page, standalone=standalone),
            "json": lambda: f"{page.model_dump_json(indent=2)}\n",
            "terminal": lambda: render.render_terminal(page),
        }[name]()
        if out is None:
            # No line break is added: a redirected file is the one that --out would write.
            print(text, end="")
        else:
            atomic_text(out, text, "--out")
            print_line(str(out))
