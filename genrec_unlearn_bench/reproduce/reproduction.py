"""Published references, and their reproduction: training on published semantic IDs, in one or several sessions.

A reference is one YAML in ``leaderboard/published``: numbers to reproduce, with their data, configuration, decoding and
tolerance. The training's state lies in the cache under a key of the whole request, so the same command resumes where
the last one stopped. The code is no part of that key: a training of days survives an update. Importing this module
imports nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel, one_of, parse, parse_yaml
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import atomic_folder
from genrec_unlearn_bench.pipeline.record import Environment
from genrec_unlearn_bench.progress import Progress, launched
from genrec_unlearn_bench.seeding import derive, numpy_generator

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.t5 import T5Recommender
    from genrec_unlearn_bench.backbones.tiger import TigerConfig
    from genrec_unlearn_bench.data.dataset import Dataset
    from genrec_unlearn_bench.data.examples import Examples
    from genrec_unlearn_bench.sids.table import SidTable
    from genrec_unlearn_bench.store.store import StageStore

RECORD = "reproduction.json"
TEST_ROWS = 2000
"""Test rows that are measured while the training goes on."""


class Expected(StrictModel):
    metric: str = Field(pattern=r"^(recall|ndcg)@[1-9][0-9]*$")
    """Of ranked semantic IDs with one relevant each; recall is the hit rate."""
    value: float = Field(gt=0, le=1)

    @property
    def cutoff(self) -> int:
        return int(self.metric.partition("@")[2])


class PublishedReference(StrictModel):
    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    title: str
    source: str
    """Who published it, where, and how we know."""
    dataset: str
    index: str
    """Role of the dataset's file with the published semantic IDs, so that no tokenizer is trained."""
    config: dict[str, Any]
    """Network and training: fields of TIGER's configuration (T5 over SID tokens)."""
    beam: int = Field(ge=1)
    """Semantic IDs that decoding keeps."""
    expected: tuple[Expected, ...] = Field(min_length=1)
    tolerance: float = Field(gt=0, lt=1)
    """Relative distance within which the number counts as reproduced."""
    why: str
    deviations: tuple[str, ...] = ()
    """In what we differ from the source, knowingly."""


class ReproductionRequest(StrictModel):
    """The reference to reproduce, and how far this call goes."""

    reference: PublishedReference
    changes: dict[str, Any] = Field(default_factory=dict)
    """Fields of the configuration that differ from the reference's; the numbers are then not comparable."""
    seed: int = Field(default=0, ge=0)
    device: str = "auto"
    threads: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    """Time for training in this call; to the end where none is given."""
    data_dir: Path | None = None
    results_dir: Path = Path("results")


class ReproducedNumber(StrictModel):
    metric: str
    published: float
    measured: float
    """Of semantic IDs, as it was published."""
    distance: float
    """Relative: measured / published - 1."""
    within: bool


class ReproductionRecord(StrictModel):
    schema_version: int = 2
    key: str
    reference: PublishedReference
    changes: dict[str, Any]
    config: dict[str, Any]
    seed: int
    dataset_digest: str
    sids_digest: str
    steps: int
    total_steps: int
    """Most steps there may be; early stopping may end before."""
    steps_per_epoch: int
    finished: bool
    best_valid_ndcg: float
    """NDCG@10 of items on validation rows, of the weights that were measured; -1 before the first evaluation."""
    train_seconds: float
    test_rows: int
    """Rows measured: all at the end, at most ``TEST_ROWS`` while the training goes on."""
    comparisons: tuple[ReproducedNumber, ...]
    environment: Environment
    """Of the last call."""

    @property
    def comparable(self) -> bool:
        """Whether the settings are the reference's; into how many parts a step is cut changes nothing but memory."""
        return set(self.changes) <= {"training.rows_at_once"}

    @property
    def reproduced(self) -> bool | None:
        """Whether all numbers are within tolerance; None before the end, or with changed settings."""
        if not self.finished or not self.comparable:
            return None
        return all(comparison.within for comparison in self.comparisons)


@dataclass(frozen=True, eq=False)
class _Setup:
    config: TigerConfig
    device: str
    dataset: Dataset
    sids: SidTable
    key: str


@cache
def published_references() -> dict[str, PublishedReference]:
    """The references that ship with the package, by name. Raises ConfigError for a broken one."""
    folder = resources.files("genrec_unlearn_bench.leaderboard") / "published"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda entry: entry.name)
    texts = {f"published/{entry.name}": entry.read_text(encoding="utf-8") for entry in files}
    found = [parse_yaml(PublishedReference, text, where=where) for where, text in texts.items()]
    return {reference.name: reference for reference in found}


def find_reference(name: str) -> PublishedReference:
    """A reference that ships, or one's own in a ``.yaml`` or ``.yml`` file. Raises UnknownName or ConfigError."""
    from genrec_unlearn_bench.data.catalogue import read_yaml

    if name.endswith((".yaml", ".yml")):
        return read_yaml(PublishedReference, Path(name))
    known = published_references()
    return known[one_of("reference", name, known)]


def reproduce(request: ReproductionRequest, store: StageStore, progress: Progress) -> tuple[ReproductionRecord, Path]:
    """Train for a while, or to the end, measure, and write the record. Returns it with its folder.

    Raises UsageError for a wrong request, DataMissing, and BenchError where data, storage or training failed; what was
    trained until the last snapshot is kept.
    """
    from genrec_unlearn_bench.pipeline.environment import default_threads, determinism
    from genrec_unlearn_bench.pipeline.error_mapping import enough_memory

    if launched() > 1:
        raise UsageError("a reproduction runs in one process", hint="start it without a launcher")
    threads = request.threads or default_threads()
    with determinism(threads):
        setup = _set_up(request, store, progress)
        with enough_memory("the reproduction", device=setup.device):
            return _train_and_measure(request, setup, store, progress, threads)


