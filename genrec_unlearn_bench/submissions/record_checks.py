"""Checks of a submission's files and records: listed, sound by themselves, and in agreement with each other."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.data.forget import TaskManifest, check_manifest, manifest_digest
from genrec_unlearn_bench.data.tasks import find_task, tasks
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.pipeline.record import SCHEMA_VERSION, RunRecord
from genrec_unlearn_bench.pipeline.results import MEASUREMENTS, PER_USER, RECORD, result_folder, table_place
from genrec_unlearn_bench.reporting.protocol import PROTOCOLS
from genrec_unlearn_bench.submissions.bundle import Bundle, Finding, Result, check
from genrec_unlearn_bench.submissions.inventory import VERIFICATION
from genrec_unlearn_bench.submissions.plain_text import odd_text, values_of
from genrec_unlearn_bench.submissions.publish import MANIFESTS, paths_in, plain_command, plain_platform
from genrec_unlearn_bench.submissions.spec import SPEC, Submission

DEMO = "demo"
"""The dataset that everybody has, as it is generated."""
TRIALS = 12
"""The most configurations that may be tried for the ruleset ``tuned`` (protocol, sec. 5). Equal to
``pipeline.tune.TRIALS``, which cannot be imported here without torch; a test compares them."""
REPORTED_SEEDS = range(9000)
"""Seeds that a result may be reported at; from 9000 (``TUNING_SEED``) on they are for tuning."""

UNEDITED = "numbers are not edited: submit what `bench run` wrote"
_PUBLISH = "publish the result again with `bench submission new`"
_MANIFEST = "submit the manifest as `bench run` wrote it, and only results that were made on it"
_MOST_THREADS = 4096


@cache
def demo_tasks() -> frozenset[str]:
    return frozenset(name for name, task in tasks().items() if task.dataset == DEMO)


def demo_results(bundle: Bundle) -> list[Result]:
    """The demo's results, the method's own before its variants', smallest seed first."""
    own = bundle.spec.method.name if bundle.spec else ""
    demo = [one for one in bundle.results if one.record.cell.task in demo_tasks()]
    return sorted(demo, key=lambda one: (one.record.cell.method != own, one.record.cell.seed, one.place))


@check("submission", "the demo cell is there")
def check_demo(bundle: Bundle, spec: Submission) -> Iterator[Finding]:
    if not demo_results(bundle):
        hint = f"bench run --task demo-brand --method {spec.method.name}, and submit it too"
        yield "results/", "there is no result on the demo, which is what everybody can run again", hint


@check(
    "submission",
    "files are those that submission.yaml lists",
    "if the change is meant, renew the list with `bench submission new`; otherwise restore the file",
)
def check_contents(bundle: Bundle, spec: Submission) -> Iterator[Finding]:
    listed = spec.contents
    there = {path: digest for path, digest in bundle.inventory.digests.items() if path not in (SPEC, VERIFICATION)}
    for path in sorted(listed.keys() | there.keys()):
        if path not in there:
            yield path, "a file that submission.yaml lists is not there"
        elif path not in listed:
            yield path, "a file is not listed in submission.yaml"
        elif there[path] != listed[path]:
            yield path, "a file was changed after submission.yaml was made"


@check("bundle", "tables, per user and of measurements, are those that records name", "submit them unchanged")
def check_tables(bundle: Bundle) -> Iterator[Finding]:
    named = {}
    for result in bundle.results:
        named[result.table_path] = result.record.per_user_digest
        named |= {f"{result.place}/{table_place(name)}": digest for name, digest in result.record.tables.items()}
    broken = {fault.where for fault in bundle.faults["records"]}
    for path, digest in bundle.inventory.digests.items():
        folder, _, name = path.rpartition("/")
        is_table = f"/{MEASUREMENTS}/" in path or (name == PER_USER and f"{folder}/{RECORD}" not in broken)
        if is_table and not named.get(path):
            yield path, "there is a table that no record names"
        elif is_table and named[path] != digest:
            yield f"{path}, and its digest in {RECORD}", "the table is not the one that the record names"
    for path in named:
        if f"/{MEASUREMENTS}/" in path and path not in bundle.inventory.digests:
            yield path, "the measurement's table is missing"


@check("bundle", "task manifests are what the tasks resolve to", _MANIFEST)
def check_manifests(bundle: Bundle) -> Iterator[Finding]:
    used = {result.record.cell.task for result in bundle.results}
    for task, manifest in bundle.manifests.items():
        where = f"{MANIFESTS}/{task}.json"
        if manifest.task != task:
            yield where, f"the manifest is of the task {manifest.task!a}"
            continue
        if manifest_digest(manifest) != manifest.digest:
            yield where, "the manifest was changed: it does not match its own digest"
            continue
        for place, value in values_of(manifest.model_dump(mode="json")):
            if isinstance(value, str) and (odd := odd_text(value)):
                yield f"{where}: {place}", f"a text of the manifest {odd}"
        if task not in used and not bundle.is_tree:
            yield where, "no result is of this manifest's task", "remove it"
        if (known := known_manifest(bundle, task)) is None:
            continue
        try:
            check_manifest(known, manifest)
        except BenchError as fault:
            yield f"{where} ({fault.where})", f"the manifest is not what the task {task!r} resolves to: {fault.what}"
            continue
        if known.version != manifest.version:
            what = f"the manifest is of version {manifest.version} of the task, its version here is {known.version}"
            yield where, what, "run the task's present version"


