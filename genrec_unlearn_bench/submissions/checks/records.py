"""Is each record sound by itself: its version, its place, its command, its texts and its costs."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.pipeline.record import SCHEMA_VERSION, RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD, result_folder
from genrec_unlearn_bench.submissions.bundle import Bundle, Result
from genrec_unlearn_bench.submissions.faults import Finding, odd_text, values_of
from genrec_unlearn_bench.submissions.publish import paths_in, plain_command, plain_platform

_PUBLISH = "publish the result again with `bench submission new`"
_MOST = dict.fromkeys(("unlearn_seconds", "retrain_seconds", "tuning_seconds", "peak_memory_mib"), 1e8)
_MOST |= dict.fromkeys(("steps", "tuning_trials"), 1e9)
_MOST_THREADS = 4096
_SETTINGS = ("backbone_config", "sid_config", "encoder")


def check_versions(bundle: Bundle, result: Result) -> Iterator[Finding]:
    made, schema = result.record.protocol_version, result.record.schema_version
    if made != PROTOCOL_VERSION:
        what = f"the result was made under protocol version {made}, this is {PROTOCOL_VERSION}"
        yield result.at("protocol_version"), what
    if schema != SCHEMA_VERSION:
        yield result.at("schema_version"), f"the record has schema version {schema}, this suite reads {SCHEMA_VERSION}"


def check_place(bundle: Bundle, result: Result) -> Iterator[Finding]:
    wanted = result_folder(Path() if bundle.is_tree else Path("results"), result.record).as_posix()
    if result.place != wanted:
        yield result.place, f"the folder is not where its record belongs: {wanted}"


def check_command(bundle: Bundle, result: Result) -> Iterator[Finding]:
    record, cell, where = result.record, result.record.cell, result.at("command")
    given = {"--requests": "1", **_options(record.command)}
    wanted = {"--seed": str(cell.seed), "--scale": cell.scale, "--requests": str(cell.requests)}
    wanted |= {"--task": cell.task} if not given.get("--task", "").endswith((".yaml", ".yml")) else {}
    wanted |= {"--method": cell.method} if ".py" not in given.get("--method", "") else {}
    wanted |= {"--ruleset": cell.ruleset} if cell.ruleset != "default" else {}
    if not record.command.startswith("bench run "):
        yield where, "the command is no call of `bench run`", _PUBLISH
        return
    for option, value in wanted.items():
        if given.get(option) != value:
            yield where, f"the command has {option} {given.get(option, '(none)')}, the record is of {value}"
    if plain_command(record.command) != record.command:
        yield where, "the command names folders or files of somebody's machine", _PUBLISH


def check_machine(bundle: Bundle, result: Result) -> Iterator[Finding]:
    for place, path in paths_in(result.record):
        if place != "command":
            yield result.at(place), f"the record holds the path {path[:80]!a} of somebody's machine"
    platform = result.record.environment.platform
    if plain_platform(platform) != platform:
        yield result.at("environment.platform"), "the platform names the build of somebody's kernel", _PUBLISH


def check_texts(bundle: Bundle, result: Result) -> Iterator[Finding]:
    for place, value in values_of(result.record.model_dump(mode="python")):
        where = result.at(ascii(place)[1:-1])
        if isinstance(value, str) and (odd := odd_text(value)):
            yield where, f"a text {odd}", _PUBLISH
        if isinstance(value, float) and not math.isfinite(value):
            yield where, f"a number is {value}"


def check_cost(bundle: Bundle, result: Result) -> Iterator[Finding]:
    cost, threads = result.record.cost, result.record.environment.threads
    for name, most in _MOST.items():
        value = getattr(cost, name)
        if value is not None and not 0 <= value <= most:
            yield result.at(f"cost.{name}"), f"{name} is {value}, which no run can cost"
    if not 1 <= threads <= _MOST_THREADS:
        yield result.at("environment.threads"), f"the run took {threads} threads"
    if cost.retrain_seconds and cost.share_of_retraining is not None:
        share = cost.unlearn_seconds / cost.retrain_seconds
        if not math.isclose(share, cost.share_of_retraining, rel_tol=1e-9, abs_tol=1e-12):
            what = f"share_of_retraining is {cost.share_of_retraining:.6g}, its parts give {share:.6g}"
            yield result.at("cost.share_of_retraining"), what
    for metric, value in (
        ("cost.unlearn-seconds", cost.unlearn_seconds),
        ("cost.share-of-retraining", cost.share_of_retraining),
        ("cost.peak-memory", cost.peak_memory_mib),
        ("cost.steps", float(cost.steps)),
        ("cost.tuning-trials", float(cost.tuning_trials)),
    ):
        if [one.value for one in result.record.metrics if one.metric == metric] != [value]:
            yield result.at("cost"), f"the metric {metric} is not the record's own cost"


def check_same_cell(bundle: Bundle) -> Iterator[Finding]:
    cells = defaultdict(list)
    for result in bundle.results:
        cells[(result.record.cell.model_dump_json(), result.record.backbone_label)].append(result.place)
    for places in cells.values():
        if len(places) > 1:
            yield ", ".join(places), f"{len(places)} results claim the same cell"


def check_recommenders(bundle: Bundle) -> Iterator[Finding]:
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
            shown = _first_difference(other, record, differing[0])
            yield result.at(", ".join(differing)), f"the recommender is set up differently than in {place}: {shown}"


def _options(command: str) -> dict[str, str]:
    try:
        words = shlex.split(command)
    except ValueError:
        return {}
    return {one: other for one, other in pairwise(words) if one.startswith("--")}


def _known(bundle: Bundle, record: RunRecord) -> tuple[str, RunRecord] | None:
    cell, root = record.cell, bundle.leaderboard / "results"
    for path in sorted((root / cell.task / cell.backbone).glob(f"*/{cell.scale}-seed*/{RECORD}")):
        try:
            found = RunRecord.model_validate_json(path.read_bytes())
        except ValidationError:
            continue
        if found.backbone_label == record.backbone_label:
            return f"leaderboard/results/{path.parent.relative_to(root).as_posix()}", found
    return None


def _first_difference(one: RunRecord, other: RunRecord, name: str) -> str:
    """The first field that differs, as ``training.epochs 40 there, 4 here``."""
    there, here = getattr(one, name), getattr(other, name)
    path = [name]
    while isinstance(there, dict) and isinstance(here, dict):
        name = next(name for name in (*there, *here) if there.get(name) != here.get(name))
        there, here = there.get(name), here.get(name)
        path.append(name)
    return f"{'.'.join(path)} is {str(there)[:60]!a} there and {str(here)[:60]!a} here"
