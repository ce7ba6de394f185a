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

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.config import read_json
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.forget import TaskManifest, check_manifest, manifest_digest
from genrec_unlearn_bench.data.tasks import find_task, tasks
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.pipeline.record import SCHEMA_VERSION, RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD, result_folder, table_place
from genrec_unlearn_bench.registry import NAME
from genrec_unlearn_bench.reporting.measure import RECORDED_COSTS
from genrec_unlearn_bench.reporting.protocol import PROTOCOLS
from genrec_unlearn_bench.reporting.results import SCALES
from genrec_unlearn_bench.submissions.bundle import VERIFICATION, Bundle, Finding, Result, check
from genrec_unlearn_bench.submissions.plain_text import odd_text, values_of
from genrec_unlearn_bench.submissions.publish import MANIFESTS, paths_in, plain_command, plain_platform
from genrec_unlearn_bench.submissions.spec import SPEC, Submission
from genrec_unlearn_bench.tuning.rule import TRIALS

DEMO = "demo"
"""The dataset that everybody has, as it is generated."""

UNEDITED = "numbers are not edited: submit what `bench run` wrote"
_PUBLISH = "publish the result again with `bench submission new`"
_LOCAL = "run it again without the path; a checkpoint that others can load has a name on the Hub (owner/model@revision)"
_MOST_THREADS = 4096


@cache
def demo_tasks() -> frozenset[str]:
    return frozenset(name for name, task in tasks().items() if task.dataset == DEMO)


def demo_results(bundle: Bundle) -> list[Result]:
    """The demo's results, the method's own before its variants', smallest seed first."""
    own = bundle.spec.method.name if bundle.spec else ""
    demo = [one for one in bundle.results if one.record.cell.task in demo_tasks()]
    return sorted(demo, key=lambda one: (one.record.cell.method != own, one.record.cell.seed, one.place))


@check("submission", "run the method on demo-brand, and submit it too")
def check_demo(bundle: Bundle, spec: Submission) -> Iterator[Finding]:
    if not demo_results(bundle):
        yield "results/", "there is no result on the demo, which is what everybody can run again"


@check("submission", "renew the list with `bench submission new`, or restore the file")
def check_contents(bundle: Bundle, spec: Submission) -> Iterator[Finding]:
    there = {path: digest for path, digest in bundle.digests.items() if path not in (SPEC, VERIFICATION)}
    for path in sorted(spec.contents.keys() | there.keys()):
        if spec.contents.get(path) != there.get(path):
            yield path, "the file was added, removed or changed after submission.yaml was made"


@check("bundle", "submit tables as `bench run` wrote them")
def check_tables(bundle: Bundle) -> Iterator[Finding]:
    named = {}
    for result in bundle.results:
        named[result.table_path] = result.record.per_user_digest
        named |= {f"{result.place}/{table_place(name)}": digest for name, digest in result.record.tables.items()}
    there = {path: one for path, one in bundle.digests.items() if path.endswith((".parquet", ".csv"))}
    for path in sorted(named.keys() | there.keys()):
        if named.get(path, "") != there.get(path, ""):
            yield path, f"the table is not the one that its {RECORD} names"


@check("bundle", "submit the manifest as `bench run` wrote it, and only results that were made on it")
def check_manifests(bundle: Bundle) -> Iterator[Finding]:
    for task, manifest in bundle.manifests.items():
        where, known = f"{MANIFESTS}/{task}.json", known_manifest(bundle, task)
        if manifest.task != task or manifest_digest(manifest) != manifest.digest:
            yield where, "the manifest does not match its name, or its own digest"
        for place, value in values_of(manifest.model_dump(mode="json")):
            if isinstance(value, str) and (odd := odd_text(value)):
                yield f"{where}: {place}", f"a text of the manifest {odd}"
        try:
            if known is not None:
                check_manifest(known, manifest)
        except BenchError as fault:
            yield f"{where} ({fault.where})", f"the manifest is not what the task {task!r} resolves to: {fault.what}"
        if known is not None and known.version != manifest.version:
            yield where, f"the manifest is of version {manifest.version} of the task, here it is {known.version}"
    for result in bundle.results:
        record, found = result.record, bundle.manifests.get(result.record.cell.task)
        if found is None or (record.task_digest, record.dataset_digest) != (found.digest, found.dataset_digest):
            yield result.at("task_digest"), "the result was made on another task or dataset than its manifest's"


