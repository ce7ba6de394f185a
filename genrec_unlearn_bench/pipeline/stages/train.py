"""Stages that train: semantic IDs, SASRec, the original recommender, its retrained oracles; and popularity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.config import SASREC_PRESETS, SASREC_SMOKE_SCORES, SasRecConfig
from genrec_unlearn_bench.backbones.sasrec import Popularity, SasRec
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.holdout import SHARE, Thinning
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.pipeline.environment import metered
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext, StageLog
from genrec_unlearn_bench.pipeline.stages.data import prepare_task
from genrec_unlearn_bench.progress import process_index
from genrec_unlearn_bench.sids.imported import imported_table
from genrec_unlearn_bench.sids.table import load_table, save_table

ORACLE_STEP = 1000
"""Distance between the seeds of further oracles, so that they do not meet those of other runs."""

MODEL = "model"
"""Folder of the recommender inside its stage."""


@dataclass(frozen=True)
class TrainingStages:
    """Builds the stages that train for one resolved request.

    The original's depend on the dataset alone, so all tasks of a dataset share them. ``cleaned``: the concept is taken
    out first, from examples, texts, and whatever is learned from them.
    """

    resolved: ResolvedRequest
    data: Mapping[str, Stage]
    cleaned: bool = False

    def sids(self) -> Stage:
        """Semantic IDs by the backbone's tokenizer; IDs that never saw the concept where ``cleaned``."""
        resolved, seed = self.resolved, self.resolved.seed
        backbone, config = resolved.backbone, resolved.sid_config
        # Tokenizers that read texts alone are shared by the suites with and without a holdout, and by backbones:
        # those that read interactions have a configuration type of their own.
        holdout = resolved.holdout if backbone.reads_interactions(config) else {}
        if resolved.request.sids is not None:
            return self._imported(resolved.request.sids)

        def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
            log = context.log()
            data = self.training_data(inputs, holdout=bool(holdout))
            save_table(backbone.tokenise(config, data, seed=seed, device=resolved.device, progress=log), folder)
            log.write(folder)

        return Stage(
            "sids-full" if self.cleaned else "sids",
            1,
            {"config": config, "tokenizer": type(config).__name__, "seed": seed, **holdout, **resolved.hardware},
            {**self._inputs, **self._vectors},
            compute=compute,
            load=lambda inputs, folder: load_table(folder),
            seed=seed,
            keep=True,
        )

    def _imported(self, path: Path) -> Stage:
        """IDs of an index file: the same for every seed, encoder and backbone that reads such."""
        config = self.resolved.sid_config

        def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
            save_table(imported_table(path, inputs["dataset"], config), folder)

        return Stage(
            "sids",
            1,
            config.model_dump(include={"collision_token", "collision_slack"}),
            {"dataset": self.data["dataset"]},
            files={"index": config.index},
            compute=compute,
            load=lambda inputs, folder: load_table(folder),
            keep=True,
        )

    def sasrec(self, config: SasRecConfig | None = None) -> Stage:
        """SASRec: a reference row, and the item vectors that LETTER and ETEGRec build on."""
        resolved = self.resolved
        scores = SASREC_SMOKE_SCORES if resolved.bounded else None
        limits = {"max_scores": scores, "max_hours": resolved.backbone_config.max_hours}
        chosen = config or SASREC_PRESETS[resolved.scale.value]
        chosen = chosen.model_copy(update={name: value for name, value in limits.items() if value is not None})
        seed, device = resolved.seed, resolved.device

        def compute(context: StageContext, inputs: Inputs, folder: Path) -> Mapping[str, Any]:
            data = self.training_data(inputs, vectors=False)
            parts: dict[str, Any] = {"train": data.train, "valid": data.valid, "items": len(data.items)}
            fit = partial(SasRec.fit, chosen, **parts, seed=seed, device=device)
            return _fitted(fit, context.log(), folder, folder, device)

        return Stage(
            "sasrec",
            1,
            {"config": chosen, "seed": seed, **resolved.holdout, **resolved.hardware},
            self._inputs,
            compute=compute,
            load=lambda inputs, folder: SasRec.load(folder, device=device),
            seed=seed,
        )

    def fit(self, name: str, sids: Stage, *, number: int = 0) -> Stage:
        """The backbone's recommender on these IDs; oracle number 0 starts from the original's initial weights."""
        seed = self.resolved.seed + number * ORACLE_STEP
        # A frozen table needs no vectors any more: the recommender alone is trained.
        joint = self.resolved.backbone.joint is not None and sids.name in ("sids", "sids-full")
        stage = fit_stage(
            self.resolved,
            name,
            {**self._inputs, "sids": sids, **(self._vectors if joint else {})},
            lambda inputs: self.training_data(inputs, vectors=joint),
            seed=seed,
            # Dropout follows the run's seed, also in oracles with weights of another one.
            config={**self.resolved.holdout, **({"dropout_seed": self.resolved.seed} if number else {})},
        )
        return replace(stage, label=f"{name} {number}") if number else stage

    def popularity(self) -> Stage:
        def compute(context: StageContext, inputs: Inputs, folder: Path) -> Mapping[str, Any]:
            data = self._dataset(inputs, holdout=self.resolved.suite.holdout)
            fit = partial(Popularity.fit, data.train, len(data.items))
            return _fitted(lambda progress: fit(), context.log(), folder, folder / MODEL, "cpu")

        return Stage(
            "popularity",
            1,
            self.resolved.holdout,
            {"dataset": self.data["dataset"]},
            compute=compute,
            load=lambda inputs, folder: Popularity.load(folder / MODEL),
            seed=self.resolved.seed,
        )

    def training_data(self, inputs: Inputs, *, vectors: bool = True, holdout: bool | None = None) -> TrainingData:
        """Training data from the loaded inputs; ``vectors``: with SASRec's item vectors where the stage has them."""
        holdout = self.resolved.suite.holdout if holdout is None else holdout
        if not self.cleaned:
            data = whole_data(self._dataset(inputs, holdout=holdout), inputs)
        else:
            prepared = prepare_task(inputs, self.resolved, holdout=holdout)
            split = prepared.split
            data = TrainingData(
                train=split.cleaned(split.train.retain),
                valid=split.cleaned(split.valid.retain),
                items=scrubbed_items(prepared.dataset.items, split),
                features=prepared.features.scrubbed,
                known=~split.items,
            )
        if not vectors or "sasrec" not in inputs:
            return data
        key = inputs.stage.inputs["sasrec"].key
        return replace(
            data, collaborative=inputs.context.remember(f"vectors/{key}", lambda: inputs["sasrec"].item_vectors())
        )

    @property
    def _inputs(self) -> dict[str, Stage]:
        roles = ("dataset", "task", "features", "scrubbed") if self.cleaned else ("dataset", "features")
        return {role: self.data[role] for role in roles}

    @property
    def _vectors(self) -> dict[str, Stage]:
        config = self.resolved.backbone.collaborative(self.resolved.backbone_config, self.resolved.sid_config)
        return {} if config is None else {"sasrec": self.sasrec(config)}

    def _dataset(self, inputs: Inputs, *, holdout: bool) -> Dataset:
        dataset: Dataset = inputs["dataset"]
        # As ``carve`` gives it, which the task does not change.
        return Thinning.of(dataset, SHARE).dataset(dataset) if holdout else dataset


