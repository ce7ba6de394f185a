"""Runs every check on a submission and says which badge it has earned. Nothing of the submission is executed here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions.bundle import Bundle, Result
from genrec_unlearn_bench.submissions.checks import (
    files,
    manifests,
    methods,
    recommenders,
    records,
    rulesets,
    scores,
    seeds,
    tables,
)
from genrec_unlearn_bench.submissions.claim import check_claim
from genrec_unlearn_bench.submissions.fault import Fault, Refused
from genrec_unlearn_bench.submissions.verification import Checked, Verification

__all__ = ["verify"]

TITLES: Mapping[str, str] = {
    "files": "files are safe, small and where they belong",
    "submission": "submission.yaml is complete",
    "records": "every record fits its schema",
    "manifests": "task manifests are what the tasks resolve to",
    "contents": "files are those that submission.yaml lists",
    "tables-there": "every record has its per-user table",
    "versions": "protocol and schema are this suite's",
    "place": "folders are where their records say",
    "task": "results belong to their manifests",
    "command": "commands repeat their own cell",
    "machine": "nothing names a machine",
    "texts": "texts are plain and numbers finite",
    "cost": "costs are possible and agree",
    "bounds": "invariants between metrics hold",
    "derived": "gaps and changes follow from their parts",
    "table": "per-user tables can be read",
    "rows": "tables have every test example once, in order",
    "users": "tables name no user and no target",
    "ranges": "tables hold what lists can give",
    "withheld": "withheld columns are withheld wholly",
    "rescored": "aggregates follow from the per-user tables",
    "same-cell": "no cell is claimed twice",
    "reported-seeds": "no result is at a tuning seed",
    "same-seeds": "every cell has the declared seeds",
    "twins": "no two seeds have the same table",
    "oracles": "results agree on their retrained models",
    "recommenders": "recommenders are set up as everybody's",
    "declared": "method, rulesets and protocol are the declared ones",
    "demo": "the demo cell is there",
    "fixed": "the ruleset fixed has one configuration",
    "trials": "trials are counted and within the rules",
    "method-file": "the method's source is the one that ran, and keeps the rules",
    "one-source": "all results were made with one source",
    "names": "names are free",
    "claim": "verification.json is of this content",
}
"""Checks by name, in the order in which they are shown."""

ON_RECORD: Mapping[str, Callable[[Bundle, Result], Iterable[Fault]]] = {
    "versions": records.check_versions,
    "place": records.check_place,
    "task": manifests.check_task,
    "command": records.check_command,
    "machine": records.check_machine,
    "texts": records.check_texts,
    "cost": records.check_cost,
    "bounds": scores.check_bounds,
    "derived": scores.check_derived,
}
ON_BUNDLE: Mapping[str, Callable[[Bundle], Iterable[Fault]]] = {
    "manifests": manifests.check_manifests,
    "contents": files.check_contents,
    "tables-there": files.check_pairs,
    "same-cell": records.check_same_cell,
    "reported-seeds": seeds.check_reported_seeds,
    "same-seeds": seeds.check_same_seeds,
    "oracles": seeds.check_oracles,
    "recommenders": recommenders.check_recommenders,
    "declared": rulesets.check_declared,
    "demo": rulesets.check_demo,
    "fixed": rulesets.check_fixed,
    "trials": rulesets.check_trials,
    "method-file": methods.check_method_file,
    "one-source": methods.check_one_source,
    "names": methods.check_names,
}


@dataclass
class _Findings:
    """What comes together while results are looked at one by one."""

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
    for name, check in ON_BUNDLE.items():
        found.faults[name] += check(bundle)
    for result in bundle.results:
        for name, on_record in ON_RECORD.items():
            found.faults[name] += on_record(bundle, result)
        _look_at_table(bundle, result, found)
    found.faults["twins"] += seeds.check_twins(bundle, found.fingerprints)
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


def _look_at_table(bundle: Bundle, result: Result, found: _Findings) -> None:
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
    found.fingerprints[result.place] = seeds.fingerprint(table)
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
    checks = tuple(Checked(name=name, title=title, faults=tuple(found.faults[name])) for name, title in TITLES.items())
    passed = all(check.passed for check in checks)
    diverged = [one.place for one in bundle.results if one.record.diverged]
    notices = [f"diverged, shown as such and never ranked: {place}" for place in diverged]
    notices += [
        f"the task {task} could not be held against a known manifest: nobody else has submitted results of it"
        for task in manifests.unknown_tasks(bundle)
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
