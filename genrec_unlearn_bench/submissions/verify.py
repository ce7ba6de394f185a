"""Runs every check on a submission and says which badge it has earned. Nothing of the submission is executed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions import method_checks, record_checks, table_checks
from genrec_unlearn_bench.submissions.bundle import Bundle, Finding, Result
from genrec_unlearn_bench.submissions.plain_text import Fault, Refused
from genrec_unlearn_bench.submissions.verification import Checked, Verification, check_claim


class Check(NamedTuple):
    """One line of the outcome.

    Attributes:
        hint: How to fix what it finds, where a finding does not say it better.
        find: None where its faults are found while the bundle or a table is read.
    """

    title: str
    hint: str = ""
    find: Callable[..., Iterable[Finding]] | None = None


_RUN_AGAIN = "run the cell again with this version of the suite"
_UNEDITED = "numbers are not edited: submit what `bench run` wrote"
_TABLES = (
    "tables are written by `bench run` and published by `bench submission new`, and not edited: run the cell again"
)
_RENEW = "if the change is meant, renew the list with `bench submission new`; otherwise restore the file"
_MANIFEST = "submit the manifest as `bench run` wrote it, and only results that were made on it"
_USES = "a method uses the recommender and the request it is given, and nothing else (leaderboard/RULES.md)"
_COPY = "submit the method's own runs; a method that is published is not submitted under another name"
_CLAIM = "make it anew with `bench submission verify PATH --write`, or remove it"

OF_BUNDLE = {
    "files": Check("files are safe, small and where they belong"),
    "submission": Check("submission.yaml is complete"),
    "records": Check("every record fits its schema"),
    "manifests": Check("task manifests are what the tasks resolve to", _MANIFEST, record_checks.check_manifests),
    "tables": Check("tables are those that records name", "submit results as published", record_checks.check_tables),
    "same-cell": Check(
        "no cell is claimed twice",
        "submit one of them; which one is not chosen by its numbers",
        record_checks.check_same_cell,
    ),
    "tuning-seeds": Check(
        "no result is at a tuning seed",
        "report at seeds 0, 1, 2 …, and tune at others (from 9000 on)",
        record_checks.check_tuning_seeds,
    ),
    "oracles": Check("results agree on their retrained models", _UNEDITED, table_checks.check_oracles),
    "recommenders": Check(
        "recommenders are set up as everybody's",
        "run it with the settings of that result's command, so that only the method differs",
        record_checks.check_recommenders,
    ),
    "tuning": Check(
        "configurations are counted and within the rules",
        "tune with `bench tune`, which counts its trials, and run again",
        record_checks.check_tuning,
    ),
}
"""Checks of ``(bundle)``."""

OF_SUBMISSION = {
    "contents": Check("files are those that submission.yaml lists", _RENEW, record_checks.check_contents),
    "declared": Check(
        "method, rulesets and protocol are the declared ones",
        "submit one method with the variants that its file declares; reference rows are there already",
        method_checks.check_declared,
    ),
    "demo": Check("the demo cell is there", "", record_checks.check_demo),
    "method-file": Check(
        "the method's source is the one that ran, and passes the lint", _USES, method_checks.check_method_file
    ),
    "names": Check("names are free", "give the method a name of its own, and run it again", method_checks.check_names),
    "seeds": Check(
        "every cell has the declared seeds",
        "submit every seed of every cell, diverged ones included",
        record_checks.check_seeds,
    ),
}
"""Checks of ``(bundle, spec)``, for a bundle with a submission.yaml."""

OF_RESULT = {
    "versions": Check("protocol and schema are this suite's", _RUN_AGAIN, record_checks.check_versions),
    "place": Check(
        "folders are where their records say",
        "leave folders as `bench submission new` writes them",
        record_checks.check_place,
    ),
    "task": Check("results belong to their manifests", _MANIFEST, record_checks.check_task),
    "command": Check(
        "commands repeat their own cell", "submit the run that the record describes", record_checks.check_command
    ),
    "texts": Check(
        "texts are plain and name no machine, and numbers are finite",
        "a run without a finite number says null, and why in a note",
        record_checks.check_texts,
    ),
    "cost": Check("costs are possible and agree", f"costs are measured: {_UNEDITED}", record_checks.check_cost),
    "scores": Check("metrics keep their bounds and follow from their parts", _UNEDITED, table_checks.check_scores),
}
"""Checks of ``(bundle, result)``."""

OF_TABLE = {
    "table": Check("per-user tables can be read", _RUN_AGAIN),
    "rows": Check(
        "tables have every test example once, in order, with what lists can give", _TABLES, table_checks.check_rows
    ),
    "users": Check(
        "tables name no user and no target",
        "publish with `bench submission new`, which leaves them out",
        table_checks.check_users,
    ),
    "rescored": Check("aggregates follow from the per-user tables", _UNEDITED, table_checks.check_rescored),
}
"""Checks of ``(bundle, result, table, withheld)``."""

OF_RANKS = {
    "twins": Check(
        "no two seeds have the same lists",
        "two trainings never agree so far: run the second seed",
        table_checks.check_twins,
    ),
    "copies": Check("no table is one that was published before", _COPY, table_checks.check_copies),
}
"""Checks of ``(bundle, ranks by place)``."""

CLAIM = {"claim": Check("verification.json is of this content", _CLAIM)}

CHECKS = {**OF_BUNDLE, **OF_SUBMISSION, **OF_RESULT, **OF_TABLE, **OF_RANKS, **CLAIM}
"""Every check by name, in the order in which they are shown."""


def verify(bundle: Bundle, *, claims: bool = True) -> Verification:
    """Check everything that can be checked without running anything.

    Args:
        claims: Whether a verification.json in the bundle is compared with the outcome.
    """
    faults = {name: list(bundle.faults.get(name, ())) for name in CHECKS}
    rescored, self_reported, withheld = set[str](), set[str](), set[str]()
    ranks: dict[str, table_checks.Ranks] = {}
    _run(OF_BUNDLE, faults, bundle)
    if bundle.spec is not None:
        _run(OF_SUBMISSION, faults, bundle, bundle.spec)
    for result in bundle.results:
        _run(OF_RESULT, faults, bundle, result)
        again, without = _check_table(bundle, result, faults, ranks)
        rescored |= again
        self_reported |= {value.metric for value in result.record.metrics} - again
        withheld |= without
    _run(OF_RANKS, faults, bundle, ranks)
    if not bundle.results and not faults["records"]:
        hint = "give the folder of a submission, or leaderboard/results"
        faults["records"].append(Fault(what="there is no result", where=".", hint=hint))
    passed = not any(faults.values())
    notices = [f"diverged, shown as such and never ranked: {r.place}" for r in bundle.results if r.record.diverged]
    notices += [
        f"the task {task} could not be compared with a known manifest: nobody else has submitted results of it"
        for task in record_checks.unknown_tasks(bundle)
    ]
    outcome = Verification(
        protocol_version=max([r.record.protocol_version for r in bundle.results], default=PROTOCOL_VERSION),
        name=bundle.name,
        content_digest=bundle.digest,
        results=len(bundle.results),
        passed=passed,
        badge=Badge.RE_SCORED if passed else Badge.SELF_REPORTED,
        checks=_checked(faults),
        rescored=tuple(sorted(rescored - self_reported)),
        self_reported=tuple(sorted(self_reported)),
        withheld=tuple(sorted(withheld)),
        notices=tuple(notices),
    )
    found = _faults("claim", check_claim(bundle, outcome)) if claims else []
    if not found:
        return outcome
    changes = {"passed": False, "badge": Badge.SELF_REPORTED, "checks": _checked({**faults, "claim": found})}
    return outcome.model_copy(update=changes)


def _check_table(
    bundle: Bundle, result: Result, faults: dict[str, list[Fault]], ranks: dict[str, table_checks.Ranks]
) -> tuple[set[str], frozenset[str]]:
    """Read and check a result's table; returns the metrics computed again and the withheld families."""
    if not result.record.per_user_digest:
        if not result.record.diverged:
            what = "nothing was measured, and the run is not said to have diverged"
            faults["table"] += _faults("table", [(result.place, what)])
        return set(), frozenset()
    try:
        table, withheld = bundle.table(result)
    except Refused as fault:
        faults["table"].append(fault.fault)
        return set(), frozenset()
    ranks[result.place] = table_checks.hit_ranks(table)
    _run(OF_TABLE, faults, bundle, result, table, withheld)
    return table_checks.rescored(result, withheld), withheld


def _run(checks: dict[str, Check], faults: dict[str, list[Fault]], *subject: Any) -> None:
    for name, check in checks.items():
        if check.find is not None:
            faults[name] += _faults(name, check.find(*subject))


def _faults(name: str, found: Iterable[Finding]) -> list[Fault]:
    return [Fault(what=what, where=where, hint=own[0] if own else CHECKS[name].hint) for where, what, *own in found]


def _checked(faults: dict[str, list[Fault]]) -> tuple[Checked, ...]:
    return tuple(Checked(name=name, title=CHECKS[name].title, faults=tuple(found)) for name, found in faults.items())
