"""Reproduction of a published number on published semantic IDs, trained in one or several sessions.

The training's state lies in the cache under a key of the whole request, so the same command resumes where the last one
stopped. The code is no part of that key: a training of days survives an update, and the record names the commit of
every session.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, ValidationError

from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.tiger import TigerConfig
from genrec_unlearn_bench.backbones.training import Outcome, train_recommender
from genrec_unlearn_bench.config import StrictModel, parse
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.formats.letter import read_index
from genrec_unlearn_bench.data.locate import locate
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.ranking import gain, hit, sid_numbers, sid_ranks
from genrec_unlearn_bench.files import atomic_folder
from genrec_unlearn_bench.launch import launched
from genrec_unlearn_bench.pipeline.environment import default_threads, describe, determinism, resolve_device
from genrec_unlearn_bench.pipeline.error_mapping import enough_memory
from genrec_unlearn_bench.pipeline.record import Environment
from genrec_unlearn_bench.pipeline.request import changed
from genrec_unlearn_bench.pipeline.stage import StageContext
from genrec_unlearn_bench.pipeline.stages.data import dataset_stage
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.reproduce.published import PublishedReference
from genrec_unlearn_bench.seeding import derive, numpy_generator
from genrec_unlearn_bench.sids.external import from_index
from genrec_unlearn_bench.store.manifest import content_key

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.dataset import Dataset
    from genrec_unlearn_bench.data.examples import Examples, IntArray
    from genrec_unlearn_bench.sids.table import SidTable
    from genrec_unlearn_bench.store.store import StageStore

RECORD = "reproduction.json"


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
    test_rows: int = Field(default=2000, ge=1)
    """Test rows measured while the training goes on; at its end all are."""
    data_dir: Path | None = None
    results_dir: Path = Path("results")


class ReproducedNumber(StrictModel):
    metric: str
    published: float
    measured: float
    """Of semantic IDs, as it was published."""
    items: float
    """Of items: those that share an ID follow each other, and only the target itself is a hit."""
    distance: float
    """Relative: measured / published - 1."""
    within: bool
    """Whether the distance lies within the reference's tolerance."""


class TrainingSession(StrictModel):
    ended: str
    first_step: int
    last_step: int
    seconds: float
    environment: Environment


class ReproductionRecord(StrictModel):
    schema_version: int = 1
    key: str
    reference: PublishedReference
    changes: dict[str, Any]
    config: TigerConfig
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
    """Wall-clock of all sessions."""
    test_rows: int
    """Rows measured; fewer than ``all_test_rows`` while the training goes on."""
    all_test_rows: int
    test_seconds: float
    comparisons: tuple[ReproducedNumber, ...]
    pieces: tuple[TrainingSession, ...]

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


def reproduce(request: ReproductionRequest, store: StageStore, progress: Progress) -> tuple[ReproductionRecord, Path]:
    """Train for a while, or to the end, measure, and write the record. Returns it with its folder.

    Raises:
        UsageError: The request is wrong.
        DataMissing: The dataset's files are not there; says where to get and put them.
        BenchError: Data, storage or training failed; what was trained until the last snapshot is kept.
    """
    if launched() > 1:
        raise UsageError(
            f"a reproduction runs in one process, not in {launched()}",
            where="accelerate launch",
            hint="start it without a launcher; `bench run` is what several processes can do",
        )
    threads = request.threads or default_threads()
    with determinism(threads):
        setup = _set_up(request, store, progress)
        with enough_memory("the reproduction", device=setup.device):
            return _train_and_measure(request, setup, store, progress, threads)


