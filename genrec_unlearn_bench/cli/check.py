"""``bench check``: the contract of an unlearning method, tried on the demo, for the one who writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.console import handled, print_json, progressing, stdout
from genrec_unlearn_bench.config import named, overrides

if TYPE_CHECKING:
    from genrec_unlearn_bench.contract.rules import CheckReport, RuleResult

__all__ = ["check"]

SIGNS = {"kept": "✓", "broken": "✗", "left out": "–"}


@handled
def check(
    method: Annotated[
        str, typer.Argument(help="path/to/file.py, path/to/file.py:Class, or a name.", metavar="FILE[:CLASS]|NAME")
    ],
    backbone: Annotated[
        list[str] | None,
        typer.Option(help="Try these backbones beside TIGER; commas or repeated (default: all)."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a field of the method's configuration, to shorten it: max_steps=2."),
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
    counts = {sign: sum(SIGNS[part.status] == sign for part in checked.findings) for sign in SIGNS.values()}
    told = f"{counts['✓']} kept, {counts['✗']} broken, {counts['–']} left out, in {checked.seconds:.0f} s"
    console.print(f"\n{told}: {'the contract holds' if checked.sound else 'not yet'}")


def _line(finding: RuleResult) -> str:
    seen = f"  ({'; '.join(finding.reasons)})" if finding.reasons and finding.status != "broken" else ""
    return f"  {SIGNS[finding.status]} {finding.title}{seen}"
