"""A small dataset with odd names, rankers whose lists are known, and a cache with their evaluations."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.dataset import Dataset, DatasetManifest, content_digest, save_dataset
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.splits import global_time
from genrec_unlearn_bench.data.tasks import BrandConcept, Concept, TaskSpec
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.core import evaluate
from genrec_unlearn_bench.evaluation.lists import LISTS
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline.record import RunRecord, StageRef
from genrec_unlearn_bench.pipeline.results import PER_USER, write_result
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.manifest import StoredStage, content_key
from genrec_unlearn_bench.store.store import StageStore
from tests.evaluation.planted import PlantedRecommender, context, lists, table
from tests.reporting.planting import planted_record

__all__ = ["BRANDS", "BRAND_TASK", "ITEMS", "TITLES", "World", "keeping", "make_world", "stage_of", "walking"]

ITEMS = 40
BRANDS = ("Acme & Sons", "Beta_50%", "<b>Gamma</b>{}", "")
"""Ten items each."""
TITLES = (
    "<script>alert(1)</script> Hose",
    "Acme & Sons Brass Fitting, 5/16\" x 5/16'' Barb",
    "right\u202eleft מים",
    "🧪 \\input{/etc/passwd} $x^2$ 100% ~#1_a|b",
    "[bold red]markup[/] \x1b[31mred",
    "x" * 150,
    "",
    "ACME & SONS",
    "Ø 5–10 µm ≤ 3 Ω — ‘quoted’",
    "Plain steel clamp",
)
BRAND_TASK = BrandConcept(brands=(BRANDS[0],))

Answer = Callable[[Histories, int, int], Ranking]


def make_dataset(ids: Callable[[int], str] = "I{:03d}".format) -> Dataset:
    """40 items, 30 users with 10 events each; 27 test examples, some users having several."""
    generator = np.random.default_rng(7)
    users = np.repeat(np.arange(30), 10)
    events = generator.integers(0, ITEMS, size=300)
    times = generator.permutation(300)
    parts = global_time(users, events, times)
    brands = tuple(BRANDS[item // 10] for item in range(ITEMS))
    blank = ("",) * ITEMS
    items = ItemTable(
        ids=tuple(ids(item) for item in range(ITEMS)),
        titles=tuple(TITLES[item % 10] for item in range(ITEMS)),
        descriptions=blank,
        brands=brands,
        brands_raw=brands,
        prices=np.full(ITEMS, np.nan),
        categories=((),) * ITEMS,
        texts=blank,
    )
    manifest = DatasetManifest(
        name="world",
        format="folder",
        split="global-time",
        k_core=0,
        items=ITEMS,
        users=30,
        interactions=300,
        train=len(parts.train),
        valid=len(parts.valid),
        test=len(parts.test),
        with_brand=30,
        with_price=0,
        dropped={},
        sources=(),
        digest=content_digest(items, parts, "global-time"),
    )
    return Dataset("world", items, parts.train, parts.valid, parts.test, manifest)


def walking(histories: Histories, k: int, beam: int) -> Ranking:
    """A permutation of all items that depends on the last one read; two items share each SID."""
    rows = [np.random.default_rng(last).permutation(ITEMS).tolist() for last in _last(histories)]
    chances = [np.repeat(-np.arange(1.0, ITEMS), 2)[:ITEMS].tolist()] * len(rows)
    # The narrow search misses the best of them.
    cut = 0 if beam > 10 else 1
    return lists([row[cut:] for row in rows], k, [row[cut:] for row in chances])


def keeping(drop: Sequence[int], share: int = 1) -> Answer:
    """As ``walking`` without some items, for every ``share``-th last item."""

    def answer(histories: Histories, k: int, beam: int) -> Ranking:
        whole = walking(histories, ITEMS, beam)
        rows = [
            [item for item in row if item >= 0 and (last % share or item not in drop)]
            for row, last in zip(whole.items.tolist(), _last(histories), strict=True)
        ]
        return lists(rows, k)

    return answer


@dataclass(frozen=True, eq=False)
class World:
    """A dataset, its task, a cache and a folder with results."""

    root: Path
    dataset: Dataset
    split: ForgetSplit
    task: TaskSpec

    @property
    def store(self) -> StageStore:
        return StageStore(self.root / "cache")

    @property
    def results(self) -> Path:
        return self.root / "results"

    def add(self, method: str, answer: Answer, *, seed: int = 0, holdout: str = "", **changes: Any) -> Path:
        """Evaluate a ranker, keep the stage, write the result. Returns the result's folder."""
        ranker = PlantedRecommender(answer, table([[0]] * ITEMS))
        draft = self.root / "draft"
        draft.mkdir(parents=True, exist_ok=True)
        setting = context(ranker, self.split, items=self.dataset.items, seed=seed)
        values = evaluate(setting, draft / PER_USER, draft / LISTS, Progress())

        def compute(folder: Path) -> None:
            for name in (PER_USER, LISTS):
                shutil.copyfile(draft / name, folder / name)

        evaluation = stage_of(self.store, "evaluation", {"of": method, "seed": seed}, compute)
        dataset = stage_of(self.store, "dataset", {"of": "world"}, lambda folder: save_dataset(self.dataset, folder))
        fields = {
            "task": self.task.name,
            "stages": (_reference(dataset), _reference(evaluation)),
            "dataset_digest": self.dataset.manifest.digest,
            "task_digest": self.split.manifest.digest,
            "per_user_digest": file_digest(evaluation.path / PER_USER),
            "command": f"bench run --task {self.task.name} --method {method} --set lr=1 --seed {seed}",
            "metrics": values,
            "holdout": holdout,
            "key": f"{evaluation.key[:20]}{method}",
            **changes,
        }
        record: RunRecord = planted_record(method, seed, {}, **fields)
        return write_result(self.results, record, self.split.manifest, per_user=evaluation.path / PER_USER, losses=None)


def make_world(root: Path, concept: Concept = BRAND_TASK, **dataset: Any) -> World:
    """A world without runs."""
    made = make_dataset(**dataset)
    task = TaskSpec(name=f"world-{concept.kind}", dataset="world", concept=concept)
    return World(root, made, resolve(task, made), task)


def stage_of(store: StageStore, name: str, config: dict[str, Any], compute: Callable[[Path], None]) -> StoredStage:
    """A stored stage of any configuration."""
    recipe = {"stage": name, "version": 1, "config": config, "files": {}, "inputs": {}}
    return store.make(name, content_key(recipe), recipe, compute)


def _last(histories: Histories) -> list[int]:
    return [int(row[row >= 0][-1]) if (row >= 0).any() else 0 for row in histories.items]


def _reference(stage: StoredStage) -> StageRef:
    return StageRef(name=stage.name, key=stage.key, digest=stage.digest, seconds=stage.seconds, cached=False)
