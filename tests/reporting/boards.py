"""A small synthetic board with every case that a table can meet, for the tests of tables, LaTeX, HTML and formats.

Numbers come from hashes of names and not from a random generator, so that golden files outlive a new numpy. The planted
cases, with the defaults: ``simnpo`` ties with ``npo``; ``grad-ascent`` diverges at one seed of the first block; ``rmu``
lacks its last seed in the last block; the similarity of ``flat`` is never measured; ``pisces`` was not run on the last
task. All else obeys the suite's invariants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.pipeline.record import Cell, Cost, Environment, RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD
from genrec_unlearn_bench.reporting.board import Board, make_board
from genrec_unlearn_bench.reporting.protocol import find_layout, statistics_protocol
from genrec_unlearn_bench.reporting.results import OWN, Result, Source, result_of
from genrec_unlearn_bench.reporting.tables import Table, make_tables
from tests.reporting.full_metrics import full_metrics, stream_metrics

__all__ = [
    "BACKBONES",
    "METHODS",
    "SEEDS",
    "TASKS",
    "VARIANTS",
    "make_records",
    "make_results",
    "make_synthetic_board",
    "make_synthetic_tables",
    "write_records",
]

TASKS = ("industrial-brand", "sports-brand")
BACKBONES = ("letter", "tiger")
SEEDS = (0, 1, 2, 3, 4)
REFERENCES: Mapping[str, tuple[float, float]] = {
    "original": (1.0, 1.0),
    "retrain": (0.30, 0.99),
    "popularity": (0.15, 0.25),
    "filter": (0.0, 0.98),
    "random-reassign": (0.40, 0.97),
}
METHODS: Mapping[str, tuple[float, float]] = {
    "tracer": (0.28, 0.98),
    "tracer-no-coherence": (0.33, 0.95),
    "tracer-no-reassignment": (0.60, 0.97),
    "npo": (0.45, 0.90),
    "simnpo": (0.45, 0.90),
    "rmu": (0.80, 0.60),
    "flat": (0.65, 0.94),
    "grad-ascent": (0.10, 0.30),
    "pisces": (0.50, 0.93),
}
"""Share of the original's forget and retain hit rates that a row keeps."""
VARIANTS = {"tracer-no-coherence": "tracer", "tracer-no-reassignment": "tracer"}


def make_records(
    *,
    tasks: Sequence[str] = TASKS,
    backbones: Sequence[str] = BACKBONES,
    methods: Mapping[str, tuple[float, float]] = METHODS,
    references: Mapping[str, tuple[float, float]] = REFERENCES,
    seeds: Sequence[int] = SEEDS,
    ruleset: str = "tuned",
    scale: str = "small",
    noise: float = 0.02,
    suite: str = "core",
    requests: int = 1,
) -> list[RunRecord]:
    """Records of every cell that was run.

    Args:
        methods, references: Name -> (share of forget hit rate kept, share of retain hit rate kept).
        noise: Standard deviation of the seeds' effects, relative to the value.
        suite: core, or full with the headline metrics of its measurements.
        requests: Above one, with the metrics of a stream.
    """
    found = [
        _record(task, backbone, method, seed, kept, ruleset=ruleset, scale=scale, noise=noise)
        for task in tasks
        for backbone in backbones
        for method, kept in {**references, **methods}.items()
        for seed in seeds
        if not (method == "pisces" and len(tasks) > 1 and task == tasks[-1])
        and not (method == "rmu" and len(seeds) > 2 and (task, backbone, seed) == (tasks[-1], backbones[-1], seeds[-1]))
    ]
    shares = {name: share for name, (share, _) in {**references, **methods}.items()}
    return [_beyond(record, shares[record.cell.method], suite, requests) for record in found]


