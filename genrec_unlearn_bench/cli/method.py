"""For authors of methods: ``bench new`` writes the first files, ``bench check`` tries the contract on the demo."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.console import handled, print_json, progressing, stdout
from genrec_unlearn_bench.cli.options import examples
from genrec_unlearn_bench.config import named, overrides
from genrec_unlearn_bench.errors import UsageError

if TYPE_CHECKING:
    from genrec_unlearn_bench.contract.rules import CheckReport, RuleResult

__all__ = ["check", "new"]

SIGNS = {"kept": "✓", "broken": "✗", "left out": "–"}


@handled
def check(
    method: Annotated[
        str, Argument(help="path/to/file.py, path/to/file.py:Class, or a name.", metavar="FILE[:CLASS]|NAME")
    ],
    backbone: Annotated[
        list[str] | None, Option(help="Try these backbones beside TIGER; commas or repeated (default: all).")
    ] = None,
    set_: Annotated[
        list[str] | None,
        Option("--set", help="Change a field of the method's configuration, to shorten it: max_steps=2."),
    ] = None,
    cache_dir: options.CacheDir = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Check that a method keeps its contract: on the demo, on one thread, in about a minute.

    The file and its configuration are read, then the method is called for a few steps on the smallest recommenders
    there are: each kind of request, each backbone, twice with one seed. Exit code 1 where a rule is broken.
    """
    from genrec_unlearn_bench.contract.check import check_method
    from genrec_unlearn_bench.store.store import default_cache

    with progressing() as progress:
        checked = check_method(
            method,
            cache_dir=cache_dir or default_cache(),
            progress=progress,
            fields=overrides(set_ or []),
            on=None if backbone is None else named(backbone),
        )
    if as_json:
        print_json({**checked.model_dump(mode="json"), "sound": checked.sound})
    else:
        _draw(checked)
    if not checked.sound:
        raise typer.Exit(1)


def _draw(checked: CheckReport) -> None:
    console = stdout()
    console.print(f"{checked.method} ({checked.file})", style="bold", soft_wrap=True)
    for finding in checked.findings:
        console.print(_line(finding), soft_wrap=True)
        if finding.status == "broken":
            for reason in finding.reasons:
                console.print(f"      {reason}", soft_wrap=True)
            console.print(f"      hint: {finding.hint}", soft_wrap=True)
    counts = [f"{sum(part.status == status for part in checked.findings)} {status}" for status in SIGNS]
    verdict = "the contract holds" if checked.sound else "not yet"
    console.print(f"\n{', '.join(counts)}, in {checked.seconds:.0f} s: {verdict}")


def _line(finding: RuleResult) -> str:
    seen = f"  ({'; '.join(finding.reasons)})" if finding.reasons and finding.status != "broken" else ""
    return f"  {SIGNS[finding.status]} {finding.title}{seen}"


new = typer.Typer(help="Write the first files of a method.", no_args_is_help=True)


@new.callback()
def _group() -> None:
    """Write the first files of a method."""


@new.command("method", epilog=examples("bench new method my-method", "bench new method my-method --dir ~/my-methods"))
@handled
def method(
    name: Annotated[str, Argument(help="Name of the method, as in my-method.")],
    dir_: Annotated[
        Path | None,
        Option(
            "--dir",
            help="Folder for both files (default: methods/ and tests/methods/ inside a clone, else this folder).",
            metavar="DIR",
        ),
    ] = None,
    in_tree: Annotated[bool, Option("--in-tree", help="Into the clone, wherever this is called from.")] = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Write one method file and one test, which pass as they are.

    Nothing is overwritten.
    """
    from genrec_unlearn_bench.contract.new_method import clone_root, new_method

    if dir_ is not None and in_tree:
        raise UsageError("--dir and --in-tree say two places", hint="leave one of them out")
    root = clone_root()
    inside = in_tree or (dir_ is None and root is not None and Path.cwd().is_relative_to(root))
    written = new_method(name, folder=dir_, in_tree=inside, year=datetime.now(UTC).year)
    if as_json:
        print_json({"method": str(written.method), "test": str(written.test), "option": written.method_option})
        return
    console = stdout()
    for line in (
        f"{written.method}: the method; begin with its docstring",
        f"{written.test}: its test; add a fact that a lookalike fails",
        "",
        "next:",
        f"  bench check {written.method_option}",
        f"  bench run --task demo-brand --method {written.method_option}",
    ):
        console.print(line, soft_wrap=True)
