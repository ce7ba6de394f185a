"""What every row of a table stands on: the dataset, the resolved task, and the item features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from genrec_unlearn_bench.data import concepts
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.forget import ForgetSplit, TaskManifest, check_manifest
from genrec_unlearn_bench.data.holdout import Holdout, carve
from genrec_unlearn_bench.data.locate import source_digests
from genrec_unlearn_bench.data.prepare import prepare, reader
from genrec_unlearn_bench.data.spec import DatasetSpec
from genrec_unlearn_bench.data.storage import load_dataset, save_dataset
from genrec_unlearn_bench.data.task_spec import TaskSpec
from genrec_unlearn_bench.features.encode_items import encode_items
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.features.storage import load_features, save_features
from genrec_unlearn_bench.pipeline.stage_log import StageLog
from genrec_unlearn_bench.pipeline.workroom import Desk, Workroom
from genrec_unlearn_bench.store.keys import KeyContent
from genrec_unlearn_bench.store.sources import code_digests
from genrec_unlearn_bench.store.store import StoredStage
from genrec_unlearn_bench.unlearning.request import ForgetRequest

__all__ = ["Ground", "lay_ground", "prepared_dataset", "resolved_task"]


@dataclass(frozen=True, eq=False)
class Ground:
    """Dataset, task and features in memory, with the stages they came from.

    Attributes:
        holdout: What the suite's measurements need never to be trained on; ``dataset`` and ``split`` are without it.
    """

    dataset: Dataset
    split: ForgetSplit
    features: ItemFeatures
    stages: tuple[StoredStage, ...]
    holdout: Holdout | None = None

    @property
    def examples_identity(self) -> dict[str, str]:
        """Digests of the examples that models are trained on, for keys."""
        held = {} if self.holdout is None else {"holdout": self.holdout.digest}
        return {"dataset": self.dataset.manifest.digest, **held}

    @property
    def identity(self) -> dict[str, str]:
        """Digests of all parts, for keys."""
        return {
            **self.examples_identity,
            "task": self.split.manifest.digest,
            "features": self.features.digest,
        }

    def request(self, seed: int) -> ForgetRequest:
        """What a method is given of it."""
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


def lay_ground(room: Workroom) -> Ground:
    """Prepare the dataset, resolve the task, encode the items; each from the store where it is there.

    The suite may ask for a holdout: then nothing that is trained sees it.
    """
    setting = room.setting
    dataset_stage, dataset = prepared_dataset(room, setting.dataset, setting.data_dir)
    split = resolved_task(room, setting.task, dataset)
    features_stage, features = _features(room, dataset, split)
    stages = (dataset_stage, features_stage)
    if not setting.suite.holdout:
        return Ground(dataset, split, features, stages)
    lean, divided, holdout = room.remember(
        f"holdout/{split.manifest.digest}/{dataset.manifest.digest}", lambda: carve(dataset, split)
    )
    return Ground(lean, divided, features, stages, holdout)


def prepared_dataset(room: Desk, spec: DatasetSpec, data_dir: Path | None) -> tuple[StoredStage, Dataset]:
    """A dataset, read and prepared. Raises DataMissing or DataFault."""
    content: KeyContent = {
        "format": spec.format,
        "files": [{"role": file.role, "names": file.names} for file in spec.files],
        "split": spec.split,
        "k_core": spec.k_core,
        "name": spec.name,
        "sources": [source.digest for source in source_digests(spec, data_dir, room.progress)],
        "code": code_digests([prepare.__module__, save_dataset.__module__, *_reader_module(spec)]),
    }

    def compute(folder: Path) -> None:
        save_dataset(prepare(spec, data_dir, room.progress), folder)

    stage = room.stage("dataset", content, compute)
    return stage, room.load(stage, load_dataset)


def _reader_module(spec: DatasetSpec) -> list[str]:
    # Readers are imported by the format's name, which no import statement shows.
    return [] if spec.format == "demo" else [str(reader(spec.format).__module__)]


def resolved_task(room: Desk, task: TaskSpec, dataset: Dataset) -> ForgetSplit:
    """The task on its dataset. Raises ProtocolMismatch where the same version resolved to something else before."""

    def resolve() -> ForgetSplit:
        split = concepts.resolve(task, dataset)

        def compute(folder: Path) -> None:
            (folder / "manifest.json").write_text(split.manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")

        # Neither the concept nor the code is part of this key: a task that resolves to something else under the same
        # version is exactly what must not pass unnoticed.
        content: KeyContent = {"task": task.name, "version": task.version, "dataset": dataset.manifest.digest}
        stage = room.stage("task", content, compute)
        stored = TaskManifest.model_validate_json((stage.path / "manifest.json").read_bytes())
        check_manifest(stored, split.manifest)
        return split

    return room.remember(f"task/{task.model_dump_json()}/{dataset.manifest.digest}", resolve)


def _features(room: Workroom, dataset: Dataset, split: ForgetSplit) -> tuple[StoredStage, ItemFeatures]:
    setting = room.setting
    fields = setting.dataset.text_fields
    content: KeyContent = {
        "dataset": dataset.manifest.digest,
        "task": split.manifest.digest,
        # By its key, not by its fields: a model's folder counts by its content, wherever it lies.
        "encoder": setting.encoder.key,
        "fields": fields,
        "code": code_digests([encode_items.__module__, save_features.__module__]),
    }

    def compute(folder: Path) -> None:
        features = encode_items(
            dataset.items,
            split,
            setting.encoder,
            fields,
            StageLog(room.progress),
            cache_dir=room.embeddings,
            device=setting.device,
        )
        save_features(features, folder)

    stage = room.stage("features", content, compute)
    return stage, room.load(stage, load_features)
