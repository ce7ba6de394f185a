"""Puts a submission together: gathers results, publishes them, and checks all that ``bench submission verify`` will.

The folder is written whole or not at all. What the authors wrote into an earlier submission.yaml is kept.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.config import StrictModel, parse
from genrec_unlearn_bench.errors import BenchError, ConfigError, UsageError
from genrec_unlearn_bench.files import atomic_folder, file_digest
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import read_record
from genrec_unlearn_bench.registry import Entry, find_method, source_digest, source_file
from genrec_unlearn_bench.reporting.results import find_records
from genrec_unlearn_bench.submissions.bundle import load
from genrec_unlearn_bench.submissions.publish import MANIFESTS, publish_manifest, publish_result
from genrec_unlearn_bench.submissions.record_checks import demo_tasks
from genrec_unlearn_bench.submissions.spec import (
    METHOD_FILE,
    SLUG,
    SPEC,
    STATEMENTS,
    Submission,
    parse_submission,
    read_spec,
    submission_text,
)
from genrec_unlearn_bench.submissions.verification import Verification
from genrec_unlearn_bench.submissions.verify import verify

_SHOWN = 12
_NEEDED = {
    "title": 'what the method is called in tables (--title "…")',
    "authors": 'who submits it (--author "Name | Affiliation | ORCID", repeated)',
    "contact": "a mail address or link for questions (--contact)",
    "licence": "SPDX id of the method's licence (--licence Apache-2.0)",
    "affirmed": "read leaderboard/RULES.md, and affirm its statements (--affirm-rules)",
}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$])")
_MENTION = "@\u200b"
"""An @ that calls nobody: where pull requests are shown, a backslash does not keep it from that."""


class SubmitRequest(StrictModel):
    """One call of ``bench submission new``; a field that is None stays as an earlier submission.yaml has it."""

    name: str
    """The submission's name, and its folder's."""
    method: str
    """Name of a method, or ``path/to/file.py:Class``."""
    results_dir: Path
    """Results of ``bench run``."""
    out: Path
    """Where submissions lie; the folder ``name`` is made in it."""
    leaderboard: Path | None = None
    """The leaderboard's folder to hold it against; the installation's where none is given."""
    withhold: tuple[str, ...] = ()
    """Column families that the tables leave out."""
    tasks: tuple[str, ...] = ()
    """Only these tasks; all where none is named."""
    rulesets: tuple[str, ...] = ()
    """Only these rulesets; all where none is named."""
    words: dict[str, Any] = Field(default_factory=dict)
    """Fields of submission.yaml that the call gives."""
    affirm: bool = False
    """Whether every statement of RULES.md is affirmed by this call."""


@dataclass(frozen=True, eq=False)
class Submitted:
    folder: Path
    spec: Submission
    records: tuple[RunRecord, ...]
    verification: Verification
    passed_over: int
    """Results of the method that were made with another version of its source."""
    renewed: bool
    """Whether there was an earlier submission of the name."""


def submit(request: SubmitRequest) -> Submitted:
    """Gather, publish, check and write.

    Raises:
        UsageError: There are no results, or words that submission.yaml needs are missing (all are named at once).
        Refused: The submission.yaml of before cannot be read.
        BenchError: The submission would not pass ``bench submission verify``; nothing was written.
        StorageError: The file system refuses.
    """
    if not SLUG.match(request.name):
        raise UsageError(
            f"{request.name!r} is no name for a submission",
            hint="use lower-case letters and digits, and hyphens between",
        )
    entry = find_method(request.method)
    if entry.kind == "reference":
        raise UsageError(f"{entry.name!r} is a reference row, which every table has", hint="submit a method")
    source = source_file(entry)
    if source is None:
        raise UsageError(f"the method {entry.name!r} has no file to submit", hint="give its file: --method file.py")
    target = request.out / request.name
    earlier = read_spec(target)
    found, passed_over = _results(request, entry)
    with tempfile.TemporaryDirectory(prefix="bench-submit-") as place:
        draft = Path(place) / request.name
        records = tuple(publish_result(*one, draft / "results", withhold=request.withhold) for one in found)
        for task, folder in {record.cell.task: folder for folder, record in found}.items():
            publish_manifest(folder, task, draft / MANIFESTS)
        shutil.copyfile(source, draft / METHOD_FILE)
        spec = _spec(request, entry, earlier, records, draft)
        (draft / SPEC).write_text(submission_text(spec), encoding="utf-8")
        verification = verify(load(draft, request.leaderboard))
        if not verification.passed:
            faults = verification.faults
            listing = "".join(f"\n- {fault.text()}" for fault in faults[:_SHOWN])
            more = f"\n… and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
            what = "the submission would not pass `bench submission verify`, and was not written"
            raise BenchError(f"{what}:{listing}{more}", where=str(target))
        with atomic_folder(target, "--out", replace=True) as final:
            shutil.copytree(draft, final, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return Submitted(target, spec, records, verification, passed_over, earlier is not None)


def _results(request: SubmitRequest, entry: Entry) -> tuple[list[tuple[Path, RunRecord]], int]:
    """Folders and records of this version of the method's file, and the number of results of other versions."""
    every = []
    for path in find_records(request.results_dir) if request.results_dir.is_dir() else ():
        record = read_record(path.parent)
        named = not request.tasks or record.cell.task in request.tasks
        allowed = not request.rulesets or record.cell.ruleset in request.rulesets
        if record.cell.method == entry.name and named and allowed:
            every.append((path.parent, record))
    digest = source_digest(entry)
    found = [one for one in every if one[1].method_digest == digest]
    if not found:
        what = f"there is no result of the method {entry.name!r}"
        if every:
            what = f"all {len(every)} results of {entry.name!r} were made with another version of its file"
        hint = f"bench run --task demo-brand --method {request.method} --results-dir {request.results_dir}"
        raise UsageError(what, where=str(request.results_dir), hint=hint)
    return found, len(every) - len(found)


