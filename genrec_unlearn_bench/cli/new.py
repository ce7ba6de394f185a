"""``bench new``: the first files of something one wants to add."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.console import handled, print_json, stdout
from genrec_unlearn_bench.cli.options import examples
from genrec_unlearn_bench.errors import UsageError

__all__ = ["app"]

app = typer.Typer(help="Write the first files of a method.", no_args_is_help=True)


@app.callback()
def new() -> None:
    """Write the first files of a method."""


@app.command("method", epilog=examples("bench new method my-method", "bench new method my-method --dir ~/my-methods"))
@handled
def method(
    name: Annotated[str, typer.Argument(help="Name of the method, as in my-method.")],
    dir_: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="Folder for both files (default: methods/ and tests/methods/ inside a clone, else this folder).",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    in_tree: Annotated[bool, typer.Option("--in-tree", help="Into the clone, wherever this is called from.")] = False,
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
