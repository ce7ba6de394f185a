"""Puts a submission together: gathers results, publishes them, and checks all that ``bench submission verify`` will.

The folder is written whole or not at all. What the authors wrote into an earlier submission.yaml is kept.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.errors import BenchError, ConfigError, UsageError
from genrec_unlearn_bench.files import atomic_folder, file_digest, find_files
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD, read_record
from genrec_unlearn_bench.registry import Entry, find_method, source_digest
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
from genrec_unlearn_bench.submissions.verification import Verification, verify

_NEEDED = {
    "title": 'what the method is called in tables (--title "…")',
    "authors": 'who submits it (--author "Name | Affiliation | ORCID", repeated)',
    "contact": "a mail address or link for questions (--contact)",
    "licence": "SPDX id of the method's licence (--licence Apache-2.0)",
    "affirmed": "read leaderboard/RULES.md, and affirm its statements (--affirm-rules)",
}


@dataclass(frozen=True, eq=False)
class Submitted:
    folder: Path
    spec: Submission
    records: tuple[RunRecord, ...]
    verification: Verification
    passed_over: int
    """Results of the method that were made with another version of its source."""


def submit(
    name: str,
    method: str,
    *,
    results_dir: Path,
    out: Path,
    leaderboard: Path | None = None,
    withhold: Iterable[str] = (),
    tasks: Sequence[str] = (),
    rulesets: Sequence[str] = (),
    words: Mapping[str, Any] = MappingProxyType({}),
    affirm: bool = False,
) -> Submitted:
    """Gather, publish, check and write the folder ``name`` in ``out``.

    Args:
        method: Name of a method, or ``path/to/file.py:Class``.
        leaderboard: The leaderboard's folder to hold it against; None means the installation's.
        withhold: Column families that the tables leave out.
        tasks, rulesets: Only results of these; of all where none is named.
        words: Fields of submission.yaml; others stay as an earlier one has them.
        affirm: Whether every statement of RULES.md is affirmed by this call.

    Raises UsageError where there are no results or words are missing (all are named at once), Refused for an earlier
    submission.yaml that cannot be read, BenchError where it would not pass ``verify`` (nothing was written).
    """
    if not SLUG.match(name):
        raise UsageError(f"{name!r} is no name for a submission", hint="lower-case letters, digits, single hyphens")
    entry = find_method(method)
    source = entry.source
    if entry.kind == "reference" or source is None:
        what = f"{entry.name!r} is a reference row, or has no file to submit"
        raise UsageError(what, hint="give a method's file: --method file.py")
    target = out / name
    earlier = read_spec(target)
    found, passed_over = _results(entry, method, results_dir, tasks, rulesets)
    with tempfile.TemporaryDirectory(prefix="bench-submit-") as place:
        draft = Path(place) / name
        records = tuple(publish_result(*one, draft / "results", withhold=withhold) for one in found)
        for task, folder in {record.cell.task: folder for folder, record in found}.items():
            publish_manifest(folder, task, draft / MANIFESTS)
        shutil.copyfile(source, draft / METHOD_FILE)
        given = {**words, "affirmed": list(STATEMENTS)} if affirm else dict(words)
        given |= {"name": name, "method": {"name": entry.name, "file": METHOD_FILE}}
        spec = _spec(given, earlier, records, draft, where=str(target / SPEC))
        (draft / SPEC).write_text(submission_text(spec), encoding="utf-8")
        verification = verify(load(draft, leaderboard))
        if faults := verification.faults:
            listing = "".join(f"\n- {fault.text()}" for fault in faults[:12])
            what = f"faults: {len(faults)}, so nothing was written:{listing}"
            raise BenchError(what, where=str(target))
        with atomic_folder(target, "--out", replace=True) as final:
            shutil.copytree(draft, final, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return Submitted(target, spec, records, verification, passed_over)


def _results(
    entry: Entry, given: str, results_dir: Path, tasks: Sequence[str], rulesets: Sequence[str]
) -> tuple[list[tuple[Path, RunRecord]], int]:
    """Folders and records of this version of the method's file, and the number of results of other versions."""
    every = []
    for path in find_files(results_dir, RECORD):
        record = read_record(path.parent)
        wanted = record.cell.method == entry.name and (not tasks or record.cell.task in tasks)
        if wanted and (not rulesets or record.cell.ruleset in rulesets):
            every.append((path.parent, record))
    digest = source_digest(entry)
    found = [(folder, record) for folder, record in every if record.method_digest == digest]
    if not found:
        what = f"there is no result of the method {entry.name!r} ({len(every)} of other versions of its file)"
        hint = f"bench run --task demo-brand --method {given} --results-dir {results_dir}"
        raise UsageError(what, where=str(results_dir), hint=hint)
    return found, len(every) - len(found)


def _spec(
    given: Mapping[str, Any], earlier: Submission | None, records: Sequence[RunRecord], draft: Path, *, where: str
) -> Submission:
    """The words of before and of this call, with everything that follows from the results."""
    before: dict[str, Any] = earlier.model_dump(mode="json", exclude_none=True) if earlier is not None else {}
    tuning = {"space": "none", **before.get("tuning", {}), **given.get("tuning", {})}
    if any(record.cost.tuning_trials > 1 for record in records):
        tuning["space"] = "declared"
    files = sorted(path for path in draft.rglob("*") if path.is_file())
    others = [record for record in records if record.cell.task not in demo_tasks()]
    words = {
        **before,
        **given,
        "protocol_version": PROTOCOL_VERSION,
        "rulesets": sorted({record.cell.ruleset for record in records}),
        "tuning": tuning,
        "seeds": sorted({record.cell.seed for record in others or records}),
        "contents": {path.relative_to(draft).as_posix(): file_digest(path) for path in files},
    }
    if missing := [f"{name}: {how}" for name, how in _NEEDED.items() if not words.get(name)]:
        raise ConfigError(missing, where=where, hint="give them once; later calls keep them")
    return parse_submission(submission_text(parse(Submission, words, where=SPEC)).encode())
