"""``bench submission verify``: check a submission, run its demo cell again, and say which badge it has earned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, card, sheet
from genrec_unlearn_bench.cli.console import first_lines, progressing
from genrec_unlearn_bench.errors import UsageError

if TYPE_CHECKING:
    from genrec_unlearn_bench.submissions.bundle import Bundle
    from genrec_unlearn_bench.submissions.verification import DemoRun, Verification


def verify(
    path: Annotated[Path, Argument(help="A submission's folder or zip file, or a tree of results.")],
    demo: Annotated[
        bool | None,
        Option(
            "--demo/--no-demo",
            help="Run the demo cell again, which executes the submitted method (default: for submissions that pass).",
        ),
    ] = None,
    sandbox: options.Sandbox = True,
    write: Annotated[bool, Option("--write", help="Write verification.json into the folder.")] = False,
    leaderboard: Annotated[
        Path | None, Option(help="The leaderboard's folder to hold it against.", metavar="DIR")
    ] = None,
    cache_dir: options.CacheDir = None,
    threads: Annotated[int | None, Option(help="CPU threads of the demo (default: the record's).", min=1)] = None,
) -> Output:
    """Compute every aggregate again from the per-user tables, and check digests, manifests, invariants and rules.

    Reading a submission executes nothing of it. Running the demo cell executes its method, in a sandbox (bubblewrap),
    before any retrained model is made.
    Exit code 0: it passes. 1: it does not; every fault is listed with a hint.
    """
    from genrec_unlearn_bench.submissions.bundle import opened
    from genrec_unlearn_bench.submissions.verification import write_verification
    from genrec_unlearn_bench.submissions.verify import verify as examine

    if write and not path.is_dir():
        raise UsageError("--write needs a folder", where=str(path), hint="unpack the archive, or leave --write out")
    with opened(path, leaderboard) as bundle:
        found = examine(bundle, claims=not write)
        wanted = not bundle.is_tree if demo is None else demo
        if wanted and found.passed:
            found = found.with_demo(_run_demo(bundle, cache_dir, threads, sandbox=sandbox))
    holds = found.passed and (found.demo is None or found.demo.matches)
    if write and holds:
        write_verification(path, found)
    shown = _card(found, wanted=wanted)
    return Output(found.model_dump(mode="json"), [*shown.parts, *_faults(found)], exit_code=int(not holds))


def _run_demo(bundle: Bundle, cache_dir: Path | None, threads: int | None, *, sandbox: bool) -> DemoRun:
    from genrec_unlearn_bench.registry import methods
    from genrec_unlearn_bench.reproduce.repeat import Isolation, repeat_record
    from genrec_unlearn_bench.store.store import default_cache
    from genrec_unlearn_bench.submissions.record_checks import demo_results
    from genrec_unlearn_bench.submissions.verification import DemoRun

    results = demo_results(bundle)
    if not results:
        raise UsageError("there is no demo cell to run again", where=str(bundle.root), hint="use --no-demo")
    result = results[0]
    file = bundle.root / "method.py"
    submitted = result.record.cell.method not in methods() and file.is_file()
    isolated: Isolation | None = ("sandbox" if sandbox else "process") if submitted else None
    with progressing() as progress:
        done = repeat_record(
            result.record,
            method=str(file) if submitted else None,
            cache_dir=cache_dir or default_cache(),
            threads=threads,
            progress=progress,
            isolated=isolated,
        )
    differences = tuple(
        f"{row.metric} ({row.group.value}, beam {row.beam}): {row.then} submitted, {row.now} now"
        for row in done.rows
        if row.verdict == "differs"
    )
    return DemoRun(
        place=result.place,
        matches=done.matches,
        differences=differences[:20],
        sandboxed=isolated != "process",
        time_fault=done.time_fault,
    )


def _card(found: Verification, *, wanted: bool) -> Output:
    if not found.passed:
        verdict = f"refused: {len(found.faults)} faults, listed below"
    elif found.demo is not None and not found.demo.matches:
        verdict = "refused: the demo cell gives other numbers, listed below"
    else:
        verdict = "passes"
    demo = "not run, as the checks failed" if wanted else "not run"
    if found.demo is not None:
        demo = f"{found.demo.place}: {'the same numbers' if found.demo.matches else 'other numbers'}"
    rows = [
        ("verdict", verdict),
        ("badge", found.badge_text),
        ("results", str(found.results)),
        ("checks", f"{sum(check.passed for check in found.checks)} of {len(found.checks)} passed"),
        ("re-scored", f"{len(found.rescored)} metrics: {', '.join(found.rescored)}"),
        ("self-reported", f"{len(found.self_reported)} metrics that are not per user, or rest on what is withheld"),
        ("demo", demo),
        ("content", found.content_digest),
    ]
    if found.withheld:
        rows.append(("withheld", ", ".join(found.withheld)))
    rows += [("notice", notice) for notice in found.notices]
    return card(f"Submission {found.name}", None, sheets=[sheet(rows)])


def _faults(found: Verification) -> list[str]:
    lines = []
    for check in found.checks:
        lines += first_lines([f"\n{check.title}: no\n{fault.text()}" for fault in check.faults])
    return lines + [f"  {line}" for line in (found.demo.differences if found.demo is not None else ())]
