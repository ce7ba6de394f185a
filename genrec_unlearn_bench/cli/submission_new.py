"""``bench submission new``: a method's results as a folder for the leaderboard, an archive and a text to send."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, card
from genrec_unlearn_bench.config import named

if TYPE_CHECKING:
    from genrec_unlearn_bench.submissions.submit import Submitted

Name = Annotated[str, Argument(help="Name of the submission, and of its folder: letters, digits, hyphens.")]
MethodName = Annotated[str | None, Option("--method", help="Name, or path/to/file.py:Class (default: NAME).")]
Out = Annotated[Path, Option(help="Where submissions lie.", metavar="DIR")]
Title = Annotated[str | None, Option(help="What tables call the method.")]
Authors = Annotated[list[str] | None, Option("--author", help='"Name | Affiliation | ORCID"; repeat.')]
Contact = Annotated[str | None, Option(help="Mail address or link.")]
Licence = Annotated[str | None, Option(help="SPDX id, as Apache-2.0.")]
PaperText = Annotated[str | None, Option("--paper", help='"Title | https link".')]
Code = Annotated[str | None, Option(help="https link of the code.")]
Deviations = Annotated[list[str] | None, Option("--deviation", help="A difference from the paper; repeat.")]
Tasks = Annotated[list[str] | None, Option("--task", help="Only these tasks; repeat.")]
Rulesets = Annotated[list[str] | None, Option("--ruleset", help="Only these rulesets; repeat.")]
Withhold = Annotated[str, Option(help="Columns to leave out of the tables: similarity,influence,log-prob.")]
AffirmRules = Annotated[bool, Option("--affirm-rules", help="I have read leaderboard/RULES.md, and all of it holds.")]
PrText = Annotated[Path | None, Option(help="For the pull request's text (default: beside it).", metavar="FILE")]
Leaderboard = Annotated[Path | None, Option(help="The leaderboard's folder to hold it against.", metavar="DIR")]


def new(
    name: Name,
    method: MethodName = None,
    results_dir: options.ResultsDir = Path("results"),
    out: Out = Path("leaderboard/submissions"),
    title: Title = None,
    author: Authors = None,
    contact: Contact = None,
    licence: Licence = None,
    paper: PaperText = None,
    code: Code = None,
    deviation: Deviations = None,
    task: Tasks = None,
    ruleset: Rulesets = None,
    withhold: Withhold = "",
    affirm_rules: AffirmRules = False,
    pr_text: PrText = None,
    leaderboard: Leaderboard = None,
) -> Output:
    """Gather a method's results, strip users, items and paths, and check what `bench submission verify` checks.

    Nothing is written unless everything passes. Calling it again renews the results and keeps your words, given here or
    written into submission.yaml. Written beside the folder: the same as a zip file, and the pull request's text.
    """
    from genrec_unlearn_bench.files import atomic_text
    from genrec_unlearn_bench.submissions import submit as submissions
    from genrec_unlearn_bench.submissions.inventory import pack
    from genrec_unlearn_bench.submissions.submit import pull_request

    words: dict[str, Any] = {
        "title": title,
        "authors": [_author(one) for one in author] if author else None,
        "contact": contact,
        "licence": licence,
        "paper": _paper(paper) if paper else None,
        "code": code,
        "deviations": deviation,
    }
    done = submissions.submit(
        submissions.SubmitRequest(
            name=name,
            method=method or name,
            results_dir=results_dir,
            out=out,
            leaderboard=leaderboard,
            withhold=named([withhold]),
            tasks=tuple(task or ()),
            rulesets=tuple(ruleset or ()),
            words={field: value for field, value in words.items() if value is not None},
            affirm=affirm_rules,
        )
    )
    archive, text = out / f"{name}.zip", pr_text or out / f"{name}.PULL_REQUEST.md"
    pack(done.folder, archive)
    atomic_text(text, pull_request(done.spec, done.records, done.verification), "--pr-text")
    return _card(done, archive, text)


def _author(text: str) -> dict[str, str]:
    parts = [part.strip() for part in text.split("|")]
    return {field: part for field, part in zip(("name", "affiliation", "orcid"), parts, strict=False) if part}


def _paper(text: str) -> dict[str, str]:
    title, _, url = (part.strip() for part in text.partition("|"))
    return {"title": title, **({"url": url} if url else {})}


def _card(done: Submitted, archive: Path, text: Path) -> Output:
    size = sum(path.stat().st_size for path in done.folder.rglob("*") if path.is_file())
    tasks = sorted({record.cell.task for record in done.records})
    checked = done.verification
    view: dict[str, Any] = {
        "folder": f"{done.folder} ({'renewed' if done.renewed else 'new'}, {size / 1024:.0f} KiB)",
        "results": f"{len(done.records)} on {', '.join(tasks)}",
        "seeds": done.spec.seeds,
        "checks": f"{len(checked.checks)} passed; badge so far: {checked.badge.value}",
        "re-scored": f"{len(checked.rescored)} metrics from the per-user tables",
        "archive": str(archive),
        "pull request": str(text),
        "withheld": f"{', '.join(checked.withheld)} (stays self-reported)" if checked.withheld else "",
        "passed over": f"{done.passed_over} results of another version of the method's file" * bool(done.passed_over),
        "notices": checked.notices,
    }
    absent = [field for field in ("paper", "code") if getattr(done.spec, field) is None]
    left = [f"add {' and '.join(absent)} to submission.yaml, if there are any"] if absent else []
    left += [
        f"bench submission verify {done.folder} --demo --write",
        "commit the folder and open a pull request with the text",
    ]
    view["left to do"] = [f"{number}. {step}" for number, step in enumerate(left, start=1)]
    content = {
        "folder": str(done.folder),
        "archive": str(archive),
        "pull_request": str(text),
        "results": len(done.records),
        "passed_over": done.passed_over,
        "verification": checked.model_dump(mode="json"),
    }
    return card(f"Submission {done.spec.name}", content, view=view)
