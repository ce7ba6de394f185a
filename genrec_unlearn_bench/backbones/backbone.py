"""How a backbone is made and loaded: presets, configuration, tokenizer, training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from genrec_unlearn_bench.backbones.recommender import Capability, Recommender
from genrec_unlearn_bench.backbones.training_data import TrainingData
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.source_files import model_digest
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.sasrec.config import SasRecConfig

__all__ = ["Backbone", "BackboneConfig", "Scale"]


class Scale(StrEnum):
    """Presets of one configuration, not separate code."""

    SMOKE = "smoke"
    SMALL = "small"
    PAPER = "paper"
    OFFICIAL = "official"


class BackboneConfig(StrictModel):
    """Base of a backbone's configuration."""


class Backbone(ABC):
    """A family of recommenders."""

    name: ClassVar[str]
    Config: ClassVar[type[BackboneConfig]]

    @classmethod
    @abstractmethod
    def preset(cls, scale: Scale) -> BackboneConfig:
        """The recommender's configuration at a scale."""

    @classmethod
    @abstractmethod
    def sid_preset(cls, scale: Scale) -> SidConfig:
        """The tokenizer's configuration at a scale; a backbone with a tokenizer of its own returns a subclass."""

    @classmethod
    def label(cls, config: BackboneConfig, sids: SidConfig) -> str:
        """What results call it. A variant that is another model says so: P5 without its pretrained text model."""
        return cls.name

    @classmethod
    def capabilities(cls, config: BackboneConfig, sids: SidConfig) -> frozenset[Capability]:
        """What a recommender made with these configurations has. Equal to its ``Recommender.capabilities``."""
        return frozenset({Capability.HAS_CODEBOOKS})

    @classmethod
    def weights(cls, config: BackboneConfig) -> str | None:
        """Digest of the pretrained files that training starts from, where ``config.checkpoint`` is a local folder.

        Part of the stage's key: a folder counts by its content. A hub id stands for itself (``id@revision`` pins it).
        """
        source = getattr(config, "checkpoint", None)
        return model_digest(Path(source)) if source and Path(source).is_dir() else None

    @classmethod
    def collaborative(cls, config: BackboneConfig, sids: SidConfig) -> SasRecConfig | None:
        """The SASRec whose item vectors the tokenizer needs (``TrainingData.collaborative``); None for none."""
        return None

    @classmethod
    def tokenise(cls, config: SidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress) -> SidTable:
        """Give all N items their semantic IDs; the tokenizer is fitted on ``data.known`` alone."""
        return quantise(data.features, config, seed=seed, device=device, progress=progress, fit_rows=data.known)

    @classmethod
    def tokenizer_modules(cls) -> tuple[str, ...]:
        """Modules whose code decides what ``tokenise`` returns; backbones that name the same ones share their IDs."""
        return (quantise.__module__,)

    @classmethod
    def reads_interactions(cls, config: SidConfig) -> bool:
        """Whether ``tokenise`` reads ``data.train`` itself (vectors made from it are known apart)."""
        return False

    @classmethod
    @abstractmethod
    def fit(
        cls,
        config: BackboneConfig,
        *,
        data: TrainingData,
        sids: SidTable,
        seed: int,
        device: str,
        progress: Progress,
    ) -> Recommender:
        """Train; the best checkpoint on validation is returned, with a frozen table.

        Args:
            sids: The semantic IDs. A backbone that trains its tokenizer along goes on with ``sids.network``, and
                leaves a frozen table as it is: that is what retraining on the same SIDs means.
        """

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Recommender:
        """Load a saved recommender of this family."""
