"""The base of all backbones: presets, tokenizer, training and loading of one family of recommenders.

Everything that a stage's key depends on follows from configuration alone, without torch, a model or a SID table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.config import BackboneConfig, SasRecConfig, Scale, expect
from genrec_unlearn_bench.backbones.recommender import Capability, Recommender
from genrec_unlearn_bench.data.examples import BoolArray, Examples
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.source_files import model_digest
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import imported
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.table import SidTable, check_items

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.training import TrainingTask


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Interactions and items as one recommender may know them: the only data a tokenizer or a training reads.

    The original gets everything; a retrained oracle gets examples without the concept, texts from which it was
    scrubbed, and ``known`` without the concept items.
    """

    train: Examples
    valid: Examples
    items: ItemTable
    """N items with their texts."""
    features: NDArray[np.float32]
    """[N, D] embeddings of these texts."""
    known: BoolArray
    """[N] items that tokenizers are fitted on and text samples are made of. All N get semantic IDs and may be
    recommended."""
    collaborative: NDArray[np.float32] | None = None
    """[N, C] item vectors of a SASRec trained on ``train`` alone, where ``Backbone.collaborative`` asks for them."""

    @property
    def sasrec_vectors(self) -> NDArray[np.float32]:
        """``collaborative``; raises DataFault where there are none."""
        if self.collaborative is None:
            raise DataFault(
                "the tokenizer needs SASRec item vectors, and there are none",
                where="TrainingData.collaborative",
                hint="train the SASRec that Backbone.collaborative names on the same examples, as `bench run` does",
            )
        return self.collaborative


class Backbone(ABC):
    """A family of recommenders. A subclass declares its presets and how its network is built; ``fit`` is shared.

    Attributes:
        presets, sid_presets: Configuration of recommender and tokenizer at each scale; a backbone with a tokenizer of
            its own has a subclass of ``SidConfig``.
        recommender: ``module:Class`` of this family's recommenders, imported when one is made.
        trains_tokenizer: Whether ``fit`` trains the tokenizer too, so that the original serves other IDs than
            ``tokenise`` returned (whose table is then not frozen). Oracles "on the same SIDs" take the original's.
    """

    name: ClassVar[str]
    recommender: ClassVar[str]
    Config: ClassVar[type[BackboneConfig]]
    presets: ClassVar[Mapping[Scale, BackboneConfig]]
    sid_presets: ClassVar[Mapping[Scale, SidConfig]]
    trains_tokenizer: ClassVar[bool] = False

    @classmethod
    def label(cls, config: BackboneConfig, sids: SidConfig) -> str:
        """Name in results. A variant that is another model has another: P5 without its pretrained text model."""
        return cls.name

    @classmethod
    def capabilities(cls, config: BackboneConfig, sids: SidConfig) -> frozenset[Capability]:
        """Capabilities of a recommender with these configurations. Equal to its ``Recommender.capabilities``."""
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
    def reads_interactions(cls, config: SidConfig) -> bool:
        """Whether ``tokenise`` reads ``data.train`` itself, and not just vectors made from it."""
        return False

    @classmethod
    def tokenise(cls, config: SidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress) -> SidTable:
        """Give all N items their semantic IDs; the tokenizer is fitted on ``data.known`` alone."""
        from genrec_unlearn_bench.sids.quantise import quantise

        return quantise(data.features, config, seed=seed, device=device, progress=progress, fit_rows=data.known)

    @classmethod
    def recommender_class(cls) -> Any:
        """The class of this family's recommenders; imports torch."""
        return imported(cls.recommender)

    @classmethod
    @abstractmethod
    def untrained(
        cls, config: BackboneConfig, data: TrainingData, sids: SidTable, *, seed: int, device: str
    ) -> Recommender:
        """A recommender before training, with random weights from ``seed`` or those of a checkpoint."""

    @classmethod
    def task(
        cls, recommender: Any, config: BackboneConfig, data: TrainingData, progress: Progress
    ) -> TrainingTask | None:
        """The samples and loss that training minimises; None for the next items of ``data.train``."""
        return None

    @classmethod
    def fit(
        cls, config: BackboneConfig, *, data: TrainingData, sids: SidTable, seed: int, device: str, progress: Progress
    ) -> Recommender:
        """Train; the best checkpoint on validation is returned, with a frozen table.

        A backbone that trains its tokenizer trains ``sids.network`` on, and leaves a frozen table as it is: that is
        retraining on the same SIDs.

        Raises:
            DataFault: The semantic IDs are those of another catalogue, or there are no examples.
        """
        from genrec_unlearn_bench.backbones.training import train_recommender

        own: Any = expect(config, cls.Config)
        check_items(sids, len(data.items))
        recommender = cls.untrained(own, data, sids, seed=derive(seed, "weights"), device=device)
        task = cls.task(recommender, own, data, progress)
        train_recommender(
            recommender,
            own.training,
            train=data.train,
            valid=data.valid,
            seed=seed,
            device=device,
            progress=progress,
            task=task,
        )
        return recommender

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Recommender:
        result: Recommender = cls.recommender_class().load(folder, device=device)
        return result
