"""The stages that train something: semantic IDs, the original recommender, its retrained oracles, popularity."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genrec_unlearn_bench.backbones.popularity import Popularity
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.backbones.sasrec.config import sasrec_preset
from genrec_unlearn_bench.backbones.training_data import TrainingData
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.launch import place
from genrec_unlearn_bench.pipeline.collaborative import Collaborative, collaborative
from genrec_unlearn_bench.pipeline.meter import metered
from genrec_unlearn_bench.pipeline.stage_log import StageLog
from genrec_unlearn_bench.sids.storage import load_table, save_table
from genrec_unlearn_bench.sids.table import check_items
from genrec_unlearn_bench.store.sources import code_digests
from genrec_unlearn_bench.store.store import StoredStage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from genrec_unlearn_bench.backbones.recommender import Ranker
    from genrec_unlearn_bench.backbones.sasrec.config import SasRecConfig
    from genrec_unlearn_bench.data.examples import BoolArray
    from genrec_unlearn_bench.pipeline.ground import Ground
    from genrec_unlearn_bench.pipeline.workroom import Workroom
    from genrec_unlearn_bench.sids.table import SidTable
    from genrec_unlearn_bench.store.keys import KeyContent

__all__ = [
    "MODEL",
    "ORACLE_STEP",
    "Tokens",
    "Trained",
    "deployed",
    "oracle",
    "original",
    "popularity",
    "retrain_full",
    "sasrec",
    "tokens",
]

ORACLE_STEP = 1000
"""Distance between the seeds of further oracles, so that they do not meet those of other runs."""

MODEL = "model"
"""Folder of the recommender inside its stage."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """A table of semantic IDs, its stage, and what that stands on."""

    stage: StoredStage
    table: SidTable
    upstream: tuple[StoredStage, ...] = ()


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
    def model(self) -> Path:
        """Folder of the ranker."""
        return self.stage.path / MODEL

    @property
    def seconds(self) -> float:
        """Wall-clock of the training or unlearning alone, without reading and writing."""
        return float(self.stage.account["seconds"])

    @property
    def peak_memory_mib(self) -> float:
        """Peak memory while it was made."""
        return float(self.stage.account["peak_memory_mib"])


def tokens(room: Workroom, ground: Ground) -> Tokens:
    """The tokenizer's semantic IDs. They depend on the dataset alone, so all its tasks share them."""
    return _tokens(room, "sids", _whole(room, ground))


def original(room: Workroom, ground: Ground, sids: Tokens) -> Trained:
    """The recommender before unlearning, shared by all tasks of a dataset as well."""
    return _fit(room, "original", _whole(room, ground), sids, seed=room.setting.seed)


def deployed(room: Workroom, sids: Tokens, before: Trained) -> Tokens:
    """The semantic IDs that the original recommender serves with.

    They are the tokenizer's own, except where the backbone trained its tokenizer along (ETEGRec): then they are those
    it ended with. Oracles "on the same SIDs" and measurements in the original ID space mean these.
    """
    if sids.table.frozen:
        return sids
    table = room.load(before.stage, lambda path: load_table(path / MODEL / "sids"))
    return Tokens(before.stage, table, before.upstream)


def oracle(room: Workroom, ground: Ground, sids: Tokens, number: int = 0) -> Trained:
    """Retrained without the forget set, on the same SIDs and, for number 0, from the same initial weights."""
    seed = room.setting.seed + number * ORACLE_STEP
    return _fit(room, "retrain", _cleaned(room, ground), sids, seed=seed)


def retrain_full(room: Workroom, ground: Ground) -> Trained:
    """Retrained without the forget set on SIDs that never saw the concept.

    Texts are scrubbed, and tokenizers fitted on retain items alone. Whatever else a backbone builds on is made anew
    without the concept: collaborative vectors (LETTER, ETEGRec), co-occurrence (P5's indexers), titles (MiniOneRec).
    """
    source = _cleaned(room, ground)
    sids = _tokens(room, "sids-full", source)
    return _fit(room, "retrain-full", source, sids, seed=room.setting.seed)


def sasrec(room: Workroom, ground: Ground) -> Trained:
    """SASRec on the original data: what a recommender that generates nothing reaches."""
    source = _whole(room, ground)
    config = sasrec_preset(room.setting.scale.value)
    found = source.collaborative(room, config)
    return Trained(found.stage, (), found.load)


