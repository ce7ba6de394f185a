"""The record of one run, as it is written to ``result.json``: enough to trust it, compare it and repeat it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.evaluation.metric import MetricValue

SCHEMA_VERSION = 1
WEAK_ORIGINAL = 0.5
"""Share of SASRec's retain NDCG@10 below which an original is weak: what it unlearns says little."""


class Cell(StrictModel):
    """One cell of a grid."""

    task: str
    backbone: str
    method: str
    seed: int
    scale: str
    suite: str
    ruleset: str = "default"
    """Source of the method's configuration: default (its own, or set by the user), fixed or tuned. Reference rows say
    default and belong to the tables of every ruleset."""
    requests: int = Field(default=1, ge=1)
    """Into how many requests the forget set was divided, each applied to the last one's model."""


class StageRef(StrictModel):
    """A stored stage that the result was built from."""

    name: str
    """features, sids, original, retrain, unlearned …"""
    key: str
    digest: str
    seconds: float
    """Wall-clock when it was computed (not when it was read from the store)."""
    cached: bool
    """Whether this run found it in the store."""


class Cost(StrictModel):
    """Cost of unlearning by itself, and of tuning."""

    unlearn_seconds: float
    retrain_seconds: float | None = None
    """Training time of the oracle on the same machine kind, where it is known."""
    share_of_retraining: float | None = None
    peak_memory_mib: float
    """Peak resident memory of the process (CPU), or of the device (GPU), during unlearning."""
    steps: int
    tuning_trials: int = 0
    """Configurations that were tried before this one was taken."""
    tuning_seconds: float = 0.0
    """Time of trying them, validation included."""


class Environment(StrictModel):
    """Where it ran."""

    device: str
    device_name: str
    precision: str
    threads: int
    python: str
    platform: str
    packages: dict[str, str]
    git_commit: str | None = None
    git_dirty: bool | None = None


def weak_original(share: float | None) -> str:
    """Why an original with this ``original_over_sasrec`` is weak, as a clause; empty where none is known to be."""
    if share is None or share >= WEAK_ORIGINAL:
        return ""
    return f"the original has {share:.2f} of SASRec's retain NDCG@10, less than {WEAK_ORIGINAL:g}"


class RunRecord(StrictModel):
    """One run. ``schema_version`` changes when a field changes its meaning."""

    schema_version: int = SCHEMA_VERSION
    protocol_version: int
    suite_version: str
    """Version of this package."""
    key: str
    """Key of the stage ``result``."""
    cell: Cell
    created: str
    """UTC, ISO 8601."""
    dataset_digest: str
    task_digest: str
    method_digest: str
    """blake2b of the method's source, or of the reference row's name."""
    method_config: dict[str, Any]
    backbone_label: str = ""
    """Name of the backbone, or of the variant that was run."""
    backbone_config: dict[str, Any]
    sid_config: dict[str, Any]
    encoder: str
    effective_batch_size: int
    original_over_sasrec: float | None = None
    """The original's retain NDCG@10 (beam 10) over SASRec's of seed 0; null where SASRec was not trained."""
    stages: tuple[StageRef, ...]
    environment: Environment
    arithmetic: dict[str, str] = Field(default_factory=dict)
    """What rounding depends on: the processor's instructions and the libraries of matrix products; empty in older
    records."""
    off_lock: dict[str, str] = Field(default_factory=dict)
    """Packages whose version was not the one that the suite's lock names -> the lock's version."""
    cost: Cost
    diverged: bool = False
    ended_early: dict[str, str] = Field(default_factory=dict)
    """Trainings behind the result that ``max_hours`` ended before their own rule did -> how far they were. Their
    weights depend on the machine's speed: a repetition gives other numbers."""
    metrics: tuple[MetricValue, ...]
    measuring: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Configurations of the measurements beyond the core, by name."""
    holdout: str = ""
    """Digest of the interactions that nothing was trained on; empty where everything was."""
    tables: dict[str, str] = Field(default_factory=dict)
    """blake2b-256 of each ``measurements/<name>.csv``."""
    report: dict[str, Any] = Field(default_factory=dict)
    """Notes of the method: items moved by level, collisions, overlap before and after …"""
    per_user_digest: str
    """blake2b-256 of ``per_user.parquet``; empty where nothing could be measured and there is no such file."""
    command: str
    """The command line that repeats it."""
    notes: tuple[str, ...] = ()
