"""ETEGRec: item tokenization and recommendation trained in turns (Liu et al. 2025, SIGIR, arXiv 2409.05546).

``official`` holds the settings of the authors' code; ``paper`` puts TRACER's 3 x 256 x 64 grid on them. What follows
the official code and what does not, with reasons, is in ``docs/backbones/etegrec.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from genrec_unlearn_bench.backbones.backbone import Backbone, BackboneConfig, Scale
from genrec_unlearn_bench.backbones.etegrec.config import EtegrecConfig, EtegrecSidConfig
from genrec_unlearn_bench.backbones.etegrec.joint import train_jointly
from genrec_unlearn_bench.backbones.etegrec.presets import PRESETS, SID_PRESETS
from genrec_unlearn_bench.backbones.etegrec.recommender import EtegrecRecommender
from genrec_unlearn_bench.backbones.etegrec.tokenizer import LiveTokenizer, pretrain
from genrec_unlearn_bench.backbones.etegrec.vectors import item_vectors
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.backbones.sasrec.config import SasRecConfig
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.backbones.training_data import TrainingData
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["Etegrec"]


class Etegrec(Backbone):
    """ETEGRec (arXiv 2409.05546): tokenizer and T5 trained in turns, then the T5 alone."""

    name: ClassVar[str] = "etegrec"
    Config: ClassVar[type[BackboneConfig]] = EtegrecConfig

    @classmethod
    def preset(cls, scale: Scale) -> EtegrecConfig:
        return PRESETS[scale]

    @classmethod
    def sid_preset(cls, scale: Scale) -> EtegrecSidConfig:
        return SID_PRESETS[scale]

    @classmethod
    def capabilities(cls, config: BackboneConfig, sids: SidConfig) -> frozenset[Capability]:
        return frozenset({Capability.HAS_CODEBOOKS, Capability.JOINT_TOKENIZER})

    @classmethod
    def collaborative(cls, config: BackboneConfig, sids: SidConfig) -> SasRecConfig | None:
        return None if _own(sids).item_features == "text" else _own(sids).sasrec

    @classmethod
    def tokenise(cls, config: SidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress) -> SidTable:
        own = _own(config)
        return pretrain(item_vectors(own, data), own, fit=data.known, seed=seed, device=device, progress=progress)

    @classmethod
    def tokenizer_modules(cls) -> tuple[str, ...]:
        return (pretrain.__module__, item_vectors.__module__)

    @classmethod
    def fit(
        cls,
        config: BackboneConfig,
        *,
        data: TrainingData,
        sids: SidTable,
        seed: int,
        device: str,
        progress: Progress,
    ) -> EtegrecRecommender:
        if not isinstance(config, EtegrecConfig):
            raise TypeError(f"ETEGRec takes an EtegrecConfig, not {type(config).__name__}")
        recommender = EtegrecRecommender.fresh(config.shape, sids.freeze(), seed=derive(seed, "weights"), device=device)
        recommender.rescale(config.initial_deviation)
        budget, stage = config.alone, "train"
        if not sids.frozen:
            recommender = train_jointly(
                recommender,
                LiveTokenizer.of(sids, device=device),
                config.joint,
                config.alignment,
                train=data.train,
                valid=data.valid,
                seed=seed,
                device=device,
                progress=progress,
            )
            budget, stage = config.second, "second"
        train_recommender(
            recommender,
            budget,
            train=data.train,
            valid=data.valid,
            seed=seed,
            device=device,
            progress=progress,
            stage=stage,
        )
        return recommender

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> EtegrecRecommender:
        return EtegrecRecommender.load(folder, device=device)


def _own(config: SidConfig) -> EtegrecSidConfig:
    if not isinstance(config, EtegrecSidConfig):
        raise TypeError(f"ETEGRec's tokenizer takes an EtegrecSidConfig, not {type(config).__name__}")
    return config
