"""How a backbone is trained and loaded: presets, configuration, ``fit``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from genrec_unlearn_bench.backbones.recommender import Capability, Recommender
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.table import SidTable

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
    """A family of recommenders: one file per backbone."""

    name: ClassVar[str]
    Config: ClassVar[type[BackboneConfig]]
    capabilities: ClassVar[frozenset[Capability]]

    @classmethod
    @abstractmethod
    def preset(cls, scale: Scale) -> BackboneConfig:
        """The recommender's configuration at a scale."""

    @classmethod
    @abstractmethod
    def sid_preset(cls, scale: Scale) -> SidConfig:
        """The tokenizer's configuration at a scale."""

    @classmethod
    @abstractmethod
    def fit(
        cls,
        config: BackboneConfig,
        *,
        train: Examples,
        valid: Examples,
        sids: SidTable,
        seed: int,
        device: str,
        progress: Progress,
    ) -> Recommender:
        """Train from scratch; the best checkpoint on validation is returned."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Recommender:
        """Load a saved recommender of this family."""
