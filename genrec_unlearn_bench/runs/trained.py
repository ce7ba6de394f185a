"""The stages that train something: semantic IDs, the original recommender, its retrained oracles, popularity."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genrec_unlearn_bench.backbones.popularity import Popularity
from genrec_unlearn_bench.runs.meter import metered
from genrec_unlearn_bench.runs.sources import code_digests
from genrec_unlearn_bench.runs.stage_log import StageLog
from genrec_unlearn_bench.runs.store import StoredStage
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.storage import load_table, save_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from genrec_unlearn_bench.backbones.recommender import Ranker
    from genrec_unlearn_bench.data.examples import BoolArray, Examples
    from genrec_unlearn_bench.runs.ground import Ground
    from genrec_unlearn_bench.runs.keys import KeyContent
    from genrec_unlearn_bench.runs.workroom import Workroom
    from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["MODEL", "ORACLE_STEP", "Tokens", "Trained", "oracle", "original", "popularity", "retrain_full", "tokens"]

ORACLE_STEP = 1000
"""Distance between the seeds of further oracles, so that they do not meet those of other runs."""

MODEL = "model"
"""Folder of the recommender inside its stage."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """A table of semantic IDs and its stage."""

    stage: StoredStage
    table: SidTable


@dataclass(frozen=True, eq=False)
class Trained:
    """A stored ranker, loaded when it is needed.

    Attributes:
        upstream: Stages it was made from, beyond those all rows share.
        load: Reads the ranker; each call gives an independent one.
    """

    stage: StoredStage
    upstream: tuple[StoredStage, ...]
    load: Callable[[], Ranker]

    @property
    def seconds(self) -> float:
        """Wall-clock of the training or unlearning alone, without reading and writing."""
        return float(self.stage.account["seconds"])

    @property
    def peak_memory_mib(self) -> float:
        """Peak memory while it was made."""
        return float(self.stage.account["peak_memory_mib"])


def tokens(room: Workroom, ground: Ground) -> Tokens:
    """The original's semantic IDs. They depend on the plain features alone, so all tasks of a dataset share them."""
    return _tokens(room, "sids", ground.features.plain, fit_rows=None)


def original(room: Workroom, ground: Ground, sids: Tokens) -> Trained:
    """The recommender before unlearning, shared by all tasks of a dataset as well."""
    parts = ground.dataset
    content: KeyContent = {"dataset": ground.dataset.manifest.digest}
    return _fit(room, "original", content, sids, parts.train, parts.valid, seed=room.setting.seed)


def oracle(room: Workroom, ground: Ground, sids: Tokens, number: int = 0) -> Trained:
    """Retrained without the forget set, on the same SIDs and, for number 0, from the same initial weights."""
    content, train, valid = _cleaned(ground)
    seed = room.setting.seed + number * ORACLE_STEP
    return _fit(room, "retrain", content, sids, train, valid, seed=seed)


def retrain_full(room: Workroom, ground: Ground) -> Trained:
    """Retrained without the forget set on SIDs that never saw the concept: scrubbed texts, fitted on retain items."""
    retained = ~ground.split.items
    sids = _tokens(room, "sids-full", ground.features.scrubbed, fit_rows=retained)
    content, train, valid = _cleaned(ground)
    return _fit(room, "retrain-full", content, sids, train, valid, seed=room.setting.seed)


def popularity(room: Workroom, ground: Ground) -> Trained:
    """The floor of every table; made like the others, so that it is measured and recorded like them."""
    content: KeyContent = {
        "dataset": ground.dataset.manifest.digest,
        "code": code_digests([Popularity.__module__]),
    }

    def compute(folder: Path) -> Mapping[str, Any]:
        with metered("cpu") as reading:
            ranker = Popularity.fit(ground.dataset.train, len(ground.dataset.items))
        ranker.save(folder / MODEL)
        StageLog(room.progress).write(folder)
        return {"seconds": reading.seconds, "peak_memory_mib": reading.peak_memory_mib}

    stage = room.stage("popularity", content, compute)
    return Trained(stage, (), lambda: Popularity.load(stage.path / MODEL))


def _tokens(room: Workroom, name: str, features: NDArray[np.float32], *, fit_rows: BoolArray | None) -> Tokens:
    setting = room.setting
    content: KeyContent = {
        "features": _array_digest(features),
        "fit_rows": None if fit_rows is None else _array_digest(fit_rows),
        "config": setting.sid_config,
        "seed": setting.seed,
        "device": setting.device_kind,
        "code": code_digests([quantise.__module__, save_table.__module__]),
    }

    def compute(folder: Path) -> None:
        log = StageLog(room.progress)
        table = quantise(
            features,
            setting.sid_config,
            seed=setting.seed,
            device=setting.device,
            progress=log,
            fit_rows=fit_rows,
        )
        save_table(table, folder)
        log.write(folder)

    stage = room.stage(name, content, compute)
    return Tokens(stage, room.load(stage, load_table))


def _cleaned(ground: Ground) -> tuple[KeyContent, Examples, Examples]:
    split = ground.split
    content: KeyContent = {"dataset": ground.dataset.manifest.digest, "task": split.manifest.digest}
    return content, split.cleaned(split.train.retain), split.cleaned(split.valid.retain)


def _fit(
    room: Workroom, name: str, data: KeyContent, sids: Tokens, train: Examples, valid: Examples, *, seed: int
) -> Trained:
    setting = room.setting
    backbone = setting.backbone
    content: KeyContent = {
        **data,
        "sids": sids.stage.digest,
        "backbone": backbone.name,
        "config": setting.backbone_config,
        "seed": seed,
        "device": setting.device_kind,
        "code": code_digests([backbone.__module__, "genrec_unlearn_bench.data.forget"]),
    }

    def compute(folder: Path) -> Mapping[str, Any]:
        log = StageLog(room.progress)
        with metered(setting.device) as reading:
            recommender = backbone.fit(
                setting.backbone_config,
                train=train,
                valid=valid,
                sids=sids.table,
                seed=seed,
                device=setting.device,
                progress=log,
            )
        recommender.save(folder / MODEL)
        log.write(folder)
        return {"seconds": reading.seconds, "peak_memory_mib": reading.peak_memory_mib}

    stage = room.stage(name, content, compute)
    return Trained(stage, (sids.stage,), lambda: backbone.load(stage.path / MODEL, device=setting.device))


def _array_digest(array: NDArray[Any]) -> str:
    state = hashlib.blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=32)
    state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()
