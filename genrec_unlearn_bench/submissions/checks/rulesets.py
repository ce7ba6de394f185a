"""Are the configurations the ones that a ruleset allows, and do submission.yaml and the records say the same."""

from __future__ import annotations

from collections.abc import Iterable

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.submissions.bundle import Bundle
from genrec_unlearn_bench.submissions.fault import Fault
from genrec_unlearn_bench.submissions.limits import TRIALS
from genrec_unlearn_bench.submissions.shipped import demo_tasks
from genrec_unlearn_bench.submissions.spec import SPEC

__all__ = ["check_declared", "check_demo", "check_fixed", "check_trials", "demo_results"]


def check_declared(bundle: Bundle) -> Iterable[Fault]:
    """The method, the rulesets and the protocol of submission.yaml are those of the results."""
    spec = bundle.spec
    if spec is None:
        return
    if spec.protocol_version != PROTOCOL_VERSION:
        yield Fault(
            what=f"the submission is for protocol version {spec.protocol_version}, this is {PROTOCOL_VERSION}",
            where=f"{SPEC}: protocol_version",
            hint="run the cells again with this version of the suite, and submit them anew",
        )
    found = {result.record.cell.ruleset for result in bundle.results}
    if bundle.results and found != set(spec.rulesets):
        yield Fault(
            what=f"the results are of the rulesets {', '.join(sorted(found))}, not {', '.join(sorted(spec.rulesets))}",
            where=f"{SPEC}: rulesets",
            hint="renew the file with `bench submit`",
        )
    for result in bundle.results:
        name = result.record.cell.method
        if not name.startswith(spec.method.name):
            yield Fault(
                what=f"the result is of the method {name!a}, the submission is of {spec.method.name!r}",
                where=f"{result.record_path}: cell.method",
                hint="submit one method; the reference rows are in the leaderboard already",
            )


def check_demo(bundle: Bundle) -> Iterable[Fault]:
    """There is a cell that anybody can run again in seconds."""
    if bundle.spec is not None and not demo_results(bundle):
        name = bundle.spec.method.name
        yield Fault(
            what="there is no result on the demo, which is what everybody can run again",
            where="results/",
            hint=f"bench run --task demo-brand --method {name}, and submit it too",
        )


def check_fixed(bundle: Bundle) -> Iterable[Fault]:
    """Ruleset ``fixed``: one configuration of a method over all tasks and backbones."""
    first: dict[str, tuple[str, object]] = {}
    for result in bundle.results:
        cell = result.record.cell
        if cell.ruleset != "fixed":
            continue
        place, config = first.setdefault(cell.method, (result.place, result.record.method_config))
        if config != result.record.method_config:
            yield Fault(
                what="the ruleset fixed allows one configuration, this result has another one than " + place,
                where=f"{result.record_path}: method_config",
                hint="run all cells with one configuration, or submit them as tuned",
            )


def check_trials(bundle: Bundle) -> Iterable[Fault]:
    """Ruleset ``tuned``: at most twelve trials, on the clock; the others: none."""
    for result in bundle.results:
        cell, cost = result.record.cell, result.record.cost
        where = f"{result.record_path}: cost.tuning_trials"
        hint = f"tune with `bench tune`, which tries at most {TRIALS} and counts them, and run again"
        if cell.ruleset != "tuned":
            if cost.tuning_trials:
                what = f"the result counts {cost.tuning_trials} trials, and is not of the ruleset tuned"
                yield Fault(what=what, where=where, hint=hint)
            continue
        if cost.tuning_trials > TRIALS:
            yield Fault(
                what=f"{cost.tuning_trials} configurations were tried, the rules allow {TRIALS}", where=where, hint=hint
            )
        if cost.tuning_trials < 1 or cost.tuning_seconds <= 0:
            yield Fault(what="a tuned result counts no trial, or no time for it", where=where, hint=hint)
        if bundle.spec is not None and bundle.spec.tuning.space == "none" and cost.tuning_trials > 1:
            yield Fault(
                what=f"{cost.tuning_trials} configurations were tried, and the submission says there is no space",
                where=f"{SPEC}: tuning.space, and {where}",
                hint="say `space: declared`",
            )


def demo_results(bundle: Bundle) -> list[str]:
    """Places of the demo's results, smallest seed first."""
    demo = [one for one in bundle.results if one.record.cell.task in demo_tasks()]
    return [one.place for one in sorted(demo, key=lambda one: (one.record.cell.seed, one.place))]
