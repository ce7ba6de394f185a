"""``bench submission``: ``new`` makes one, ``verify`` checks it; ``publish`` and ``site`` make a leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, card, first_lines
from genrec_unlearn_bench.config import named
from genrec_unlearn_bench.errors import BenchError, UsageError
from genrec_unlearn_bench.files import atomic_folder
from genrec_unlearn_bench.progress_display import progressing
from genrec_unlearn_bench.registry import methods

if TYPE_CHECKING:
    from genrec_unlearn_bench.submissions.bundle import Bundle
    from genrec_unlearn_bench.submissions.submit import Submitted
    from genrec_unlearn_bench.submissions.verification import DemoRun, Verification

AffirmRules = Annotated[bool, Option("--affirm-rules", help="I have read leaderboard/RULES.md, and all of it holds.")]
Leaderboard = Annotated[Path | None, Option(help="The leaderboard's folder to hold it against.", metavar="DIR")]
SiteOf = Annotated[Path, Option(help="The leaderboard's folder.", metavar="DIR")]
SiteOut = Annotated[Path | None, Option(help="Where the site is written (default: site in it).", metavar="DIR")]
Withhold = Annotated[str, Option(help="Columns to leave out of the tables: similarity,influence,log-prob.")]
Check = Annotated[bool, Option("--check", help="Write nothing; exit 1 where a byte differs.")]


def new(
    name: Annotated[str, Argument(help="Name of the submission, and of its folder: letters, digits, hyphens.")],
    method: Annotated[str | None, Option("--method", help="Name, or path/to/file.py:Class (default: NAME).")] = None,
    results_dir: options.ResultsDir = Path("results"),
    out: Annotated[Path, Option(help="Where submissions lie.", metavar="DIR")] = Path("leaderboard/submissions"),
    title: Annotated[str | None, Option(help="What tables call the method.")] = None,
    author: Annotated[list[str] | None, Option("--author", help='"Name | Affiliation | ORCID"; repeat.')] = None,
    contact: Annotated[str | None, Option(help="Mail address or link.")] = None,
    licence: Annotated[str | None, Option(help="SPDX id, as Apache-2.0.")] = None,
    paper: Annotated[str | None, Option("--paper", help='"Title | https link".')] = None,
    code: Annotated[str | None, Option(help="https link of the code.")] = None,
    deviation: Annotated[list[str] | None, Option("--deviation", help="A difference from the paper; repeat.")] = None,
    task: Annotated[list[str] | None, Option("--task", help="Only these tasks; repeat.")] = None,
    ruleset: Annotated[list[str] | None, Option("--ruleset", help="Only these rulesets; repeat.")] = None,
    withhold: Withhold = "",
    affirm_rules: AffirmRules = False,
    leaderboard: Leaderboard = None,
) -> Output:
    """Gather a method's results, strip users, items and paths, and check what `bench submission verify` checks.

    Nothing is written unless everything passes. Calling it again renews the results and keeps your words, given here or
    written into submission.yaml. Written beside the folder: the same as a zip file.
    """
    from genrec_unlearn_bench.submissions.bundle import pack
    from genrec_unlearn_bench.submissions.submit import submit

    given = {"title": title, "contact": contact, "licence": licence, "code": code, "deviations": deviation}
    words: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    words |= {"authors": [_parts(one, "name", "affiliation", "orcid") for one in author]} if author else {}
    words |= {"paper": _parts(paper, "title", "url")} if paper else {}
    done = submit(
        name,
        method or name,
        results_dir=results_dir,
        out=out,
        leaderboard=leaderboard,
        withhold=named([withhold]),
        tasks=task or (),
        rulesets=ruleset or (),
        words=words,
        affirm=affirm_rules,
    )
    archive = out / f"{name}.zip"
    pack(done.folder, archive)
    return _submitted(done, {"folder": str(done.folder), "archive": str(archive)})


def _parts(text: str, *fields: str) -> dict[str, str]:
    """What stands between bars, by field; empty parts are left out."""
    parts = [part.strip() for part in text.split("|", len(fields) - 1)]
    return {field: part for field, part in zip(fields, parts, strict=False) if part}


def _submitted(done: Submitted, paths: dict[str, str]) -> Output:
    size = sum(path.stat().st_size for path in done.folder.rglob("*") if path.is_file())
    tasks = sorted({record.cell.task for record in done.records})
    checked = done.verification
    absent = [field for field in ("paper", "code") if getattr(done.spec, field) is None]
    steps = [f"add {' and '.join(absent)} to submission.yaml, if there are any"] if absent else []
    steps.append(f"bench submission verify {done.folder} --demo --write")
    steps.append("commit the folder and open a pull request")
    view: dict[str, Any] = {
        "folder": f"{done.folder} ({size / 1024:.0f} KiB)",
        "results": f"{len(done.records)} on {', '.join(tasks)}",
        "seeds": done.spec.seeds,
        "checks": f"{len(checked.checks)} passed; badge so far: {checked.badge.value}",
        "re-scored": f"{len(checked.rescored)} metrics from the per-user tables",
        "archive": paths["archive"],
        "withheld": f"{', '.join(checked.withheld)} (stays self-reported)" if checked.withheld else "",
        "passed over": f"{done.passed_over} results of another version of the method's file" * bool(done.passed_over),
        "notices": checked.notices,
        "left to do": [f"{number}. {step}" for number, step in enumerate(steps, start=1)],
    }
    counts = {"results": len(done.records), "passed_over": done.passed_over}
    content = {**paths, **counts, "verification": checked.model_dump(mode="json")}
    return card(f"Submission {done.spec.name}", content, view=view)


def publish(
    results_dir: Annotated[Path, Argument(help="Folder of results.", metavar="RESULTS_DIR")],
    out: Annotated[Path, Option(help="Where published results lie.", metavar="DIR")] = Path("leaderboard/results"),
    withhold: Withhold = "",
) -> Output:
    """Write results of any rows in their published form, beside those that are there already.

    For whoever keeps a leaderboard, or a tree of results that others fetch. A method is submitted with `bench
    submission new`.
    """
    from genrec_unlearn_bench.reporting.results import load_results
    from genrec_unlearn_bench.submissions.publish import publish_results

    load_results([results_dir])  # Every fault is named before anything is written.
    done = publish_results(results_dir, out, withhold=named([withhold]))
    tasks = ", ".join(sorted({record.cell.task for record in done}))
    steps = [f"bench submission verify {out} --no-demo --write", "bench submission site"]
    content = {"folder": str(out), "results": len(done)}
    return card(
        f"{len(done)} results published", content, view={"folder": str(out), "tasks": tasks, "left to do": steps}
    )


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
    leaderboard: Leaderboard = None,
    cache_dir: options.CacheDir = None,
    threads: Annotated[int | None, Option(help="CPU threads of the demo (default: the record's).", min=1)] = None,
) -> Output:
    """Compute every aggregate again from the per-user tables, and check digests, manifests, invariants and rules.

    Reading a submission executes nothing of it. Running the demo cell executes its method, in a sandbox (bubblewrap),
    before any retrained model is made.
    Exit code 0: it passes. 1: it does not; every fault is listed with a hint.
    """
    from genrec_unlearn_bench.submissions.bundle import opened
    from genrec_unlearn_bench.submissions.verification import verify as examine
    from genrec_unlearn_bench.submissions.verification import write_verification

    if write and path.is_file():
        raise UsageError("--write needs a folder", where=str(path), hint="unpack the archive, or leave --write out")
    with opened(path, leaderboard) as bundle:
        found = examine(bundle, claims=not write)
        wanted = not bundle.is_tree if demo is None else demo
        if wanted and found.passed:
            found = found.with_demo(_run_demo(bundle, cache_dir, threads, sandbox=sandbox))
    holds = found.passed and (found.demo is None or found.demo.matches)
    if write and holds:
        write_verification(path, found)
    return _verified(found, wanted=wanted, holds=holds)


def site(leaderboard: SiteOf = Path("leaderboard"), out: SiteOut = None, check: Check = False) -> Output:
    """Make the pages and tables of all published results and submissions.

    The same results give the same bytes on every machine, so whoever doubts a page can make it again.
    """
    from genrec_unlearn_bench.reporting.outputs import SITE, differences, site_files
    from genrec_unlearn_bench.submissions.result_set import load_published

    results = [one for part in load_published(leaderboard) for one in part.results]
    files = site_files(results, root=leaderboard)
    place = out or leaderboard / SITE
    counted = {"folder": str(place), "files": len(files), "results": len(results)}
    if check:
        if found := differences(files, place):
            listing = "".join(f"\n  - {line}" for line in found)
            raise BenchError(
                f"the published site is not what its results make:{listing}",
                where=str(place),
                hint="make it again with `bench submission site` and look at what has changed",
            )
        return Output(counted, [f"{place}: {len(files)} files, as {len(results)} results make them"])
    if place.is_dir() and any(place.iterdir()) and not (place / "index.html").is_file():
        raise UsageError(f"{place} holds no site, and would be replaced", hint="name a new folder (--out DIR)")
    with atomic_folder(place, "--out", replace=True) as draft:
        for name, content in files.items():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_bytes(content)
    return Output(counted, [f"{place}: {len(files)} files from {len(results)} results"])


def _run_demo(bundle: Bundle, cache_dir: Path | None, threads: int | None, *, sandbox: bool) -> DemoRun:
    from genrec_unlearn_bench.reproduce.repeat import repeat_record
    from genrec_unlearn_bench.submissions.record_checks import demo_results
    from genrec_unlearn_bench.submissions.verification import DemoRun

    results = demo_results(bundle)
    if not results:
        raise UsageError("there is no demo cell to run again", where=str(bundle.root), hint="use --no-demo")
    record, file = results[0].record, bundle.root / "method.py"
    submitted = record.cell.method not in methods() and file.is_file()
    with progressing() as progress:
        done = repeat_record(
            record,
            method=str(file) if submitted else None,
            cache_dir=options.cache_root(cache_dir),
            threads=threads,
            progress=progress,
            sandboxed=sandbox if submitted else None,
        )
    differences = [
        f"{row.metric} ({row.group.value}, beam {row.beam}): {row.then} submitted, {row.now} now"
        for row in done.rows
        if row.verdict == "differs"
    ]
    return DemoRun(
        place=results[0].place,
        matches=done.matches,
        differences=tuple(differences[:20]),
        sandboxed=sandbox or not submitted,
        time_fault=done.time_fault,
    )


def _verified(found: Verification, *, wanted: bool, holds: bool) -> Output:
    verdict = "passes" if holds else "refused: the demo cell gives other numbers, listed below"
    if not found.passed:
        verdict = f"refused: {len(found.faults)} faults, listed below"
    demo = "not run, as the checks failed" if wanted else "not run"
    if found.demo is not None:
        demo = f"{found.demo.place}: {'the same numbers' if found.demo.matches else 'other numbers'}"
    view = {
        "verdict": verdict,
        "badge": found.badge_text,
        "results": str(found.results),
        "checks": f"{sum(not faults for faults in found.checks.values())} of {len(found.checks)} passed",
        "re-scored": f"{len(found.rescored)} metrics: {', '.join(found.rescored)}",
        "self-reported": f"{len(found.self_reported)} metrics that are not per user, or rest on what is withheld",
        "demo": demo,
        "content": found.content_digest,
        "withheld": ", ".join(found.withheld),
        "notice": "\n".join(found.notices),
    }
    lines = []
    for name, faults in found.checks.items():
        lines += first_lines([f"\n{name}: {fault.text()}" for fault in faults])
    lines += [f"  {line}" for line in (found.demo.differences if found.demo is not None else ())]
    shown = card(f"Submission {found.name}", None, view=view)
    return Output(found.model_dump(mode="json"), [*shown.parts, *lines], exit_code=int(not holds))
