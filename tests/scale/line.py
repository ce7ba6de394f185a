"""The whole line on one imported folder: from the files to decoded lists, stage by stage.

    python -m tests.scale.line /tmp/shop --work /tmp/work

Features of this many texts need a GPU: random unit rows of MiniLM's width stand in for them wherever features are
needed. Networks are tiny and untrained, as only the tables and the search around them are looked at.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.dataset import Dataset, content_digest, load_dataset, save_dataset
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.holdout import carve
from genrec_unlearn_bench.data.prepare import import_folder
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.data.splits import SplitParts, k_core
from genrec_unlearn_bench.data.tasks import DEFAULT_CONCEPTS, TaskSpec
from genrec_unlearn_bench.features.item_features import ItemFeatures, load_embeddings, save_embeddings
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable
from tests.scale.meter import Meter

__all__ = ["PARTS", "run_line"]

WIDTH = 384
PARTS = ("data", "texts", "tables")


def run_line(folder: Path, work: Path, meter: Meter, *, clusters: int = 50_000, parts: Collection[str] = PARTS) -> None:
    """Every stage in turn; what a stage leaves behind for the next is all that stays in memory.

    Args:
        clusters: Items that residual k-means is fitted on; all of them are encoded.
        parts: Without "data", the dataset that an earlier run left in ``work`` is loaded.
    """
    if "data" in parts:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        dataset, split = run_data(folder, work, meter)
    else:
        dataset = load_dataset(work / "dataset")
        split = resolve(_task("brand"), dataset)
    if "texts" in parts:
        run_texts(dataset, split, meter)
    if "tables" not in parts:
        return
    features = run_features(len(dataset.items), work, meter, split)
    table = run_sids(dataset, split, features.plain, work, meter, clusters)
    run_decoding(dataset, split, table, meter)
    run_evaluation(dataset, split, table, features, work, meter)


def _task(kind: str) -> TaskSpec:
    return TaskSpec(name=f"large-{kind}", dataset="large", concept=DEFAULT_CONCEPTS[kind])


def run_data(folder: Path, work: Path, meter: Meter) -> tuple[Dataset, ForgetSplit]:
    """Files to dataset to task."""
    with meter.stage("import (read, clean, split, digest)"):
        _, dataset = import_folder(folder, "large", Progress())
    with meter.stage("digest alone"):
        parts = SplitParts(dataset.train, dataset.valid, dataset.test)
        assert content_digest(dataset.items, parts, "global-time") == dataset.manifest.digest
    with meter.stage("5-core of the log"):
        events, owners = dataset.train.events, dataset.train.event_users
        k_core(owners, events, 5)
    store = work / "dataset"
    store.mkdir()
    with meter.stage("save dataset"):
        save_dataset(dataset, store)
    del dataset, parts, events, owners
    gc.collect()
    with meter.stage("load dataset"):
        dataset = load_dataset(store)
    split = None
    for kind in ("price", "item", "interaction", "brand"):
        del split
        with meter.stage(f"task: {kind}"):
            split = resolve(_task(kind), dataset)
    with meter.stage("holdout"):
        carve(dataset, split)
    return dataset, split


def run_texts(dataset: Dataset, split: ForgetSplit, meter: Meter) -> None:
    """Scrubbing, and features without a network."""
    from genrec_unlearn_bench.features.encoders import tfidf

    with meter.stage("texts"):
        texts = dataset.items.plain_text()
    with meter.stage("texts without the brands"):
        scrubbed = scrubbed_items(dataset.items, split).plain_text()
    del scrubbed
    with meter.stage("TF-IDF"):
        tfidf(texts, 128, Progress())


def run_features(items: int, work: Path, meter: Meter, split: ForgetSplit) -> ItemFeatures:
    """Features of MiniLM's width, plain and scrubbed, through the store."""
    with meter.stage("(random features)"):
        generator = np.random.default_rng(0)
        centres = generator.standard_normal((1000, WIDTH), dtype=np.float32)
        plain = np.empty((items, WIDTH), dtype=np.float32)
        for start in range(0, items, 50_000):
            rows = plain[start : start + 50_000]
            rows[:] = 0.5 * generator.standard_normal(rows.shape, dtype=np.float32)
            rows += centres[generator.integers(0, 1000, len(rows))]
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        scrubbed = plain.copy()
        scrubbed[split.items] *= -1
    with meter.stage("save features"):
        for name, matrix in (("plain", plain), ("scrubbed", scrubbed)):
            (work / name).mkdir()
            save_embeddings(matrix, work / name)
    # ``rows`` is a view, which keeps the whole.
    del plain, scrubbed, matrix, rows
    gc.collect()
    with meter.stage("load features"):
        return ItemFeatures(load_embeddings(work / "plain"), load_embeddings(work / "scrubbed"), "random")