@check("result", "results belong to their manifests", _MANIFEST)
def check_task(bundle: Bundle, result: Result) -> Iterator[Finding]:
    record = result.record
    manifest = bundle.manifests.get(record.cell.task)
    path = f"{MANIFESTS}/{record.cell.task}.json"
    if manifest is None:
        if not any(fault.where == path for fault in bundle.faults["manifests"]):
            yield path, f"there is no manifest of the task {record.cell.task!a}"
        return
    if record.task_digest != manifest.digest:
        what = "the result was made on another resolution of its task than the manifest's"
        yield f"{result.at('task_digest')}, and {path}: digest", what
    if record.dataset_digest != manifest.dataset_digest:
        what = "the result was made on another dataset than the manifest's"
        yield f"{result.at('dataset_digest')}, and {path}: dataset_digest", what


@check("result", "protocol and schema are this suite's", "run the cell again with this version of the suite")
def check_versions(bundle: Bundle, result: Result) -> Iterator[Finding]:
    made, schema = result.record.protocol_version, result.record.schema_version
    # Published results keep the protocol that they were made under; what is new follows the present one.
    if made != PROTOCOL_VERSION and not (bundle.is_tree and made in PROTOCOLS):
        what = f"the result was made under protocol version {made}, this is {PROTOCOL_VERSION}"
        yield result.at("protocol_version"), what, f"run it again with this version: {result.record.command}"
    if schema != SCHEMA_VERSION:
        yield result.at("schema_version"), f"the record has schema version {schema}, this suite reads {SCHEMA_VERSION}"


@check("result", "folders are where their records say", "leave folders as `bench submission new` writes them")
def check_place(bundle: Bundle, result: Result) -> Iterator[Finding]:
    wanted = result_folder(Path() if bundle.is_tree else Path("results"), result.record).as_posix()
    if result.place != wanted:
        yield result.place, f"the folder is not where its record belongs: {wanted}"


@check("result", "commands repeat their own cell", "submit the run that the record describes")
def check_command(bundle: Bundle, result: Result) -> Iterator[Finding]:
    record, cell, where = result.record, result.record.cell, result.at("command")
    if not record.command.startswith("bench run "):
        yield where, "the command is no call of `bench run`", _PUBLISH
        return
    try:
        words = shlex.split(record.command)
    except ValueError:
        words = []
    given = {"--requests": "1", **{one: other for one, other in pairwise(words) if one.startswith("--")}}
    wanted = {"--seed": str(cell.seed), "--scale": cell.scale, "--requests": str(cell.requests)}
    if not given.get("--task", "").endswith((".yaml", ".yml")):
        wanted["--task"] = cell.task
    if ".py" not in given.get("--method", ""):
        wanted["--method"] = cell.method
    if cell.ruleset != "default":
        wanted["--ruleset"] = cell.ruleset
    for option, value in wanted.items():
        if given.get(option) != value:
            yield where, f"the command has {option} {given.get(option, '(none)')}, the record is of {value}"
    if plain_command(record.command) != record.command:
        yield where, "the command names folders or files of somebody's machine", _PUBLISH


@check(
    "result",
    "texts are plain and name no machine, and numbers are finite",
    "a run without a finite number says null, and why in a note",
)
def check_texts(bundle: Bundle, result: Result) -> Iterator[Finding]:
    for place, value in values_of(result.record.model_dump(mode="python")):
        where = result.at(ascii(place)[1:-1])
        if isinstance(value, str) and (odd := odd_text(value)):
            yield where, f"a text {odd}", _PUBLISH
        if isinstance(value, float) and not math.isfinite(value):
            yield where, f"a number is {value}"
    for place, path in paths_in(result.record):
        if place != "command":
            what = f"the record holds the path {path[:80]!a} of somebody's machine"
            yield result.at(place), what, "run it with a relative path there, and publish it"
    platform = result.record.environment.platform
    if plain_platform(platform) != platform:
        yield result.at("environment.platform"), "the platform names the build of somebody's kernel", _PUBLISH


@check("result", "costs are possible and agree", f"costs are measured: {UNEDITED}")
def check_cost(bundle: Bundle, result: Result) -> Iterator[Finding]:
    cost, threads = result.record.cost, result.record.environment.threads
    for name, value in cost:
        if isinstance(value, int | float) and value < 0:
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


