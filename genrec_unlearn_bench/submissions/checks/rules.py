"""Checks of configurations and seeds: within the ruleset, as declared, none picked and none tuned at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.submissions.bundle import Bundle, demo_tasks
from genrec_unlearn_bench.submissions.checks.scores import implied_oracle
from genrec_unlearn_bench.submissions.faults import REPORTED_SEEDS, TRIALS, Finding
from genrec_unlearn_bench.submissions.spec import SPEC


def check_declared(bundle: Bundle) -> Iterator[Finding]:
    spec = bundle.spec
    if spec is None:
        return
    if spec.protocol_version != PROTOCOL_VERSION:
        what = f"the submission is for protocol version {spec.protocol_version}, this is {PROTOCOL_VERSION}"
        yield f"{SPEC}: protocol_version", what, "run the cells again with this version of the suite"
    found = {result.record.cell.ruleset for result in bundle.results}
    if bundle.results and found != set(spec.rulesets):
        what = f"the results are of the rulesets {', '.join(sorted(found))}, not {', '.join(sorted(spec.rulesets))}"
        yield f"{SPEC}: rulesets", what, "renew the file with `bench submission new`"
    names = {spec.method.name, *bundle.variants}
    for result in bundle.results:
        if result.record.cell.method not in names:
            what = f"the result is of the method {result.record.cell.method!a}, the submission is of "
            yield result.at("cell.method"), f"{what}{', '.join(map(repr, sorted(names)))}"


def check_demo(bundle: Bundle) -> Iterator[Finding]:
    if bundle.spec is not None and not demo_results(bundle):
        hint = f"bench run --task demo-brand --method {bundle.spec.method.name}, and submit it too"
        yield "results/", "there is no result on the demo, which is what everybody can run again", hint


def check_fixed(bundle: Bundle) -> Iterator[Finding]:
    first: dict[str, tuple[str, object]] = {}
    for result in bundle.results:
        config = result.record.method_config
        if result.record.cell.ruleset != "fixed":
            continue
        place, other = first.setdefault(result.record.cell.method, (result.place, config))
        if other != config:
            what = f"the ruleset fixed allows one configuration, this result has another one than {place}"
            yield result.at("method_config"), what


def check_trials(bundle: Bundle) -> Iterator[Finding]:
    for result in bundle.results:
        cost, where = result.record.cost, result.at("cost.tuning_trials")
        if result.record.cell.ruleset != "tuned":
            if cost.tuning_trials:
                yield where, f"the result counts {cost.tuning_trials} trials, and is not of the ruleset tuned"
            continue
        if cost.tuning_trials > TRIALS:
            yield where, f"{cost.tuning_trials} configurations were tried, the rules allow {TRIALS}"
        if cost.tuning_trials < 1 or cost.tuning_seconds <= 0:
            yield where, "a tuned result counts no trial, or no time for it"
        if bundle.spec is not None and bundle.spec.tuning.space == "none" and cost.tuning_trials > 1:
            what = f"{cost.tuning_trials} configurations were tried, and the submission says there is no space"
            yield f"{SPEC}: tuning.space, and {where}", what, "say `space: declared`"


def demo_results(bundle: Bundle) -> list[str]:
    """Places of the demo's results, the method's own before its variants', smallest seed first."""
    own = bundle.spec.method.name if bundle.spec else ""
    demo = [one for one in bundle.results if one.record.cell.task in demo_tasks()]
    demo.sort(key=lambda one: (one.record.cell.method != own, one.record.cell.seed, one.place))
    return [one.place for one in demo]


def check_reported_seeds(bundle: Bundle) -> Iterator[Finding]:
    tuned = set(bundle.spec.tuning.seeds) if bundle.spec else set()
    for result in bundle.results:
        seed = result.record.cell.seed
        if seed not in REPORTED_SEEDS or seed in tuned:
            yield result.at("cell.seed"), f"the result is reported at seed {seed}, which is for tuning"


def check_same_seeds(bundle: Bundle) -> Iterator[Finding]:
    """The seeds 0 … n - 1, the same for every cell; on the demo some of them do."""
    if bundle.spec is None:
        return
    wanted = bundle.spec.seeds
    declared = ", ".join(map(str, wanted))
    if wanted != tuple(range(len(wanted))):
        hint = "run and submit the seeds from 0 on; which ones are reported is not the author's choice"
        yield f"{SPEC}: seeds", f"the seeds are {declared}, not 0, 1, 2 … without gaps", hint
    found: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for result in bundle.results:
        cell = result.record.cell
        names = (cell.task, cell.backbone, cell.method, result.record.backbone_label, cell.scale, cell.ruleset)
        # A stream of requests is a cell of its own.
        found[*names, str(cell.requests)].add(cell.seed)
    for (task, *group), seeds in found.items():
        if (seeds - set(wanted)) or (task not in demo_tasks() and seeds != set(wanted)):
            what = f"the cell has the seeds {', '.join(map(str, sorted(seeds)))}, the submission declares {declared}"
            yield "/".join(("results", task, *group[:2])), what


def check_oracles(bundle: Bundle) -> Iterator[Finding]:
    """Results that were held against the same retrained models imply the same numbers of them."""
    seen: dict[tuple[object, ...], tuple[str, float]] = {}
    for result in bundle.results:
        stages = tuple(stage.digest for stage in result.record.stages if stage.name.startswith("evaluation of retrain"))
        means = implied_oracle(result.record.metrics) if stages else {}
        for key, mean in means.items():
            place, first = seen.setdefault((stages, *key), (result.place, mean))
            if abs(first - mean) > 1e-9:
                what = f"gap.{key[0]} is taken against another number of the retrained model than in {place}"
                yield result.at("metrics"), what
                break
