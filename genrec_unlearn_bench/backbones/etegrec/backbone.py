"""ETEGRec: item tokenization and recommendation trained in turns (Liu et al. 2025, SIGIR, arXiv 2409.05546).

``official`` holds the settings of the authors' code; ``paper`` puts TRACER's 3 x 256 x 64 grid on them. What follows
the official code and what does not, with reasons, is in ``docs/backbones.md``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from genrec_unlearn_bench.backbones.backbone import Backbone, TrainingData
from genrec_unlearn_bench.backbones.config import BackboneConfig, SasRecConfig, expect
from genrec_unlearn_bench.backbones.etegrec.config import PRESETS, SID_PRESETS, EtegrecConfig, EtegrecSidConfig
from genrec_unlearn_bench.backbones.recommender import Capability, Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.table import SidTable


class Etegrec(Backbone):
    """ETEGRec (arXiv 2409.05546): tokenizer and T5 trained in turns, then the T5 alone."""

    name: ClassVar[str] = "etegrec"
    recommender: ClassVar[str] = "genrec_unlearn_bench.backbones.etegrec.recommender:EtegrecRecommender"
    Config = EtegrecConfig
    presets = PRESETS
    sid_presets = SID_PRESETS
    trains_tokenizer = True

    @classmethod
    def capabilities(cls, config: BackboneConfig, sids: SidConfig) -> frozenset[Capability]:
        return frozenset({Capability.HAS_CODEBOOKS, Capability.JOINT_TOKENIZER})

    @classmethod
    def collaborative(cls, config: BackboneConfig, sids: SidConfig) -> SasRecConfig | None:
        own = expect(sids, EtegrecSidConfig)
        return None if own.item_features == "text" else own.sasrec

    @classmethod
    def tokenise(cls, config: SidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress) -> SidTable:
        """Pre-train the tokenizer; the table carries it (``SidTable.network``) into joint training."""
        from genrec_unlearn_bench.backbones.etegrec.tokenizer import item_vectors, pretrain

        own = expect(config, EtegrecSidConfig)
        return pretrain(item_vectors(own, data), own, fit=data.known, seed=seed, device=device, progress=progress)

    @classmethod
    def untrained(
        cls, config: BackboneConfig, data: TrainingData, sids: SidTable, *, seed: int, device: str
    ) -> Recommender:
        own = expect(config, EtegrecConfig)
        made = cls.recommender_class().fresh(own.shape, sids.freeze(), seed=seed, device=device)
        made.rescale(own.initial_deviation)
        result: Recommender = made
        return result

    @classmethod
    def fit(
        cls, config: BackboneConfig, *, data: TrainingData, sids: SidTable, seed: int, device: str, progress: Progress
    ) -> Recommender:
        """Train in turns and then the recommender alone; on a frozen table the recommender alone, from scratch."""
        from genrec_unlearn_bench.backbones.etegrec.joint import train_jointly
        from genrec_unlearn_bench.backbones.etegrec.tokenizer import LiveTokenizer
        from genrec_unlearn_bench.backbones.training import train_recommender

        own = expect(config, EtegrecConfig)
        recommender: Any = cls.untrained(own, data, sids, seed=derive(seed, "weights"), device=device)
        training, stage = own.alone, "train"
        if not sids.frozen:
            tokenizer = LiveTokenizer.of(sids, device=device)
            recommender = train_jointly(
                recommender, tokenizer, own, data.train, data.valid, seed=seed, device=device, progress=progress
            )
            training, stage = own.second, "second"
        train_recommender(
            recommender,
            training,
            train=data.train,
            valid=data.valid,
            seed=seed,
            device=device,
            progress=progress,
            stage=stage,
        )
        result: Recommender = recommender
        return result
