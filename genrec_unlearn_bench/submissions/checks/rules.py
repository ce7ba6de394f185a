"""Checks of configurations and seeds: within the ruleset, as declared, none picked, tuned at or copied."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.submissions.bundle import Bundle, Result, demo_tasks
from genrec_unlearn_bench.submissions.faults import REPORTED_SEEDS, TRIALS, Fault
from genrec_unlearn_bench.submissions.spec import SPEC

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "check_declared",
    "check_demo",
    "check_fixed",
    "check_oracles",
    "check_reported_seeds",
    "check_same_seeds",
    "check_trials",
    "check_twins",
    "demo_results",
    "fingerprint",
]


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
            hint="renew the file with `bench submission new`",
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


SAME_FOR_EVERY_SEED = ("popularity",)
"""Rows that no seed can change."""
_LISTS = ("rank", "concept_in_list", "n_list")


def check_reported_seeds(bundle: Bundle) -> Iterable[Fault]:
    """No result at a seed that belongs to tuning."""
    tuned = set(bundle.spec.tuning.seeds) if bundle.spec else set()
    for result in bundle.results:
        seed = result.record.cell.seed
        if seed not in REPORTED_SEEDS or seed in tuned:
            yield Fault(
                what=f"the result is reported at seed {seed}, which is for tuning",
                where=f"{result.record_path}: cell.seed",
                hint=f"report at seeds 0, 1, 2 …, and tune at others (from {REPORTED_SEEDS.stop} on)",
            )


def check_same_seeds(bundle: Bundle) -> Iterable[Fault]:
    """The seeds 0 … n - 1, the same for every cell; on the demo some of them do."""
    if bundle.spec is None:
        return
    wanted = bundle.spec.seeds
    if wanted != tuple(range(len(wanted))):
        yield Fault(
            what=f"the seeds are {', '.join(map(str, wanted))}, not 0, 1, 2 … without gaps",
            where=f"{SPEC}: seeds",
            hint="run and submit the seeds from 0 on; which ones are reported is not the author's choice",
        )
    for (task, *group), seeds in _seeds(bundle).items():
        if (seeds - set(wanted)) or (task not in demo_tasks() and seeds != set(wanted)):
            found = ", ".join(map(str, sorted(seeds)))
            yield Fault(
                what=f"the cell has the seeds {found}, the submission declares {', '.join(map(str, wanted))}",
                where="/".join(("results", task, *group[:2])),
                hint="submit every seed of every cell, diverged ones included",
            )


def check_twins(bundle: Bundle, fingerprints: Mapping[str, str | None]) -> Iterable[Fault]:
    """No two seeds with the same lists."""
    seen: dict[tuple[str, ...], Result] = {}
    for result in bundle.results:
        mark, cell = fingerprints.get(result.place), result.record.cell
        if mark is None or cell.method in SAME_FOR_EVERY_SEED:
            continue
        key = (cell.task, result.record.backbone_label, cell.method, cell.scale, cell.ruleset, mark)
        first = seen.setdefault(key, result)
        if first.record.cell.seed != cell.seed:
            yield Fault(
                what=f"the seeds {first.record.cell.seed} and {cell.seed} have the same per-user table",
                where=f"{first.table_path} and {result.table_path}",
                hint="two trainings never give the same lists throughout: run the second seed",
            )


def check_oracles(bundle: Bundle) -> Iterable[Fault]:
    """Results that were held against the same retrained models imply the same numbers of them."""
    seen: dict[tuple[object, ...], tuple[str, float]] = {}
    for result in bundle.results:
        stages = tuple(stage.digest for stage in result.record.stages if stage.name.startswith("evaluation of retrain"))
        values = {(v.metric, v.group, v.beam): v.value for v in result.record.metrics}
        for (name, group, beam), gap in values.items():
            base = values.get((name.removeprefix("gap."), group, beam))
            if not stages or not name.startswith("gap.") or gap is None or base is None:
                continue
            place, oracle = seen.setdefault((stages, name, group, beam), (result.place, base - gap))
            if abs(oracle - (base - gap)) > 1e-9:
                yield Fault(
                    what=f"{name} is taken against another number of the retrained model than in {place}",
                    where=f"{result.record_path}: metrics",
                    hint="numbers are not edited: submit what `bench run` wrote",
                )
                break


def fingerprint(table: pd.DataFrame) -> str | None:
    """A digest of what the lists found; None where they found nothing, as seeds may agree in that."""
    if not (table["rank"] > 0).any():
        return None
    state = hashlib.blake2b(digest_size=16)
    for column in _LISTS:
        state.update(table[column].to_numpy(dtype="<i8").tobytes())
    return state.hexdigest()


def _seeds(bundle: Bundle) -> dict[tuple[str, ...], set[int]]:
    out: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for result in bundle.results:
        cell = result.record.cell
        # A stream of requests is a cell of its own.
        names = (cell.task, cell.backbone, cell.method, result.record.backbone_label, cell.scale, cell.ruleset)
        out[*names, str(cell.requests)].add(cell.seed)
    return dict(out)