def popularity(room: Workroom, ground: Ground) -> Trained:
    """The floor of every table; made like the others, so that it is measured and recorded like them."""
    content: KeyContent = {
        **ground.examples_identity,
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


@dataclass(frozen=True, eq=False)
class _Source:
    """What a recommender is made from, and what identifies it in keys.

    Attributes:
        examples: Identity of the examples.
        texts: Identity of texts and features.
        make: Gives the data themselves, which are needed only where something is computed.
    """

    examples: KeyContent
    texts: KeyContent
    make: Callable[[], TrainingData]

    @cached_property
    def data(self) -> TrainingData:
        """The data, made once."""
        return self.make()

    def collaborative(self, room: Workroom, config: SasRecConfig) -> Collaborative:
        """SASRec on these examples."""
        return collaborative(room, self.examples, config, lambda: self.data)

    def with_vectors(self, room: Workroom) -> tuple[Callable[[], TrainingData], tuple[StoredStage, ...]]:
        """The data with the collaborative vectors that the setting's backbone asks for, if it does."""
        setting = room.setting
        config = setting.backbone.collaborative(setting.backbone_config, setting.sid_config)
        if config is None:
            return self.plain, ()
        found = self.collaborative(room, config)

        def make() -> TrainingData:
            import torch

            # Weights are drawn before they are read: the draws of the stage that asks must not depend on it.
            with torch.random.fork_rng():
                vectors = room.remember(f"vectors/{found.stage.key}", lambda: found.load().item_vectors())
            return replace(self.data, collaborative=vectors)

        return make, (found.stage,)

    def plain(self) -> TrainingData:
        """The data without such vectors."""
        return self.data


def _whole(room: Workroom, ground: Ground) -> _Source:
    dataset = ground.dataset

    def make() -> _Source:
        examples: KeyContent = ground.examples_identity
        known = np.ones(len(dataset.items), dtype=np.bool_)
        texts = _texts(ground.features.plain, known)
        return _Source(
            examples,
            texts,
            lambda: TrainingData(dataset.train, dataset.valid, dataset.items, ground.features.plain, known),
        )

    return room.remember(f"whole/{ground.identity}", make)


def _cleaned(room: Workroom, ground: Ground) -> _Source:
    split = ground.split

    def make() -> _Source:
        examples: KeyContent = {**ground.examples_identity, "task": split.manifest.digest}
        features, known = ground.features.scrubbed, ~split.items

        def data() -> TrainingData:
            return TrainingData(
                train=split.cleaned(split.train.retain),
                valid=split.cleaned(split.valid.retain),
                items=scrubbed_items(ground.dataset.items, split),
                features=features,
                known=known,
            )

        return _Source(examples, _texts(features, known), data)

    return room.remember(f"cleaned/{ground.identity}", make)


def _texts(features: NDArray[np.float32], known: BoolArray) -> KeyContent:
    return {"features": _array_digest(features), "known": _array_digest(known)}


def _tokens(room: Workroom, name: str, source: _Source) -> Tokens:
    setting = room.setting
    backbone = setting.backbone
    data, upstream = source.with_vectors(room)
    content: KeyContent = {
        **source.texts,
        # Some indexers read interactions; those that read texts alone share their IDs among backbones all the same,
        # because the others have a configuration of their own.
        **(source.examples if backbone.reads_interactions(setting.sid_config) else {}),
        "upstream": [stage.digest for stage in upstream],
        "config": setting.sid_config,
        "tokenizer": type(setting.sid_config).__name__,
        "seed": setting.seed,
        "device": setting.device_kind,
        "code": code_digests([*backbone.tokenizer_modules(), save_table.__module__]),
    }

    def compute(folder: Path) -> None:
        log = StageLog(room.progress)
        table = backbone.tokenise(setting.sid_config, data(), seed=setting.seed, device=setting.device, progress=log)
        save_table(table, folder)
        log.write(folder)

    stage = room.stage(name, content, compute)
    return Tokens(stage, room.load(stage, load_table), upstream)


def _fit(room: Workroom, name: str, source: _Source, sids: Tokens, *, seed: int) -> Trained:
    setting = room.setting
    backbone = setting.backbone
    # A frozen table needs no vectors any more: the recommender alone is trained.
    data, upstream = (source.plain, ()) if sids.table.frozen else source.with_vectors(room)
    content: KeyContent = {
        **source.examples,
        **(source.texts if Capability.TEXT_TASKS in setting.capabilities else {}),
        "sids": sids.stage.digest,
        "upstream": [stage.digest for stage in upstream],
        "backbone": backbone.name,
        "config": setting.backbone_config,
        "weights": backbone.weights(setting.backbone_config),
        "seed": seed,
        "device": setting.device_kind,
        "code": code_digests([backbone.__module__, "genrec_unlearn_bench.data.forget"]),
    }

    def compute(folder: Path) -> Mapping[str, Any]:
        examples = data()
        check_items(sids.table, len(examples.items))
        log = StageLog(room.progress, room.work(name, content))
        with metered(setting.device) as reading:
            recommender = backbone.fit(
                setting.backbone_config,
                data=examples,
                sids=sids.table,
                seed=seed,
                device=setting.device,
                progress=log,
            )
        if place() == 0:
            recommender.save(folder / MODEL)
        log.write(folder)
        # A training that was taken up from an interrupted process has cost what that one spent, too.
        seconds = reading.seconds + log.earlier_seconds
        return {"seconds": seconds, "peak_memory_mib": reading.peak_memory_mib}

    stage = room.stage(name, content, compute, together=True)
    above = (*sids.upstream, sids.stage)
    return Trained(stage, above, lambda: backbone.load(stage.path / MODEL, device=setting.device))


def _array_digest(array: NDArray[Any]) -> str:
    state = hashlib.blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=32)
    state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()