@check("result", "run and publish the cell again with this version of the suite")
def check_versions(bundle: Bundle, result: Result) -> Iterator[Finding]:
    made, schema, scale = result.record.protocol_version, result.record.schema_version, result.record.cell.scale
    if scale not in SCALES:
        yield result.at("cell.scale"), f"there is no scale {scale!r}", f"the scales are {', '.join(SCALES)}"
    # Published results keep the protocol that they were made under; what is new follows the present one.
    if made != PROTOCOL_VERSION and not (bundle.is_tree and made in PROTOCOLS):
        what = f"the result was made under protocol version {made}, this is {PROTOCOL_VERSION}"
        yield result.at("protocol_version"), what, f"run it again with this version: {result.record.command}"
    if schema != SCHEMA_VERSION:
        yield result.at("schema_version"), f"the record has schema version {schema}, this suite reads {SCHEMA_VERSION}"
    wanted = result_folder(
        Path() if bundle.is_tree else Path("results"), result.record.cell, result.record.key
    ).as_posix()
    if result.place != wanted:
        yield result.place, f"the folder is not where its record belongs: {wanted}"


@check("result", "submit the run that the record describes")
def check_command(bundle: Bundle, result: Result) -> Iterator[Finding]:
    cell, where, words = result.record.cell, result.at("command"), list[str]()
    with suppress(ValueError):
        words = shlex.split(result.record.command)
    if words[:2] != ["bench", "run"]:
        yield where, "the command is no call of `bench run`", _PUBLISH
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


@check("result", _PUBLISH)
def check_texts(bundle: Bundle, result: Result) -> Iterator[Finding]:
    for place, value in values_of(result.record.model_dump(mode="python")):
        where = result.at(ascii(place)[1:-1])
        if isinstance(value, str) and (odd := odd_text(value)):
            yield where, f"a text {odd}"
        if isinstance(value, float) and not math.isfinite(value):
            yield where, f"a number is {value}", "a run without a finite number says null, and why in a note"
    published = plain_command(result.record.command) == result.record.command
    for place, path in paths_in(result.record):
        hint = _PUBLISH if place == "command" and not published else _LOCAL
        yield result.at(place), f"the record holds the path {path[:80]!a} of somebody's machine", hint
    platform = result.record.environment.platform
    if plain_platform(platform) != platform:
        yield result.at("environment.platform"), "the platform names the build of somebody's kernel"


@check("result", f"costs are measured: {UNEDITED}")
def check_cost(bundle: Bundle, result: Result) -> Iterator[Finding]:
    cost, threads = result.record.cost, result.record.environment.threads
    if min(value for _, value in cost if isinstance(value, int | float)) < 0 or not 1 <= threads <= _MOST_THREADS:
        yield result.at("cost"), f"no run can cost this: {cost}, {threads} threads"
    if cost.retrain_seconds and cost.share_of_retraining is not None:
        share = cost.unlearn_seconds / cost.retrain_seconds
        if not math.isclose(share, cost.share_of_retraining, rel_tol=1e-9, abs_tol=1e-12):
            what = f"share_of_retraining is {cost.share_of_retraining:.6g}, its parts give {share:.6g}"
            yield result.at("cost.share_of_retraining"), what
    for metric, *values in (
        ("cost.unlearn-seconds", cost.unlearn_seconds),
        ("cost.share-of-retraining", cost.share_of_retraining),
        ("cost.peak-memory", cost.peak_memory_mib),
        ("cost.steps", float(cost.steps)),
        ("cost.tuning-trials", float(cost.tuning_trials)),
        *((derived.metric,) for derived in RECORDED_COSTS),
    ):
        if [one.value for one in result.record.metrics if one.metric == metric] != values:
            yield result.at("cost"), f"the metric {metric} is not the record's own cost"


@check("bundle", "submit one of them; which one is not chosen by its numbers")
def check_same_cell(bundle: Bundle) -> Iterator[Finding]:
    cells = defaultdict(list)
    for result in bundle.results:
        cells[(result.record.cell.model_dump_json(), result.record.backbone_label)].append(result.place)
    for places in cells.values():
        if len(places) > 1:
            yield ", ".join(places), f"{len(places)} results claim the same cell"