def _set_up(request: ReproductionRequest, store: StageStore, progress: Progress) -> _Setup:
    from genrec_unlearn_bench.backbones.tiger import TigerConfig
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.locate import locate
    from genrec_unlearn_bench.pipeline.environment import resolve_device
    from genrec_unlearn_bench.pipeline.request import changed
    from genrec_unlearn_bench.pipeline.stage import StageContext
    from genrec_unlearn_bench.pipeline.stages.data import dataset_stage
    from genrec_unlearn_bench.sids.config import SidConfig
    from genrec_unlearn_bench.sids.imported import imported_table
    from genrec_unlearn_bench.store.manifest import content_key

    reference = request.reference
    # The reference's own configuration is whole, so that no default of ours can change it.
    config = parse(TigerConfig, reference.config, where=f"reference {reference.name}")
    config = changed(config, request.changes, where="--set")
    device = resolve_device(request.device)
    spec = find_dataset(reference.dataset, request.data_dir)
    parts = locate(spec, request.data_dir, progress).parts
    [index] = parts[one_of(f"file of {spec.name} with semantic IDs", reference.index, parts)]
    dataset: Dataset = StageContext(store, progress).load(dataset_stage(spec, request.data_dir, progress))
    sids = imported_table(index, dataset, SidConfig(collision_token=False))
    content = {
        "reference": reference.name,
        "beam": reference.beam,
        # The reference's YAML is whole but for fields that came later, whose defaults must not change the key.
        "config": config.model_dump(mode="json", exclude_defaults=True),
        "seed": request.seed,
        "device": device.partition(":")[0],
        "dataset": dataset.manifest.digest,
        "sids": sids.digest,
    }
    return _Setup(config, device, dataset, sids, content_key({"stage": "reproduction", "config": content}))


def _train_and_measure(
    request: ReproductionRequest, setup: _Setup, store: StageStore, progress: Progress, threads: int
) -> tuple[ReproductionRecord, Path]:
    from genrec_unlearn_bench.backbones.t5 import T5Recommender
    from genrec_unlearn_bench.backbones.training import train_recommender
    from genrec_unlearn_bench.pipeline.environment import describe

    weights = derive(request.seed, "weights")
    recommender = T5Recommender.fresh(setup.config.shape, setup.sids, seed=weights, device=setup.device)
    outcome = train_recommender(
        recommender,
        setup.config.training,
        train=setup.dataset.train,
        valid=setup.dataset.valid,
        seed=request.seed,
        device=setup.device,
        progress=progress,
        work=store.root / "unfinished" / "reproduction" / setup.key,
        # No limit is a limit that is never reached: the end is kept, too, and a second call only measures.
        minutes=float("inf") if request.minutes is None else request.minutes,
    )
    test = setup.dataset.test
    rows = len(test) if outcome.finished else min(TEST_ROWS, len(test))
    progress.info(f"measuring {rows} of {len(test)} test rows at beam {request.reference.beam}")
    examples = test.subset(np.sort(numpy_generator(0, "test-sample").permutation(len(test))[:rows]))
    record = ReproductionRecord(
        key=setup.key,
        reference=request.reference,
        changes=request.changes,
        config=setup.config.model_dump(mode="json"),
        seed=request.seed,
        dataset_digest=setup.dataset.manifest.digest,
        sids_digest=setup.sids.digest,
        steps=outcome.steps,
        total_steps=outcome.total,
        steps_per_epoch=-(-len(setup.dataset.train) // setup.config.training.batch_size),
        finished=outcome.finished,
        best_valid_ndcg=outcome.best,
        train_seconds=outcome.seconds,
        test_rows=rows,
        comparisons=_compare(request.reference, recommender, examples),
        environment=describe(setup.device, threads=threads),
    )
    folder = request.results_dir / "reproductions" / request.reference.name / setup.key[:10]
    with atomic_folder(folder, "--results-dir", replace=True) as draft:
        (draft / RECORD).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return record, folder


def _compare(
    reference: PublishedReference, recommender: T5Recommender, examples: Examples
) -> tuple[ReproducedNumber, ...]:
    from genrec_unlearn_bench.evaluation.ranking import gain, hit, sid_numbers, sid_ranks

    numbers = sid_numbers(recommender.sids.codes)
    # So many items that even the longest groups of one ID leave room for the longest cutoff of different IDs.
    length = max(expected.cutoff for expected in reference.expected) * int(np.bincount(numbers).max())
    ranking = recommender.recommend(examples.histories(recommender.history_limit), length, beam=reference.beam)
    ranks = sid_ranks(ranking, numbers, examples.targets)
    compared = []
    for expected in reference.expected:
        # With one relevant item each, recall is the hit rate.
        score = hit if expected.metric.startswith("recall") else gain
        measured = float(score(ranks, expected.cutoff).mean())
        distance = measured / expected.value - 1
        found = {"measured": measured, "distance": distance, "within": abs(distance) <= reference.tolerance}
        compared.append(ReproducedNumber(metric=expected.metric, published=expected.value, **found))
    return tuple(compared)
