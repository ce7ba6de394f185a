"""Is each record sound by itself: its version, its place, its command, its texts and its costs."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.pipeline.record import SCHEMA_VERSION, RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD, result_folder
from genrec_unlearn_bench.submissions.bundle import Bundle, Result
from genrec_unlearn_bench.submissions.faults import Fault, is_finite, odd_text, values_of
from genrec_unlearn_bench.submissions.publish import paths_in, plain_command, plain_platform

__all__ = [
    "check_command",
    "check_cost",
    "check_machine",
    "check_place",
    "check_recommenders",
    "check_same_cell",
    "check_texts",
    "check_versions",
]

_RUN_AGAIN = "run the cell again with this version of the suite"
_PUBLISH = "publish the result again with `bench submission new`"
_MOST_SECONDS = 1e8
_MOST_STEPS = 10**9
_MOST_MIB = 1e8
_MOST_THREADS = 4096


def check_versions(bundle: Bundle, result: Result) -> Iterable[Fault]:
    """Results of two protocols never share a table."""
    record = result.record
    if record.protocol_version != PROTOCOL_VERSION:
        yield Fault(
            what=f"the result was made under protocol version {record.protocol_version}, this is {PROTOCOL_VERSION}",
            where=f"{result.record_path}: protocol_version",
            hint=_RUN_AGAIN,
        )
    if record.schema_version != SCHEMA_VERSION:
        yield Fault(
            what=f"the record has schema version {record.schema_version}, this suite reads {SCHEMA_VERSION}",
            where=f"{result.record_path}: schema_version",
            hint=_RUN_AGAIN,
        )


def check_place(bundle: Bundle, result: Result) -> Iterable[Fault]:
    """The folder is where its record says."""
    top = Path() if bundle.is_tree else Path("results")
    wanted = result_folder(top, result.record).as_posix()
    if result.place != wanted:
        yield Fault(
            what=f"the folder is not where its record belongs: {wanted}",
            where=result.place,
            hint="leave folders as `bench submission new` writes them; task, method, seed and key are part of the path",
        )


def check_command(bundle: Bundle, result: Result) -> Iterable[Fault]:
    """The command repeats this very cell."""
    record, cell = result.record, result.record.cell
    given = {"--requests": "1", **_options(record.command)}
    wanted = {"--seed": str(cell.seed), "--scale": cell.scale, "--requests": str(cell.requests)}
    wanted |= {"--task": cell.task} if not given.get("--task", "").endswith((".yaml", ".yml")) else {}
    wanted |= {"--method": cell.method} if ".py" not in given.get("--method", "") else {}
    wanted |= {"--ruleset": cell.ruleset} if cell.ruleset != "default" else {}
    if not record.command.startswith("bench run "):
        yield Fault(what="the command is no call of `bench run`", where=f"{result.record_path}: command", hint=_PUBLISH)
        return
    for option, value in wanted.items():
        if given.get(option) != value:
            yield Fault(
                what=f"the command has {option} {given.get(option, '(none)')}, the record is of {value}",
                where=f"{result.record_path}: command",
                hint="results are not relabelled: submit the run that the record describes",
            )
    if plain_command(record.command) != record.command:
        yield Fault(
            what="the command names folders or files of somebody's machine",
            where=f"{result.record_path}: command",
            hint=_PUBLISH,
        )


def check_machine(bundle: Bundle, result: Result) -> Iterable[Fault]:
    """No path and no kernel build of the machine it ran on."""
    for place, path in paths_in(result.record):
        if place != "command":
            yield Fault(
                what=f"the record holds the path {path[:80]!a} of somebody's machine",
                where=f"{result.record_path}: {place}",
                hint="run it with a relative path there, and publish it with `bench submission new`",
            )
    platform = result.record.environment.platform
    if plain_platform(platform) != platform:
        yield Fault(
            what="the platform names the build of somebody's kernel",
            where=f"{result.record_path}: environment.platform",
            hint=_PUBLISH,
        )


def check_texts(bundle: Bundle, result: Result) -> Iterable[Fault]:
    """Plain text and finite numbers, everywhere."""
    for place, value in values_of(result.record.model_dump(mode="python")):
        if isinstance(value, str) and (odd := odd_text(value)):
            yield Fault(what=f"a text {odd}", where=f"{result.record_path}: {ascii(place)[1:-1]}", hint=_PUBLISH)
        if not is_finite(value):
            yield Fault(
                what=f"a number is {value}",
                where=f"{result.record_path}: {ascii(place)[1:-1]}",
                hint="a run without a finite number says null, and why in a note",
            )


def check_cost(bundle: Bundle, result: Result) -> Iterable[Fault]:
    """Costs are possible, agree with the cost metrics, and the share is what its parts say."""
    cost, where = result.record.cost, f"{result.record_path}: cost"
    limits = {
        "unlearn_seconds": _MOST_SECONDS,
        "retrain_seconds": _MOST_SECONDS,
        "peak_memory_mib": _MOST_MIB,
        "steps": _MOST_STEPS,
        "tuning_trials": _MOST_STEPS,
        "tuning_seconds": _MOST_SECONDS,
    }
    hint = "costs are measured by `bench run` and not edited: run it again"
    for name, most in limits.items():
        value = getattr(cost, name)
        if value is not None and not 0 <= value <= most:
            yield Fault(what=f"{name} is {value}, which no run can cost", where=f"{where}.{name}", hint=hint)
    if not 1 <= result.record.environment.threads <= _MOST_THREADS:
        what = f"the run took {result.record.environment.threads} threads"
        yield Fault(what=what, where=f"{result.record_path}: environment.threads", hint=hint)
    if cost.retrain_seconds and cost.share_of_retraining is not None:
        share = cost.unlearn_seconds / cost.retrain_seconds
        if not math.isclose(share, cost.share_of_retraining, rel_tol=1e-9, abs_tol=1e-12):
            yield Fault(
                what=f"share_of_retraining is {cost.share_of_retraining:.6g}, its parts give {share:.6g}",
                where=f"{where}.share_of_retraining",
                hint=hint,
            )
    for metric, value in _cost_metrics(result.record).items():
        found = [one.value for one in result.record.metrics if one.metric == metric]
        if found != [value]:
            yield Fault(what=f"the metric {metric} is not the record's own cost", where=where, hint=hint)


def check_same_cell(bundle: Bundle) -> Iterable[Fault]:
    """No two results claim the same cell."""
    cells = defaultdict(list)
    for result in bundle.results:
        cells[(result.record.cell.model_dump_json(), result.record.backbone_label)].append(result.place)
    for places in cells.values():
        if len(places) > 1:
            yield Fault(
                what=f"{len(places)} results claim the same cell",
                where=", ".join(places),
                hint="submit one of them; which one is not chosen by its numbers",
            )


def _cost_metrics(record: RunRecord) -> dict[str, float | None]:
    cost = record.cost
    return {
        "cost.unlearn-seconds": cost.unlearn_seconds,
        "cost.share-of-retraining": cost.share_of_retraining,
        "cost.peak-memory": cost.peak_memory_mib,
        "cost.steps": float(cost.steps),
        "cost.tuning-trials": float(cost.tuning_trials),
    }


def _options(command: str) -> dict[str, str]:
    try:
        words = shlex.split(command)
    except ValueError:
        return {}
    return {one: other for one, other in pairwise(words) if one.startswith("--")}


_SETTINGS = ("backbone_config", "sid_config", "encoder")


def check_recommenders(bundle: Bundle) -> Iterable[Fault]:
    """One configuration of backbone, tokenizer and encoder for each task, backbone and scale: the leaderboard's own,
    where it has results of that kind, else the first result's."""
    first: dict[tuple[str, ...], tuple[str, RunRecord]] = {}
    for result in bundle.results:
        record, cell = result.record, result.record.cell
        key = (cell.task, cell.backbone, record.backbone_label, cell.scale)
        if key not in first:
            known = None if bundle.is_tree else _known(bundle, record)
            first[key] = known or (result.place, record)
        place, other = first[key]
        differing = [name for name in _SETTINGS if getattr(other, name) != getattr(record, name)]
        if differing:
            yield Fault(
                what=f"the recommender is set up differently than in {place}: {_shown(other, record, differing)}",
                where=f"{result.record_path}: {', '.join(differing)}",
                hint="run it with the settings of that result's command, so that only the method differs",
            )


def _known(bundle: Bundle, record: RunRecord) -> tuple[str, RunRecord] | None:
    """A result of the leaderboard's own with the same task, backbone and scale."""
    if bundle.leaderboard is None:
        return None
    cell = record.cell
    folder = bundle.leaderboard / "results" / cell.task / cell.backbone
    for path in sorted(folder.glob(f"*/{cell.scale}-seed*/{RECORD}")):
        found = _read(path)
        if found is not None and found.backbone_label == record.backbone_label:
            return f"leaderboard/results/{path.parent.relative_to(bundle.leaderboard / 'results').as_posix()}", found
    return None


def _read(path: Path) -> RunRecord | None:
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except ValidationError:
        return None


def _shown(one: RunRecord, other: RunRecord, names: list[str]) -> str:
    """The first field that differs, as ``training.epochs 40 there, 4 here``."""
    there, here = getattr(one, names[0]), getattr(other, names[0])
    path = [names[0]]
    while isinstance(there, dict) and isinstance(here, dict):
        name = next(name for name in (*there, *here) if there.get(name) != here.get(name))
        there, here = there.get(name), here.get(name)
        path.append(name)
    return f"{'.'.join(path)} is {str(there)[:60]!a} there and {str(here)[:60]!a} here"