@check(
    "submission",
    "submit every seed of every cell from 0 on, diverged ones included: which are reported is not the author's choice",
)
def check_seeds(bundle: Bundle, spec: Submission) -> Iterator[Finding]:
    wanted = spec.seeds
    declared = ", ".join(map(str, wanted))
    if wanted != tuple(range(len(wanted))) or set(wanted) & set(spec.tuning.seeds):
        yield f"{SPEC}: seeds", f"the seeds are {declared}, not 0, 1, 2 … without gaps and without those tuned at"
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


@check("bundle", "run it with the settings of that result's command, so that only the method differs")
def check_recommenders(bundle: Bundle) -> Iterator[Finding]:
    """One configuration of backbone, tokenizer and encoder for each task, backbone and scale: the leaderboard's own,
    where it has results of that kind under the same protocol, else the first result's."""
    first: dict[tuple[str, ...], tuple[str, RunRecord]] = {}
    for result in bundle.results:
        record, cell = result.record, result.record.cell
        key = (cell.task, cell.backbone, record.backbone_label, cell.scale)
        if key not in first and not bundle.is_tree:
            for folder, known in published_records(bundle.leaderboard / "results", cell.task, cell.backbone):
                # Earlier protocols trained otherwise.
                alike = (known.cell.scale, known.backbone_label, known.protocol_version)
                if alike == (cell.scale, record.backbone_label, record.protocol_version):
                    first.setdefault(key, (f"leaderboard/{folder.relative_to(bundle.leaderboard).as_posix()}", known))
        place, other = first.setdefault(key, (result.place, record))
        names = ("backbone_config", "sid_config", "encoder")
        if differing := [name for name in names if getattr(other, name) != getattr(record, name)]:
            what = f"the recommender is set up differently than in {place}: another {', '.join(differing)}"
            yield result.at(differing[0]), what


@check("bundle", "tune with `bench tune`, which counts its trials, and run again")
def check_tuning(bundle: Bundle) -> Iterator[Finding]:
    first: dict[str, tuple[str, object]] = {}
    for result in bundle.results:
        cell, cost, where = result.record.cell, result.record.cost, result.at("cost.tuning_trials")
        if cell.ruleset == "fixed":
            place, config = first.setdefault(cell.method, (result.place, result.record.method_config))
            if config != result.record.method_config:
                what = f"the ruleset fixed allows one configuration, this result has another one than {place}"
                yield result.at("method_config"), what, "run all with one configuration, or submit them as tuned"
        most = TRIALS if cell.ruleset == "tuned" else 0
        if bundle.spec is not None and bundle.spec.tuning.space == "none":
            most = min(most, 1)
        if cost.tuning_trials > most:
            yield where, f"{cost.tuning_trials} configurations were tried, ruleset and declared space allow {most}"
        if cell.ruleset == "tuned" and (cost.tuning_trials < 1 or cost.tuning_seconds <= 0):
            yield where, "a tuned result counts no trial, or no time for it"


def known_manifest(bundle: Bundle, task: str) -> TaskManifest | None:
    """The manifest a task resolves to: computed for the demo, taken from the leaderboard's results for others."""
    if task in demo_tasks():
        return _demo_manifest(task)
    return read_json(TaskManifest, bundle.leaderboard / "results" / MANIFESTS / f"{task}.json")


@cache
def _demo_manifest(task: str) -> TaskManifest:
    from genrec_unlearn_bench.data.concepts import resolve
    from genrec_unlearn_bench.data.prepare import prepare
    from genrec_unlearn_bench.progress import Progress

    return resolve(find_task(task), prepare(find_dataset(DEMO), None, Progress())).manifest


def published_records(root: Path, task: str, backbone: str) -> Iterator[tuple[Path, RunRecord]]:
    """The results of a task and backbone that can be read, with their folders; none for a name that leads out."""
    if all(map(NAME.fullmatch, (task, backbone))):
        for path in sorted((root / task / backbone).rglob(RECORD)):
            if record := read_json(RunRecord, path):
                yield path.parent, record