def _train_and_measure(
    request: ReproductionRequest, setup: _Setup, store: StageStore, progress: Progress, threads: int
) -> tuple[ReproductionRecord, Path]:
    folder = request.results_dir / "reproductions" / request.reference.name / setup.key[:10]
    earlier = _earlier(folder)
    recommender = T5Recommender.fresh(
        setup.config.shape, setup.sids, seed=derive(request.seed, "weights"), device=setup.device
    )
    began = time.monotonic()
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
    session = TrainingSession(
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
        first_step=outcome.first,
        last_step=outcome.steps,
        seconds=time.monotonic() - began,
        environment=describe(setup.device, threads=threads),
    )
    # A training from step 0 has nothing of an earlier record's sessions.
    before = earlier if outcome.first else ()
    sessions = before if before and outcome.first == outcome.steps else (*before, session)
    record = _measured(request, setup, recommender, outcome, sessions, progress)
    with atomic_folder(folder, "--results-dir", replace=True) as draft:
        (draft / RECORD).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return record, folder


def _set_up(request: ReproductionRequest, store: StageStore, progress: Progress) -> _Setup:
    reference = request.reference
    # The reference's own configuration is whole, so that no default of ours can change it.
    config = parse(TigerConfig, reference.config, where=f"reference {reference.name}")
    config = changed(config, request.changes, where="--set")
    device = resolve_device(request.device)
    spec = find_dataset(reference.dataset, request.data_dir)
    files = locate(spec, request.data_dir, progress).files
    context = StageContext(store, progress)
    dataset: Dataset = context.load(dataset_stage(spec, request.data_dir, progress))
    codes, sizes = read_index(files[reference.index], dataset.items.ids, whole=True)
    sids = from_index(codes, sizes)
    content: Mapping[str, Any] = {
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


def _measured(
    request: ReproductionRequest,
    setup: _Setup,
    recommender: T5Recommender,
    outcome: Outcome,
    sessions: tuple[TrainingSession, ...],
    progress: Progress,
) -> ReproductionRecord:
    reference, test = request.reference, setup.dataset.test
    rows = len(test) if outcome.finished else min(request.test_rows, len(test))
    progress.info(f"measuring {rows} of {len(test)} test rows at beam {reference.beam}")
    chosen = np.sort(numpy_generator(0, "test-sample").permutation(len(test))[:rows])
    began = time.monotonic()
    items, ids = _ranks(recommender, test.subset(chosen), reference)
    return ReproductionRecord(
        key=setup.key,
        reference=reference,
        changes=request.changes,
        config=setup.config,
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
        all_test_rows=len(test),
        test_seconds=time.monotonic() - began,
        comparisons=tuple(_comparison(reference, place, items, ids) for place in range(len(reference.expected))),
        pieces=sessions,
    )


def _ranks(recommender: T5Recommender, test: Examples, reference: PublishedReference) -> tuple[IntArray, IntArray]:
    """Ranks of the targets among items, and of their semantic IDs among these."""
    numbers = sid_numbers(recommender.sids.codes)
    cutoff = max(expected.cutoff for expected in reference.expected)
    # So many items that even the longest groups of one ID leave room for ``cutoff`` different IDs.
    length = cutoff * int(np.bincount(numbers).max())
    ranking = recommender.recommend(test.histories(recommender.history_limit), length, beam=reference.beam)
    return ranking.ranks(test.targets), sid_ranks(ranking, numbers, test.targets)


def _comparison(reference: PublishedReference, place: int, items: IntArray, ids: IntArray) -> ReproducedNumber:
    expected = reference.expected[place]
    # With one relevant item each, recall is the hit rate.
    score = hit if expected.metric.startswith("recall") else gain
    measured = float(score(ids, expected.cutoff).mean())
    distance = measured / expected.value - 1
    return ReproducedNumber(
        metric=expected.metric,
        published=expected.value,
        measured=measured,
        items=float(score(items, expected.cutoff).mean()),
        distance=distance,
        within=abs(distance) <= reference.tolerance,
    )


def _earlier(folder: Path) -> tuple[TrainingSession, ...]:
    try:
        return ReproductionRecord.model_validate_json((folder / RECORD).read_bytes()).pieces
    except (OSError, ValidationError):
        return ()