def _spec(
    request: SubmitRequest, entry: Entry, earlier: Submission | None, records: Sequence[RunRecord], draft: Path
) -> Submission:
    """The words of before and of this call, with everything that follows from the results."""
    words: dict[str, Any] = earlier.model_dump(mode="json", exclude_none=True) if earlier is not None else {}
    tuning = {**words.get("tuning", {}), **request.words.get("tuning", {})}
    trials = max(record.cost.tuning_trials for record in records)
    tuning["space"] = "declared" if trials > 1 else tuning.get("space", "none")
    files = sorted(path for path in draft.rglob("*") if path.is_file())
    others = [record for record in records if record.cell.task not in demo_tasks()]
    words = {
        **words,
        **request.words,
        "protocol_version": PROTOCOL_VERSION,
        "name": request.name,
        "method": {"name": entry.name, "file": METHOD_FILE},
        "rulesets": sorted({record.cell.ruleset for record in records}),
        "tuning": tuning,
        "seeds": sorted({record.cell.seed for record in others or records}),
        "contents": {path.relative_to(draft).as_posix(): file_digest(path) for path in files},
    }
    if request.affirm:
        words["affirmed"] = list(STATEMENTS)
    missing = [name for name in _NEEDED if not words.get(name)]
    if missing:
        raise ConfigError(
            [f"{name}: {_NEEDED[name]}" for name in missing],
            where=str(request.out / request.name / SPEC),
            hint="give them once; later calls keep them",
        )
    return parse_submission(submission_text(parse(Submission, words, where=SPEC)).encode())


def pull_request(spec: Submission, records: Sequence[RunRecord], verification: Verification) -> str:
    """Markdown. What the authors wrote is escaped, so that it shows as they wrote it and does nothing."""
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 - Markdown, escaped by the filter ``plain``
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"plain": plain, "quoted": quoted}
    place = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / "submission" / "pull_request.md"
    return environment.from_string(place.read_text(encoding="utf-8")).render(
        spec=spec,
        authors=[f"{one.name}, {one.affiliation}" if one.affiliation else one.name for one in spec.authors],
        tasks=sorted({record.cell.task for record in records}),
        backbones=sorted({record.backbone_label or record.cell.backbone for record in records}),
        verification=verification,
        statements=list(STATEMENTS.values()),
    )


def plain(text: str) -> str:
    """A text as one line of Markdown that shows just that text."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("@", _MENTION)


def quoted(text: str) -> str:
    """A text as code, to be copied as it is."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"
