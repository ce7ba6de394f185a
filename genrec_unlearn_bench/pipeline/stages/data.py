"""Stages of the data: the prepared dataset, the resolved task, and the item features, plain and scrubbed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from genrec_unlearn_bench.data import concepts
from genrec_unlearn_bench.data.catalogue import DatasetSpec, packaged_datasets
from genrec_unlearn_bench.data.dataset import Dataset, load_dataset, save_dataset
from genrec_unlearn_bench.data.forget import ForgetSplit, TaskManifest, check_manifest
from genrec_unlearn_bench.data.holdout import Holdout, carve
from genrec_unlearn_bench.data.locate import source_digests
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.data.tasks import TaskSpec
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.features.encoders import encode_scrubbed, encode_texts
from genrec_unlearn_bench.features.item_features import ItemFeatures, load_embeddings, save_embeddings
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.tensors import read_tensors, write_tensors
from genrec_unlearn_bench.unlearning.request import ForgetRequest

MANIFEST = "manifest.json"
NEAR = "near.safetensors"
"""The concept's retained neighbours: a large catalogue's texts need not be compared in every session."""


def data_stages(
    resolved: ResolvedRequest, progress: Progress | None = None, *, download: bool = True
) -> dict[str, Stage]:
    """Dataset, task and features of a request, by role. Raises DataMissing where files are missing."""
    dataset = dataset_stage(resolved.dataset, resolved.request.data_dir, progress, download=download)
    task = task_stage(resolved.task, dataset)
    encoder, fields = resolved.encoder, resolved.dataset.text_fields

    def encode(context: StageContext, inputs: Inputs, folder: Path) -> None:
        items = inputs["dataset"].items
        texts = items.plain_text(fields)
        try:
            rows = encode_texts(texts, encoder, context.log(), resolved.device)
        except DataFault:
            if texts != list(items.ids):
                raise
            # Ids stand in for texts, and hold no words: only what reads texts goes without.
            rows = np.zeros((len(texts), 1), dtype=np.float32)
        save_embeddings(rows, folder)

    def encode_cleaned(context: StageContext, inputs: Inputs, folder: Path) -> None:
        items, task, features = inputs["dataset"].items, inputs["task"], inputs["features"]
        found = encode_scrubbed(items, task, features, encoder, fields, context.log(), resolved.device)
        save_embeddings(found, folder)

    # The encoder by its key, not by its fields: a model's folder counts by its content, wherever it lies.
    features = Stage(
        "features",
        1,
        {"encoder": encoder.key, "fields": fields},
        {"dataset": dataset},
        compute=encode,
        load=lambda inputs, folder: load_embeddings(folder),
        seed=resolved.seed,
        keep=True,
    )
    inputs = {"dataset": dataset, "task": task, "features": features}
    scrubbed = replace(features, name="features-scrubbed", inputs=inputs, compute=encode_cleaned)
    return {**inputs, "scrubbed": scrubbed}


def dataset_stage(
    spec: DatasetSpec, data_dir: Path | None, progress: Progress | None = None, *, download: bool = True
) -> Stage:
    """A dataset, read and prepared. Raises DataMissing or DataFault where its files cannot be read."""
    layout = {"header", "sep", "encoding"}
    sources = source_digests(spec, data_dir, progress, download=download)
    return Stage(
        "dataset",
        # 2: short rows, mixed kinds of times and lists in cells are no longer misread; the other data have none.
        2 if spec.format in ("table", "recbole") or spec.name not in packaged_datasets() else 1,
        {
            **spec.model_dump(include={"name", "format", "split", "k_core"}),
            # How a table is written is part of the key where it is one.
            "files": [
                {"role": file.role, "names": file.names, **file.model_dump(include=layout, exclude_defaults=True)}
                for file in spec.files
            ],
            **spec.model_dump(mode="json", include={"columns"}, exclude_defaults=True),
        },
        files={source.name: source.digest for source in sources},
        compute=lambda context, inputs, folder: save_dataset(prepare(spec, data_dir, context.progress), folder),
        load=lambda inputs, folder: load_dataset(folder),
        keep=True,
    )


def load_prepared(spec: DatasetSpec, data_dir: Path | None, store: StageStore, progress: Progress) -> Dataset:
    """A prepared dataset from the store; it is made if it is not there. Raises as ``dataset_stage`` does."""
    found: Dataset = StageContext(store, progress).load(dataset_stage(spec, data_dir, progress))
    return found


def task_stage(task: TaskSpec, dataset: Stage) -> Stage:
    """A task on its dataset: its frozen manifest, which it is checked against whenever it is resolved anew."""

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
        split = concepts.with_neighbours(concepts.resolve(task, inputs["dataset"]), inputs["dataset"])
        frozen = Stage(
            # Neither the concept nor a code version is part of this key: a task that resolves to something else under
            # the same version must not pass unnoticed.
            "task-manifest",
            1,
            {"task": task.name, "version": task.version},
            {"dataset": dataset},
            compute=lambda context, inputs, folder: _write_manifest(split.manifest, folder),
        )
        check_manifest(_read_manifest(context.stored(frozen).path), split.manifest)
        _write_manifest(split.manifest, folder)
        write_tensors({} if split.near is None else {"near": split.near}, folder / NEAR)

    def load(inputs: Inputs, folder: Path) -> ForgetSplit:
        split = concepts.resolve(task, inputs["dataset"])
        check_manifest(_read_manifest(folder), split.manifest)
        return replace(split, near=read_tensors(folder / NEAR).get("near"))

    return Stage("task", 2, task.model_dump(mode="json"), {"dataset": dataset}, compute=compute, load=load, keep=True)


def _write_manifest(manifest: TaskManifest, folder: Path) -> None:
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _read_manifest(folder: Path) -> TaskManifest:
    return TaskManifest.model_validate_json((folder / MANIFEST).read_bytes())


@dataclass(frozen=True, eq=False)
class PreparedTask:
    """Dataset and task without the holdout, which nothing is trained on, and features in memory."""

    dataset: Dataset
    split: ForgetSplit
    features: ItemFeatures
    holdout: Holdout | None = None

    def request(self, seed: int) -> ForgetRequest:
        """The part of it that a method is given."""
        return ForgetRequest(
            kind=self.split.kind,
            items=self.split.items,
            pairs=self.split.pairs,
            train=self.split.train,
            valid=self.split.valid,
            features=self.features,
            catalogue=self.dataset.items,
            seed=seed,
        )


def prepare_task(inputs: Inputs, resolved: ResolvedRequest, *, holdout: bool | None = None) -> PreparedTask:
    """Load the inputs ``dataset``, ``task``, ``features`` and ``scrubbed`` of a stage, once in a session.

    ``holdout``: take it out of everything that is trained on; by default where the suite has one.
    """
    held_out = resolved.suite.holdout if holdout is None else holdout
    keys: Mapping[str, str] = inputs.stage.recipe["inputs"]

    def prepared() -> PreparedTask:
        features = ItemFeatures(inputs["features"], inputs["scrubbed"], resolved.encoder.key)
        dataset, split, held = inputs["dataset"], inputs["task"], None
        if held_out:
            dataset, split, held = carve(dataset, split)
        return PreparedTask(dataset, split, features, held)

    return inputs.context.remember(f"prepared/{keys['task']}/{keys['scrubbed']}/{held_out}", prepared)