def whole_data(dataset: Dataset, inputs: Inputs) -> TrainingData:
    """All of a dataset to be trained on, with its item features."""
    known = np.ones(len(dataset.items), dtype=np.bool_)
    return TrainingData(dataset.train, dataset.valid, dataset.items, inputs["features"], known)


def fit_stage(
    resolved: ResolvedRequest,
    name: str,
    inputs: Mapping[str, Stage],
    data: Callable[[Inputs], TrainingData],
    *,
    seed: int,
    config: Mapping[str, Any],
) -> Stage:
    """Training of the backbone's recommender on ``data`` and the input ``sids``; ``config`` has further settings."""
    backbone, chosen, device = resolved.backbone, resolved.backbone_config, resolved.device

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> Mapping[str, Any]:
        fit = partial(backbone.fit, chosen, data=data(inputs), sids=inputs["sids"], seed=seed, device=device)
        return _fitted(fit, context.log(inputs.stage), folder, folder / MODEL, device)

    weights = backbone.weights(chosen)
    return Stage(
        name,
        2,
        {"backbone": backbone.name, "config": chosen, "seed": seed, **config, **resolved.hardware},
        inputs,
        files={} if weights is None else {"checkpoint": weights},
        compute=compute,
        load=lambda inputs, folder: backbone.load(folder / MODEL, device=device),
        seed=resolved.seed,
        distributed=True,
    )


def _fitted(fit: Callable[..., Any], log: StageLog, folder: Path, place: Path, device: str) -> Mapping[str, Any]:
    """Fit a model, save it at ``place`` and its log in ``folder``; returns what that cost."""
    with metered(device) as reading:
        model = fit(progress=log)
    if process_index() == 0:
        model.save(place)
    log.write(folder)
    # A training that was taken up from an interrupted process has cost what that one spent, too.
    return {**vars(reading), "seconds": reading.seconds + log.earlier_seconds}
