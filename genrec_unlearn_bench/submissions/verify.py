"""Runs every check on a submission and says which badge it has earned. Nothing of the submission is executed here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions import method_checks, table_checks  # noqa: F401 - they register their checks
from genrec_unlearn_bench.submissions.bundle import CHECKS, Bundle, Finding
from genrec_unlearn_bench.submissions.plain_text import Fault, Refused
from genrec_unlearn_bench.submissions.record_checks import known_manifest
from genrec_unlearn_bench.submissions.verification import Checked, Verification, check_claim


def verify(bundle: Bundle, *, claims: bool = True) -> Verification:
    """Check everything that can be checked without running anything.

    Args:
        claims: Whether a verification.json in the bundle is compared with the outcome.
    """
    faults = {name: list(bundle.faults.get(name, ())) for name in CHECKS}
    rescored, self_reported, withheld = set[str](), set[str](), set[str]()
    ranks: dict[str, table_checks.Ranks] = {}
    _run("bundle", faults, bundle)
    if bundle.spec is not None:
        _run("submission", faults, bundle, bundle.spec)
    for result in bundle.results:
        _run("result", faults, bundle, result)
        again = set[str]()
        try:
            if (read := bundle.table(result)) is not None:
                table, without = read
                ranks[result.place] = table_checks.hit_ranks(table)
                _run("table", faults, bundle, result, table, without)
                again = table_checks.rescored(result, without)
                withheld |= without
        except Refused as refusal:
            faults["table"].append(refusal.fault)
        rescored |= again
        self_reported |= {value.metric for value in result.record.metrics} - again
    _run("ranks", faults, bundle, ranks)
    if not bundle.results and not faults["records"]:
        hint = "give the folder of a submission, or leaderboard/results"
        faults["records"].append(Fault(what="there is no result", where=".", hint=hint))
    passed = not any(faults.values())
    notices = [f"diverged, shown as such and never ranked: {r.place}" for r in bundle.results if r.record.diverged]
    notices += [
        f"the task {task} could not be compared with a known manifest: nobody else has submitted results of it"
        for task in bundle.manifests
        if known_manifest(bundle, task) is None
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


def _run(of: str, faults: dict[str, list[Fault]], *subject: Any) -> None:
    for name, check in CHECKS.items():
        if check.of == of and check.find is not None:
            faults[name] += _faults(name, check.find(*subject))


def _faults(name: str, found: Iterable[Finding]) -> list[Fault]:
    return [Fault(what=what, where=where, hint=own[0] if own else CHECKS[name].hint) for where, what, *own in found]


def _checked(faults: dict[str, list[Fault]]) -> tuple[Checked, ...]:
    return tuple(Checked(name=name, title=CHECKS[name].title, faults=tuple(found)) for name, found in faults.items())