def run_sids(
    dataset: Dataset, split: ForgetSplit, features: NDArray[np.float32], work: Path, meter: Meter, clusters: int
) -> SidTable:
    """Residual k-means, collisions, the table's health, and the table through the store."""
    from genrec_unlearn_bench.sids.config import SID_PRESETS
    from genrec_unlearn_bench.sids.health import health
    from genrec_unlearn_bench.sids.quantise import quantise
    from genrec_unlearn_bench.sids.table import load_table, save_table

    fit = np.zeros(len(features), dtype=np.bool_)
    fit[np.random.default_rng(1).permutation(len(fit))[:clusters]] = True
    config = SID_PRESETS["small"].model_copy(update={"kmeans_iterations": 10})
    with meter.stage(f"residual k-means on {int(fit.sum())}"):
        table = quantise(features, config, seed=0, device="cpu", progress=Progress(), fit_rows=fit)
    with meter.stage("health of the table"):
        health(table, items_by_concept=split.items, brands=dataset.items.brands)
    with meter.stage("save table"):
        save_table(table, work / "sids")
    with meter.stage("load table"):
        return load_table(work / "sids")


def run_decoding(dataset: Dataset, split: ForgetSplit, table: SidTable, meter: Meter) -> None:
    """The trie, and beam search in it with a small untrained T5."""
    from genrec_unlearn_bench.backbones.config import T5Shape
    from genrec_unlearn_bench.backbones.t5 import T5Recommender
    from genrec_unlearn_bench.decoding.trie import Trie

    with meter.stage("trie"):
        Trie.build(table.codes, table.level_sizes)
    with meter.stage("trie without the concept"):
        Trie.build(table.codes, table.level_sizes, blocked=split.items)
    shape = T5Shape(d_model=64, d_kv=16, d_ff=128, layers=2, heads=4)
    recommender = T5Recommender.fresh(shape, replace(table, latents=None, codebooks=None), seed=0)
    histories = dataset.test.histories(20, np.arange(min(256, len(dataset.test))))
    with meter.stage("beam 50, 256 histories"):
        recommender.recommend(histories, 50, beam=50)
    with meter.stage("beam 10, 256 histories"):
        recommender.recommend(histories, 10, beam=10)


def run_evaluation(
    dataset: Dataset, split: ForgetSplit, table: SidTable, features: ItemFeatures, work: Path, meter: Meter
) -> None:
    """The whole core suite on a popularity ranking, which costs nothing by itself."""
    from genrec_unlearn_bench.backbones.sasrec import Popularity
    from genrec_unlearn_bench.evaluation.core import evaluate
    from genrec_unlearn_bench.evaluation.decode import EvaluationContext
    from genrec_unlearn_bench.evaluation.lists import LISTS
    from genrec_unlearn_bench.evaluation.per_user import read_per_user, recompute

    with meter.stage("popularity"):
        ranker = Popularity.fit(dataset.train, len(dataset.items))
    context = EvaluationContext(ranker, table, dataset.items, split, features, 0)
    with meter.stage(f"evaluation of {len(dataset.test)} examples"):
        evaluate(context, work / "per_user.parquet", work / LISTS, Progress())
    with meter.stage("re-score from the table"):
        recompute(read_per_user(work / "per_user.parquet"))


def main() -> None:
    """Print the stages, and write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--clusters", type=int, default=50_000)
    given = parser.parse_args()
    meter = Meter()
    run_line(given.folder, given.work, meter, clusters=given.clusters, parts=given.parts)
    print(f"largest: {meter.peak:.0f} MiB;")
    if given.json:
        given.json.write_text(json.dumps([asdict(spent) for spent in meter.stages], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
