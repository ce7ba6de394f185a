"""An honest submission without any training: planted per-user tables, and records that follow from them.

Made by the same chain as a real one: results as ``bench run`` writes them, then ``submit``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.forget import ConceptKind, TaskManifest, sealed
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.evaluation.collateral import change_from_original
from genrec_unlearn_bench.evaluation.gap import cost_values, gap_to_oracle
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.per_user import block_frame, recompute, write_per_user
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline.record import Cell, Cost, Environment, RunRecord, StageRef
from genrec_unlearn_bench.pipeline.results import write_result
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, source_digest
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.submissions.publish import FAMILIES

METHOD = '''"""A method of the tests."""

from __future__ import annotations

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest


class Mine(UnlearningMethod[MethodConfig]):
    """Does nothing."""

    name = "mine"

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        return recommender
'''

WORDS: dict[str, Any] = {
    "title": "Mine",
    "authors": [{"name": "Ada Example", "affiliation": "A University"}],
    "contact": "ada@example.org",
    "licence": "MIT",
    "deviations": ["half the epochs of the paper"],
}


@cache
def demo_manifest() -> TaskManifest:
    """What demo-brand resolves to."""
    return resolve(find_task("demo-brand"), prepare(find_dataset("demo"), None, Progress())).manifest


@cache
def other_manifest() -> TaskManifest:
    """A small task under the name of one that ships, whose dataset is not here."""
    sizes = {"forget": 40, "retain": 160}
    counts = {f"{part}_{group}": size for part in ("train", "valid", "test") for group, size in sizes.items()}
    return sealed(
        task="industrial-brand",
        version=1,
        dataset="industrial",
        dataset_digest="d" * 64,
        kind=ConceptKind.BRAND,
        concepts=("Acme",),
        forget_items=("1", "2"),
        forget_interactions=(),
        train_share=0.1,
        draws=3,
        within_tolerance=True,
        retain_history_share=0.2,
        counts=counts,
    )


def per_user(manifest: TaskManifest, *names: object) -> pd.DataFrame:
    """A table that keeps every rule, planted by the names of task, method and seed."""
    generator = numpy_generator(0, "planted", *map(str, names))
    frames = []
    for group in (Group.FORGET, Group.RETAIN):
        size = manifest.counts[f"test_{group.value}"]
        order = np.random.default_rng(7)
        users, targets = order.integers(0, size, size) + 100, order.integers(0, 50, size)
        history = order.integers(0, 3, size)
        for beam in (10, 50):
            frames.append(block_frame(group, beam, _columns(generator, group, beam, users, targets, history)))
    return pd.concat(frames, ignore_index=True)


def _columns(generator: Any, group: Group, beam: int, users: Any, targets: Any, history: Any) -> dict[str, Any]:
    size, wide = len(users), beam == 50
    rank = np.where(generator.random(size) < 0.35, generator.integers(1, beam + 1, size), 0)
    hit = (rank > 0) & (rank <= 10)
    concept = generator.integers(0, 4, size)
    concept = np.where(hit & (group is Group.FORGET), np.maximum(concept, 1), concept)
    similar = {name: generator.uniform(-0.2, 0.9, size) for name in FAMILIES["similarity"]}
    measured = (history > 0) & wide
    moved = {name: np.where(measured, generator.random(size), np.nan) for name in FAMILIES["influence"]}
    leaks, seen = wide and group is Group.FORGET, group is Group.FORGET or not wide
    near = np.arange(size) % 3 - 1 if group is Group.RETAIN else np.full(size, -1)
    return {
        "example": np.arange(size),
        "user": users,
        "target": targets,
        "rank": rank,
        "log_prob": np.where(rank > 0, -generator.random(size) * 9, np.nan),
        **similar,
        "concept_in_list": concept,
        "n_list": np.full(size, 10),
        "original_rank": rank if leaks else np.full(size, -1),
        "original_concept_in_list": concept if leaks else np.full(size, -1),
        "original_n_list": np.full(size, 10 if leaks else -1),
        "exposed_rank": np.where(seen, rank, -1),
        "exposed_concept_in_list": np.where(seen, concept, -1),
        "exposed_n_list": np.where(seen, 10, -1),
        "concept_in_history": history,
        **moved,
        "near_prefix": near,
        "near_category": near,
        "near_concept": near,
    }


def raw_results(root: Path, method: Path, *, seeds: tuple[int, ...] = (0, 1)) -> Path:
    """Results of ``mine`` as ``bench run`` writes them: the demo with the fixed ruleset, another task tuned."""
    for manifest, ruleset, scale in ((demo_manifest(), "fixed", "smoke"), (other_manifest(), "tuned", "small")):
        for seed in seeds:
            table = root / "table.parquet"
            frame = per_user(manifest, manifest.task, seed)
            table.parent.mkdir(parents=True, exist_ok=True)
            write_per_user([frame], table)
            made = record(manifest, frame, method, seed=seed, ruleset=ruleset, scale=scale, table=table)
            write_result(root / "results", made, manifest, per_user=table, losses=None)
            table.unlink()
    return root / "results"


def record(
    manifest: TaskManifest, frame: pd.DataFrame, method: Path, *, seed: int, ruleset: str, scale: str, table: Path
) -> RunRecord:
    """A record whose every number follows from its table and from planted oracles."""
    own = recompute(frame)
    oracles = [recompute(per_user(manifest, manifest.task, "retrain", seed, number)) for number in range(2)]
    before = recompute(per_user(manifest, manifest.task, "original", seed))
    trials = 6 if ruleset == "tuned" else 0
    cost = Cost(
        unlearn_seconds=2.5,
        retrain_seconds=10.0,
        share_of_retraining=0.25,
        peak_memory_mib=300.0,
        steps=40,
        tuning_trials=trials,
        tuning_seconds=30.0 * trials,
    )
    paid = cost_values(
        unlearn_seconds=2.5, share_of_retraining=0.25, peak_memory_mib=300.0, steps=40, tuning_trials=trials
    )
    name = f"{manifest.task}/{seed}"
    return RunRecord(
        protocol_version=PROTOCOL_VERSION,
        suite_version="0.1.0",
        key=file_digest(table),
        cell=Cell(
            task=manifest.task, backbone="tiger", method="mine", seed=seed, scale=scale, suite="core", ruleset=ruleset
        ),
        created="2026-01-01T00:00:00+00:00",
        dataset_digest=manifest.dataset_digest,
        task_digest=manifest.digest,
        method_digest=source_digest(find_method(str(method))),
        method_config={"lr": 1e-4},
        backbone_label="tiger",
        backbone_config={"layers": 2},
        sid_config={"levels": 3},
        encoder="tfidf:128",
        effective_batch_size=32,
        stages=(
            StageRef(name="evaluation of retrain", key="k" + name, digest="d" + name, seconds=1.0, cached=False),
            StageRef(name="evaluation", key="e" + name, digest="f" + name, seconds=1.0, cached=False),
        ),
        environment=Environment(
            device="cpu",
            device_name="a processor",
            precision="fp32",
            threads=1,
            python="3.11.7",
            platform="Linux-6.1.0-13-amd64-x86_64-with-glibc2.36",
            packages={"numpy": "2.0"},
        ),
        cost=cost,
        metrics=(*own, *change_from_original(own, before), *gap_to_oracle(own, oracles), *paid),
        report={"steps": 40},
        per_user_digest=file_digest(table),
        command=f"bench run --task {manifest.task} --method {method}:Mine --seed {seed} --scale {scale} "
        f"--data-dir /home/ada/data --ruleset {ruleset} --results-dir /tmp/results",
    )


def known_leaderboard(root: Path) -> Path:
    """A leaderboard whose results know what the other task resolves to."""
    manifests = root / "leaderboard" / "results" / "manifests"
    manifests.mkdir(parents=True)
    (manifests / "industrial-brand.json").write_text(other_manifest().model_dump_json(indent=2) + "\n")
    return root / "leaderboard"


def request(root: Path, **changes: Any) -> dict[str, Any]:
    """The call that submits what ``raw_results`` has written below ``root``."""
    fields: dict[str, Any] = {
        "name": "mine",
        "method": str(root / "mine.py"),
        "results_dir": root / "results",
        "out": root / "submissions",
        # Not the installation's, whose own results are of other recommenders than the planted ones.
        "leaderboard": root / "leaderboard",
        "words": WORDS,
        "affirm": True,
    }
    return {**fields, **changes}


def prepared(root: Path) -> Path:
    """A folder with the method's file and its raw results."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "mine.py").write_text(METHOD, encoding="utf-8")
    raw_results(root, root / "mine.py")
    return root
