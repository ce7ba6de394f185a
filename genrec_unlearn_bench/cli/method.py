"""``bench method``: ``new`` writes the first files of a method, ``check`` tries its contract on the demo."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.config import named, overrides
from genrec_unlearn_bench.progress_display import progressing

SIGNS = {"kept": "✓", "broken": "✗", "left out": "–"}


def check(
    method: Annotated[
        str, Argument(help="path/to/file.py, path/to/file.py:Class, or a name.", metavar="FILE[:CLASS]|NAME")
    ],
    backbone: Annotated[list[str] | None, Option(help="Try these backbones beside TIGER (default: all).")] = None,
    set_: Annotated[list[str] | None, Option("--set", help="Shorten the method: max_steps=2.")] = None,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Check that a method keeps its contract: on the demo, on one thread, in about a minute.

    The file and its configuration are read, then the method is called for a few steps on the smallest recommenders
    there are: each kind of request, each backbone, twice with one seed. Exit code 1 where a rule is broken.
    """
    from genrec_unlearn_bench.contract.check import check_method

    with progressing() as progress:
        checked = check_method(
            method,
            cache_dir=options.cache_root(cache_dir),
            progress=progress,
            fields=overrides(set_ or []),
            on=None if backbone is None else named(backbone),
        )
    counts = [f"{sum(part.status == status for part in checked.findings)} {status}" for status in SIGNS]
    verdict = "the contract holds" if checked.sound else "not yet"
    lines = [f"{checked.method} ({checked.file})"]
    for part in checked.findings:
        reasons = f"  ({'; '.join(part.reasons)})" if part.reasons and part.status != "broken" else ""
        lines.append(f"  {SIGNS[part.status]} {part.rule}{reasons}")
        if part.status == "broken":
            lines += [*(f"      {reason}" for reason in part.reasons), f"      hint: {part.hint}"]
    lines += ["", f"{', '.join(counts)}, in {checked.seconds:.0f} s: {verdict}"]
    content = {**checked.model_dump(mode="json"), "sound": checked.sound}
    return Output(content, lines, exit_code=int(not checked.sound))


def new(
    name: Annotated[str, Argument(help="Name of the method, as in my-method.")],
    out: Annotated[
        Path | None,
        Option(help="Folder for both files (default: their places in a clone, else this folder).", metavar="DIR"),
    ] = None,
) -> Output:
    """Write one method file and one test, which pass as they are.

    Nothing is overwritten.
    """
    from genrec_unlearn_bench.contract.new_method import clone_root, new_method

    root = clone_root()
    inside = out is None and root is not None and Path.cwd().is_relative_to(root)
    written = new_method(name, folder=out, root=root if inside else None, year=datetime.now(UTC).year)
    content = {"method": str(written.method), "test": str(written.test), "option": written.method_option}
    lines = [
        f"{written.method}: the method; begin with its docstring",
        f"{written.test}: its test; add a fact that a lookalike fails",
        "next:",
        f"  bench method check {written.method_option}",
        f"  bench run --task demo-brand --method {written.method_option}",
    ]
    return Output(content, lines)
