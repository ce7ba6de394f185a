"""Runs every check on a submission and says which badge it has earned. Nothing of the submission is executed here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions.bundle import Bundle, Result
from genrec_unlearn_bench.submissions.checks import copies, files, methods, records, rules, scores, tables
from genrec_unlearn_bench.submissions.faults import Fault, Finding, Refused, as_faults
from genrec_unlearn_bench.submissions.verification import Checked, Verification, check_claim

Find = Callable[[Bundle], Iterable[Finding]]


@dataclass(frozen=True)
class Check:
    """One line of the outcome.

    Attributes:
        hint: How to fix what it finds, where a finding does not say it better.
        find: None where its faults are found while the bundle or a table is read.
    """

    title: str
    hint: str = ""
    find: Find | None = None


def _each(check: Callable[[Bundle, Result], Iterable[Finding]]) -> Find:
    return lambda bundle: (fault for result in bundle.results for fault in check(bundle, result))


_RUN_AGAIN = "run the cell again with this version of the suite"
_PUBLISH = "publish the result again with `bench submission new`"
_UNEDITED = "numbers are not edited: submit what `bench run` wrote"
_TABLES = (
    "tables are written by `bench run` and published by `bench submission new`, and not edited: run the cell again"
)
_RENEW = "if the change is meant, renew the list with `bench submission new`; otherwise restore the file"
_MANIFEST = "submit the manifest as `bench run` wrote it, and only results that were made on it"
_USES = "a method uses the recommender and the request it is given, and nothing else (leaderboard/RULES.md)"
_COPY = "submit the method's own runs; a method that is published is not submitted under another name"

CHECKS = {
    "files": Check("files are safe, small and where they belong"),
    "submission": Check("submission.yaml is complete"),
    "records": Check("every record fits its schema"),
    "manifests": Check("task manifests are what the tasks resolve to", _MANIFEST, files.check_manifests),
    "contents": Check("files are those that submission.yaml lists", _RENEW, files.check_contents),
    "tables-there": Check("every record has its per-user table", _PUBLISH, files.check_pairs),
    "versions": Check("protocol and schema are this suite's", _RUN_AGAIN, _each(records.check_versions)),
    "place": Check(
        "folders are where their records say",
        "leave folders as `bench submission new` writes them",
        _each(records.check_place),
    ),
    "task": Check("results belong to their manifests", _MANIFEST, _each(files.check_task)),
    "command": Check(
        "commands repeat their own cell", "submit the run that the record describes", _each(records.check_command)
    ),
    "machine": Check(
        "nothing names a machine", "run it with a relative path there, and publish it", _each(records.check_machine)
    ),
    "texts": Check(
        "texts are plain and numbers finite",
        "a run without a finite number says null, and why in a note",
        _each(records.check_texts),
    ),
    "cost": Check("costs are possible and agree", f"costs are measured: {_UNEDITED}", _each(records.check_cost)),
    "bounds": Check("invariants between metrics hold", _UNEDITED, _each(scores.check_bounds)),
    "derived": Check("gaps and changes follow from their parts", _UNEDITED, _each(scores.check_derived)),
    "table": Check("per-user tables can be read", _RUN_AGAIN),
    "rows": Check("tables have every test example once, in order", _TABLES),
    "users": Check("tables name no user and no target", "publish with `bench submission new`, which leaves them out"),
    "ranges": Check("tables hold what lists can give", _TABLES),
    "withheld": Check("withheld columns are withheld wholly", _TABLES),
    "rescored": Check("aggregates follow from the per-user tables", _UNEDITED),
    "same-cell": Check(
        "no cell is claimed twice",
        "submit one of them; which one is not chosen by its numbers",
        records.check_same_cell,
    ),
    "reported-seeds": Check(
        "no result is at a tuning seed",
        "report at seeds 0, 1, 2 …, and tune at others (from 9000 on)",
        rules.check_reported_seeds,
    ),
    "same-seeds": Check(
        "every cell has the declared seeds",
        "submit every seed of every cell, diverged ones included",
        rules.check_same_seeds,
    ),
    "twins": Check("no two seeds have the same lists", "two trainings never agree so far: run the second seed"),
    "copies": Check("no table is one that was published before", _COPY),
    "oracles": Check("results agree on their retrained models", _UNEDITED, rules.check_oracles),
    "recommenders": Check(
        "recommenders are set up as everybody's",
        "run it with the settings of that result's command, so that only the method differs",
        records.check_recommenders,
    ),
    "declared": Check(
        "method, rulesets and protocol are the declared ones",
        "submit one method with the variants that its file declares; reference rows are there already",
        rules.check_declared,
    ),
    "demo": Check("the demo cell is there", "", rules.check_demo),
    "fixed": Check(
        "the ruleset fixed has one configuration",
        "run all cells with one configuration, or submit them as tuned",
        rules.check_fixed,
    ),
    "trials": Check(
        "trials are counted and within the rules",
        "tune with `bench tune`, which counts its trials, and run again",
        rules.check_trials,
    ),
    "method-file": Check(
        "the method's source is the one that ran, and passes the lint", _USES, methods.check_method_file
    ),
    "one-source": Check(
        "all results were made with one source",
        "run all cells with one version of the method",
        methods.check_one_source,
    ),
    "names": Check("names are free", "give the method a name of its own, and run it again", methods.check_names),
    "claim": Check(
        "verification.json is of this content", "make it anew with `bench submission verify PATH --write`, or remove it"
    ),
}
"""Every check by name, in the order in which they are shown."""


@dataclass
class _Findings:
    faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    ranks: dict[str, copies.Ranks] = field(default_factory=dict)
    rescored: set[str] = field(default_factory=set)
    self_reported: set[str] = field(default_factory=set)
    withheld: set[str] = field(default_factory=set)

    def add(self, name: str, found: Iterable[Finding]) -> None:
        self.faults[name] += as_faults(found, CHECKS[name].hint)


def verify(bundle: Bundle, *, claims: bool = True) -> Verification:
    """Check everything that can be checked without running anything.

    Args:
        claims: Whether a verification.json that lies there is held against the outcome.
    """
    found = _Findings()
    for name, faults in bundle.faults.items():
        found.faults[name] += faults
    for name, check in CHECKS.items():
        if check.find is not None:
            found.add(name, check.find(bundle))
    for result in bundle.results:
        _check_table(bundle, result, found)
    found.add("twins", copies.check_twins(bundle, found.ranks))
    found.add("copies", copies.check_copies(bundle, found.ranks))
    if not bundle.results and not found.faults["records"]:
        hint = "give the folder of a submission, or leaderboard/results"
        found.faults["records"].append(Fault(what="there is no result", where=".", hint=hint))
    verification = _summed(bundle, found)
    if claims:
        found.add("claim", check_claim(bundle, verification))
        verification = _summed(bundle, found)
    return verification


def _check_table(bundle: Bundle, result: Result, found: _Findings) -> None:
    if not result.record.per_user_digest:
        found.self_reported |= {value.metric for value in result.record.metrics}
        if not result.record.diverged:
            what = "nothing was measured, and the run is not said to have diverged"
            found.add("table", [(result.record_path, what)])
        return
    try:
        table, withheld = bundle.table(result)
    except Refused as fault:
        found.faults["table"].append(fault.fault)
        return
    found.ranks[result.place] = copies.hit_ranks(table)
    found.withheld |= withheld
    found.add("rows", tables.check_rows(bundle, result, table))
    found.add("users", tables.check_users(bundle, result, table))
    found.add("ranges", tables.check_ranges(bundle, result, table))
    found.add("withheld", tables.check_withheld(bundle, result, table, withheld))
    found.add("rescored", scores.check_rescored(bundle, result, table, withheld))
    again, not_again = scores.rescored(result, withheld)
    found.rescored |= set(again)
    found.self_reported |= set(not_again)


def _summed(bundle: Bundle, found: _Findings) -> Verification:
    checks = tuple(
        Checked(name=name, title=check.title, faults=tuple(found.faults[name])) for name, check in CHECKS.items()
    )
    passed = all(check.passed for check in checks)
    notices = [
        f"diverged, shown as such and never ranked: {one.place}" for one in bundle.results if one.record.diverged
    ]
    notices += [
        f"the task {task} could not be held against a known manifest: nobody else has submitted results of it"
        for task in files.unknown_tasks(bundle)
    ]
    return Verification(
        protocol_version=PROTOCOL_VERSION,
        name=bundle.name,
        content_digest=bundle.digest,
        results=len(bundle.results),
        passed=passed,
        badge=Badge.RE_SCORED if passed else Badge.SELF_REPORTED,
        checks=checks,
        rescored=tuple(sorted(found.rescored - found.self_reported)),
        self_reported=tuple(sorted(found.self_reported)),
        withheld=tuple(sorted(found.withheld)),
        notices=tuple(notices),
    )