def _beyond(record: RunRecord, kept: float, suite: str, requests: int) -> RunRecord:
    """The record with what a larger suite or a stream measures; as it is in the core after one request."""
    if suite == "core" and requests == 1:
        return record
    cell = record.cell.model_copy(update={"suite": suite, "requests": requests})
    shift = 0.004 * _unit("beyond", cell.task, cell.backbone, cell.method, cell.seed)
    metrics = list(record.metrics)
    if not record.diverged:
        metrics += full_metrics(kept, shift) if suite != "core" else ()
        metrics += stream_metrics(kept, shift) if requests > 1 else ()
    key = hashlib.blake2b(f"{record.key}|{suite}|{requests}".encode(), digest_size=32).hexdigest()
    changes = {"cell": cell, "key": key, "metrics": tuple(metrics), "holdout": "h" * 32 if suite != "core" else ""}
    return record.model_copy(update=changes)


def make_results(records: Iterable[RunRecord], *, source: Source = OWN, root: Path = Path("results")) -> list[Result]:
    """The records as reporting reads them, as if they lay below ``root``."""
    return [result_of(record, folder=root / _place(record), root=root, source=source) for record in records]


def write_records(records: Iterable[RunRecord], root: Path) -> None:
    """Write them below a folder, as ``bench run`` does; without per-user tables."""
    for record in records:
        folder = root / _place(record)
        folder.mkdir(parents=True)
        (folder / RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")


def make_synthetic_board(records: Iterable[RunRecord] | None = None) -> Board:
    """The board of ``make_records()``, or of other records."""
    return make_board(make_results(make_records() if records is None else records), statistics_protocol(1))


def make_synthetic_tables(layout: str, records: Iterable[RunRecord] | None = None) -> tuple[Table, ...]:
    """The tables of a layout, of records that have what it asks for."""
    if records is None:
        changes: Mapping[str, Mapping[str, Any]] = {
            "item": {"tasks": ("industrial-item", "sports-item")},
            "attack": {"suite": "full"},
            "streams": {"requests": 5},
        }
        records = make_records(**changes.get(layout, {}))
    board = make_synthetic_board(records)
    return make_tables(board, find_layout(layout, 1), statistics_protocol(1))


def _unit(*names: object) -> float:
    """A number in [-1, 1] with variance 1/3, the same on every machine."""
    digest = hashlib.blake2b("\0".join(map(str, names)).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / float(1 << 47) - 1.0


def _place(record: RunRecord) -> Path:
    cell = record.cell
    folder = f"{cell.scale}-seed{cell.seed}-{record.key[:10]}"
    return Path(*(part.replace("/", "_") for part in (cell.task, cell.backbone, cell.method, folder)))


def _record(
    task: str,
    backbone: str,
    method: str,
    seed: int,
    kept: tuple[float, float],
    *,
    ruleset: str,
    scale: str,
    noise: float,
) -> RunRecord:
    reference = method in REFERENCES
    diverged = method == "grad-ascent" and (task, backbone, seed) == (TASKS[0], BACKBONES[0], SEEDS[1])
    key = hashlib.blake2b(f"{task}|{backbone}|{method}|{seed}|{ruleset}|{scale}".encode(), digest_size=32).hexdigest()
    seconds = 0.0 if reference else round(20.0 + 8.0 * _unit(method) + _unit(method, seed), 3)
    return RunRecord(
        protocol_version=statistics_protocol(1).suite_protocol,
        suite_version="0.1.0",
        key=key,
        cell=Cell(
            task=task,
            backbone=backbone,
            method=method,
            seed=seed,
            scale=scale,
            suite="core",
            ruleset="default" if reference else ruleset,
        ),
        created=f"2026-11-{seed % 28 + 1:02d}T12:00:00+00:00",
        dataset_digest="d" * 64,
        task_digest="t" * 64,
        method_digest=hashlib.blake2b(method.encode(), digest_size=32).hexdigest(),
        method_config={} if reference else {"lr": 0.001},
        backbone_label=backbone,
        backbone_config={"d_model": 128},
        sid_config={"levels": 3},
        encoder="hashed#0",
        effective_batch_size=128,
        stages=(),
        environment=Environment(
            device="cpu",
            device_name="synthetic",
            precision="fp32",
            threads=1,
            python="3.11",
            platform="none",
            packages={"numpy": "2", "torch": "2"},
            git_commit="0" * 40,
            git_dirty=False,
        ),
        cost=Cost(
            unlearn_seconds=seconds,
            retrain_seconds=600.0,
            peak_memory_mib=512.0,
            steps=75,
            tuning_trials=0 if reference else 12,
            # An older record counts its trials and not their seconds.
            tuning_seconds=0.0 if reference or method == "rmu" else 240.0,
        ),
        diverged=diverged,
        metrics=() if diverged else tuple(_metrics(task, backbone, method, seed, kept, noise, seconds)),
        per_user_digest="",
        command=f"bench run --task {task} --method {method} --backbone {backbone} --seed {seed}",
    )


def _metrics(
    task: str, backbone: str, method: str, seed: int, kept: tuple[float, float], noise: float, seconds: float
) -> Iterable[MetricValue]:
    # A tie: both are one method by another name, down to the noise.
    name = "npo" if method == "simnpo" else method
    level = 1.0 + 0.2 * _unit(task) + 0.1 * _unit(backbone)
    for group, base, share in ((Group.FORGET, 0.20, kept[0]), (Group.RETAIN, 0.12, kept[1])):
        shared = _unit("seed", task, backbone, seed, group)
        own = _unit("own", task, backbone, name, seed, group)
        hr10 = base * level * share * (1.0 + noise * (shared + own))
        hr5 = 0.75 * hr10
        # Within (HR@10 - HR@5) / log2(11) and / log2(7) of each other, as hits at ranks 6 to 10 have it.
        ndcg5 = 0.7 * hr5
        ndcg10 = ndcg5 + 0.32 * (hr10 - hr5)
        for metric, value in {
            "hr@1": 0.4 * hr5,
            "hr@5": hr5,
            "hr@10": hr10,
            "ndcg@5": ndcg5,
            "ndcg@10": ndcg10,
            "mrr@10": 0.62 * hr5 + 0.13 * (hr10 - hr5),
            "concept-rate@10": 0.9 * hr10,
        }.items():
            yield _value(metric, group, value, 10)
        for metric, value in {
            "influence.js": 0.3 * share + 0.01 * own,
            "influence.js-excess": 0.1 * share + 0.01 * own,
            "influence.change@10": 0.4 * share + 0.01 * own,
            "influence.change@10-excess": 0.15 * share + 0.01 * own,
        }.items():
            yield _value(metric, group, abs(value), 50)
    similarity = None if method == "flat" else 0.85 - 0.1 * (1.0 - kept[1]) + 0.002 * _unit("sim", task, name, seed)
    yield _value("similarity.first", Group.RETAIN, similarity, 10)
    for metric in ("original-sids.hr@10", "original-sids.concept-rate@10"):
        leak = 0.15 * kept[0] * (1.0 + noise * _unit(metric, task, backbone, name, seed))
        yield _value(metric, Group.FORGET, leak, 50)
    moved = 0.4 if method.startswith("tracer") else 1.0
    yield _value("overlap.mean", Group.ALL, 0.0117 * moved + 1e-4 * _unit("overlap", task, seed))
    yield _value("overlap.shared-prefix", Group.ALL, 0.305 * moved)
    if seconds:
        yield _value("cost.unlearn-seconds", Group.ALL, seconds)
        yield _value("cost.share-of-retraining", Group.ALL, seconds / 600.0)
        yield _value("cost.peak-memory", Group.ALL, 512.0)
        yield _value("cost.steps", Group.ALL, 75.0)
        yield _value("cost.tuning-trials", Group.ALL, 12.0)


def _value(metric: str, group: Group, value: float | None, beam: int | None = None) -> MetricValue:
    rounded = None if value is None else float(f"{value:.6g}")
    return MetricValue(
        metric=metric, group=group, value=rounded, beam=beam, n=1000, note=None if rounded is not None else "no texts"
    )