@check("bundle", "no cell is claimed twice", "submit one of them; which one is not chosen by its numbers")
def check_same_cell(bundle: Bundle) -> Iterator[Finding]:
    cells = defaultdict(list)
    for result in bundle.results:
        cells[(result.record.cell.model_dump_json(), result.record.backbone_label)].append(result.place)
    for places in cells.values():
        if len(places) > 1:
            yield ", ".join(places), f"{len(places)} results claim the same cell"


@check("bundle", "no result is at a tuning seed", "report at seeds 0, 1, 2 …, and tune at others (from 9000 on)")
def check_tuning_seeds(bundle: Bundle) -> Iterator[Finding]:
    tuned = set(bundle.spec.tuning.seeds) if bundle.spec else set()
    for result in bundle.results:
        seed = result.record.cell.seed
        if seed not in REPORTED_SEEDS or seed in tuned:
            yield result.at("cell.seed"), f"the result is reported at seed {seed}, which is for tuning"


@check(
    "submission",
    "every cell has the declared seeds, 0 … n - 1; on the demo some of them do",
    "submit every seed of every cell, diverged ones included",
)
def check_seeds(bundle: Bundle, spec: Submission) -> Iterator[Finding]:
    wanted = spec.seeds
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


@check(
    "bundle",
    "recommenders are set up as everybody's",
    "run it with the settings of that result's command, so that only the method differs",
)
def check_recommenders(bundle: Bundle) -> Iterator[Finding]:
    """One configuration of backbone, tokenizer and encoder for each task, backbone and scale: the leaderboard's own,
    where it has results of that kind, else the first result's."""
    first: dict[tuple[str, ...], tuple[str, RunRecord]] = {}
    for result in bundle.results:
        record, cell = result.record, result.record.cell
        key = (cell.task, cell.backbone, record.backbone_label, cell.scale)
        if key not in first:
            known = None if bundle.is_tree else _known_record(bundle, record)
            first[key] = known or (result.place, record)
        place, other = first[key]
        for name in ("backbone_config", "sid_config", "encoder"):
            if getattr(other, name) != getattr(record, name):
                shown = _first_difference(name, getattr(other, name), getattr(record, name))
                yield result.at(name), f"the recommender is set up differently than in {place}: {shown}"
                break


@check(
    "bundle",
    "configurations are counted and within the rules",
    "tune with `bench tune`, which counts its trials, and run again",
)
def check_tuning(bundle: Bundle) -> Iterator[Finding]:
    first: dict[str, tuple[str, object]] = {}
    for result in bundle.results:
        cell, config = result.record.cell, result.record.method_config
        cost, where = result.record.cost, result.at("cost.tuning_trials")
        if cell.ruleset == "fixed":
            place, other = first.setdefault(cell.method, (result.place, config))
            if other != config:
                what = f"the ruleset fixed allows one configuration, this result has another one than {place}"
                hint = "run all cells with one configuration, or submit them as tuned"
                yield result.at("method_config"), what, hint
        if cell.ruleset != "tuned":
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


def known_manifest(bundle: Bundle, task: str) -> TaskManifest | None:
    """The manifest a task resolves to: computed for the demo, taken from the leaderboard's results for others."""
    if task in demo_tasks():
        return _demo_manifest(task)
    path = bundle.leaderboard / "results" / MANIFESTS / f"{task}.json"
    try:
        return TaskManifest.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


@cache
def _demo_manifest(task: str) -> TaskManifest:
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.concepts import resolve
    from genrec_unlearn_bench.data.prepare import prepare
    from genrec_unlearn_bench.progress import Progress

    return resolve(find_task(task), prepare(find_dataset(DEMO), None, Progress())).manifest


def _known_record(bundle: Bundle, record: RunRecord) -> tuple[str, RunRecord] | None:
    """The leaderboard's first result of that task, backbone and scale, with its place."""
    for folder, found in published_records(bundle.leaderboard / "results", record.cell.task, record.cell.backbone):
        if (found.cell.scale, found.backbone_label) == (record.cell.scale, record.backbone_label):
            return f"leaderboard/{folder.relative_to(bundle.leaderboard).as_posix()}", found
    return None


def published_records(root: Path, task: str, backbone: str) -> Iterator[tuple[Path, RunRecord]]:
    """The results of a task and backbone that can be read, with their folders."""
    for path in sorted((root / task / backbone).rglob(RECORD)):
        with suppress(OSError, ValidationError):
            yield path.parent, RunRecord.model_validate_json(path.read_bytes())


def _first_difference(name: str, there: object, here: object) -> str:
    """The first field that differs, as ``training.epochs is 40 there and 4 here``."""
    while isinstance(there, dict) and isinstance(here, dict):
        key = next(key for key in (*there, *here) if there.get(key) != here.get(key))
        name, there, here = f"{name}.{key}", there.get(key), here.get(key)
    return f"{name} is {str(there)[:60]!a} there and {str(here)[:60]!a} here"
