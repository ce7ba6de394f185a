"""Runs every check on a submission and says which badge it has earned. Nothing of the submission is executed here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions.bundle import Bundle, Result
from genrec_unlearn_bench.submissions.checks import files, methods, records, rules, scores, tables
from genrec_unlearn_bench.submissions.faults import Fault, Refused
from genrec_unlearn_bench.submissions.verification import Checked, Verification, check_claim

__all__ = ["verify"]

Check = Callable[[Bundle], Iterable[Fault]]


def _each(check: Callable[[Bundle, Result], Iterable[Fault]]) -> Check:
    """A check of one result, made of all of them."""
    return lambda bundle: (fault for result in bundle.results for fault in check(bundle, result))


CHECKS: Mapping[str, tuple[str, Check | None]] = {
    "files": ("files are safe, small and where they belong", None),
    "submission": ("submission.yaml is complete", None),
    "records": ("every record fits its schema", None),
    "manifests": ("task manifests are what the tasks resolve to", files.check_manifests),
    "contents": ("files are those that submission.yaml lists", files.check_contents),
    "tables-there": ("every record has its per-user table", files.check_pairs),
    "versions": ("protocol and schema are this suite's", _each(records.check_versions)),
    "place": ("folders are where their records say", _each(records.check_place)),
    "task": ("results belong to their manifests", _each(files.check_task)),
    "command": ("commands repeat their own cell", _each(records.check_command)),
    "machine": ("nothing names a machine", _each(records.check_machine)),
    "texts": ("texts are plain and numbers finite", _each(records.check_texts)),
    "cost": ("costs are possible and agree", _each(records.check_cost)),
    "bounds": ("invariants between metrics hold", _each(scores.check_bounds)),
    "derived": ("gaps and changes follow from their parts", _each(scores.check_derived)),
    "table": ("per-user tables can be read", None),
    "rows": ("tables have every test example once, in order", None),
    "users": ("tables name no user and no target", None),
    "ranges": ("tables hold what lists can give", None),
    "withheld": ("withheld columns are withheld wholly", None),
    "rescored": ("aggregates follow from the per-user tables", None),
    "same-cell": ("no cell is claimed twice", records.check_same_cell),
    "reported-seeds": ("no result is at a tuning seed", rules.check_reported_seeds),
    "same-seeds": ("every cell has the declared seeds", rules.check_same_seeds),
    "twins": ("no two seeds have the same table", None),
    "oracles": ("results agree on their retrained models", rules.check_oracles),
    "recommenders": ("recommenders are set up as everybody's", records.check_recommenders),
    "declared": ("method, rulesets and protocol are the declared ones", rules.check_declared),
    "demo": ("the demo cell is there", rules.check_demo),
    "fixed": ("the ruleset fixed has one configuration", rules.check_fixed),
    "trials": ("trials are counted and within the rules", rules.check_trials),
    "method-file": ("the method's source is the one that ran, and keeps the rules", methods.check_method_file),
    "one-source": ("all results were made with one source", methods.check_one_source),
    "names": ("names are free", methods.check_names),
    "claim": ("verification.json is of this content", None),
}
"""Title and check by name, in the order in which they are shown; faults of those without a check are found while
the bundle or a table is read."""


@dataclass
class _Findings:
    """Findings, collected result by result."""

    faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    fingerprints: dict[str, str | None] = field(default_factory=dict)
    rescored: set[str] = field(default_factory=set)
    self_reported: set[str] = field(default_factory=set)
    withheld: set[str] = field(default_factory=set)


def verify(bundle: Bundle, *, claims: bool = True) -> Verification:
    """Check everything that can be checked without running anything.

    Args:
        claims: Whether a verification.json that lies there is held against the outcome.
    """
    found = _Findings()
    for name, faults in bundle.faults.items():
        found.faults[name] += faults
    for name, (_, check) in CHECKS.items():
        if check is not None:
            found.faults[name] += check(bundle)
    for result in bundle.results:
        _check_table(bundle, result, found)
    found.faults["twins"] += rules.check_twins(bundle, found.fingerprints)
    if not bundle.results and not found.faults["records"]:
        found.faults["records"].append(
            Fault(what="there is no result", where=".", hint="give the folder of a submission, or leaderboard/results")
        )
    verification = _summed(bundle, found)
    if claims:
        extra = tuple(check_claim(bundle, verification))
        if extra:
            found.faults["claim"] += extra
            verification = _summed(bundle, found)
    return verification


def _check_table(bundle: Bundle, result: Result, found: _Findings) -> None:
    if not result.record.per_user_digest:
        found.self_reported |= {value.metric for value in result.record.metrics}
        if not result.record.diverged:
            what = "nothing was measured, and the run is not said to have diverged"
            found.faults["table"].append(Fault(what=what, where=result.record_path, hint="run the cell again"))
        return
    try:
        table, withheld = bundle.table(result)
    except Refused as fault:
        found.faults["table"].append(fault.fault)
        return
    found.fingerprints[result.place] = rules.fingerprint(table)
    found.withheld |= withheld
    found.faults["rows"] += tables.check_rows(bundle, result, table)
    found.faults["users"] += tables.check_users(bundle, result, table)
    found.faults["ranges"] += tables.check_ranges(bundle, result, table)
    found.faults["withheld"] += tables.check_withheld(bundle, result, table, withheld)
    found.faults["rescored"] += scores.check_rescored(bundle, result, table, withheld)
    again, not_again = scores.rescored(result, withheld)
    found.rescored |= set(again)
    found.self_reported |= set(not_again)


def _summed(bundle: Bundle, found: _Findings) -> Verification:
    checks = tuple(
        Checked(name=name, title=title, faults=tuple(found.faults[name])) for name, (title, _) in CHECKS.items()
    )
    passed = all(check.passed for check in checks)
    diverged = [one.place for one in bundle.results if one.record.diverged]
    notices = [f"diverged, shown as such and never ranked: {place}" for place in diverged]
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
