"""The base of all backbones: presets, tokenizer, training and loading of one family of recommenders.

What a stage's key depends on follows from configuration alone, without torch, a model or a SID table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.config import BackboneConfig, SasRecConfig
from genrec_unlearn_bench.backbones.recommender import Capability, Recommender
from genrec_unlearn_bench.data.examples import BoolArray, Examples
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.locate import model_digest
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import imported
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.table import SidTable, check_items

C = TypeVar("C", bound=BackboneConfig)
S = TypeVar("S", bound=SidConfig)


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


class Backbone(Generic[C, S]):
    """A family of recommenders: presets, and how they differ from a T5 over quantised texts. ``fit`` is shared.

    Attributes:
        presets, sid_presets: Configuration of recommender and tokenizer at each scale; a backbone with a tokenizer of
            its own has a subclass of ``SidConfig``.
        recommender: ``module:Class`` of this family's recommenders, imported when one is made.
        task: ``module:function`` that makes the ``TrainingTask`` of a recommender, configuration, training data and
            progress; None for the next items of ``data.train``.
        joint: ``module:function`` that trains tokenizer and recommender together before the shared stage; returns the
            recommender, and that stage's settings and name. The original then serves other IDs than ``tokenise``
            returned (whose table is not frozen), and oracles "on the same SIDs" take the original's.
        reads_index: Whether semantic IDs of an index file (``SidConfig.index``) can take the place of ``tokenise``.
        smoke_limits: Fields of the configuration at smoke scale on other data than the demo, which is small by itself:
            a model of any data takes at most two minutes on one core.
    """

    name: ClassVar[str]
    recommender: ClassVar[str] = "genrec_unlearn_bench.backbones.t5:T5Recommender"
    Config: ClassVar[type[BackboneConfig]]
    presets: ClassVar[Mapping[str, BackboneConfig]]
    sid_presets: ClassVar[Mapping[str, SidConfig]]
    task: ClassVar[str | None] = None
    joint: ClassVar[str | None] = None
    reads_index: ClassVar[bool] = True
    smoke_limits: ClassVar[Mapping[str, int]] = {"training.max_steps": 1200}

    @classmethod
    def label(cls, config: C, sids: S) -> str:
        """Name in results. A variant that is another model has another: P5 without its pretrained text model."""
        return cls.name

    @classmethod
    def capabilities(cls, config: C, sids: S) -> frozenset[Capability]:
        """Capabilities of a recommender with these configurations. Equal to its ``Recommender.capabilities``."""
        return frozenset() if sids.index else frozenset({Capability.HAS_CODEBOOKS})

    @classmethod
    def weights(cls, config: C) -> str | None:
        """Digest of the pretrained files that training starts from, where ``config.checkpoint`` is a local folder.

        Part of the stage's key: a folder counts by its content. A hub id stands for itself (``id@revision`` pins it).
        """
        source = getattr(config, "checkpoint", None)
        return model_digest(Path(source)) if source and Path(source).is_dir() else None

    @classmethod
    def collaborative(cls, config: C, sids: S) -> SasRecConfig | None:
        """The SASRec whose item vectors the tokenizer needs (``TrainingData.collaborative``); None for none."""
        return None

    @classmethod
    def reads_interactions(cls, config: S) -> bool:
        """Whether ``tokenise`` reads ``data.train`` itself, and not just vectors made from it."""
        return False

    @classmethod
    def tokenise(cls, config: S, data: TrainingData, *, seed: int, device: str, progress: Progress) -> SidTable:
        """Give all N items their semantic IDs; the tokenizer is fitted on ``data.known`` alone."""
        from genrec_unlearn_bench.sids.quantise import quantise

        return quantise(data.features, config, seed=seed, device=device, progress=progress, fit_rows=data.known)

    @classmethod
    def fit(
        cls, config: C, *, data: TrainingData, sids: SidTable, seed: int, device: str, progress: Progress
    ) -> Recommender:
        """Train; the best checkpoint on validation is returned, with a frozen table.

        A backbone that trains its tokenizer trains ``sids.network`` on, and leaves a frozen table as it is: that is
        retraining on the same SIDs.

        Raises:
            DataFault: The semantic IDs are those of another catalogue, or there are no examples.
        """
        from genrec_unlearn_bench.backbones.training import train_recommender

        if not isinstance(config, cls.Config):
            raise TypeError(f"this backbone takes a {cls.Config.__name__}, not a {type(config).__name__}")
        check_items(sids, len(data.items))
        own: Any = config
        weights: dict[str, Any] = {"seed": derive(seed, "weights"), "device": device}
        recommender: Recommender = imported(cls.recommender).untrained(own, data.train, sids.freeze(), **weights)
        how: dict[str, Any] = {"seed": seed, "device": device, "progress": progress}
        progress.limit(config.max_hours)
        if cls.joint:
            recommender, training, stage = imported(cls.joint)(recommender, own, data, sids, **how)
        else:
            training, stage = own.training, "train"
        task = imported(cls.task)(recommender, own, data, progress) if cls.task else None
        train_recommender(recommender, training, train=data.train, valid=data.valid, stage=stage, task=task, **how)
        return recommender

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Recommender:
        result: Recommender = imported(cls.recommender).load(folder, device=device)
        return result
