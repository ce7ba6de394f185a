"""MiniOneRec: a decoder-only language model that reads and writes semantic IDs.

"MiniOneRec: An open-source framework for scaling generative recommendation" (arXiv 2510.24431); TRACER's MOR row. Its
supervised stage is built here (TRACER starts from it); the reinforcement stage, about which reproductions disagree, is
not.

From scratch (``checkpoint: null``; the smoke and small scales) there is no text at all, and results call it
"mor (from scratch)". With a checkpoint, four of five tasks carry titles, so a concept also sits in item-text samples:
``Capability.TEXT_TASKS``.

Retraining leaves out item-text samples of concept items, and the titles that remain are scrubbed of the concept's name.
What a checkpoint's own pretraining knows of a brand stays, as it does for the original.

Main deviations from the official code (others: docs/backbones.md): early stopping on validation NDCG@10,
where the repository stops on validation loss; cosine decay for linear; prompts tokenised piece by piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from genrec_unlearn_bench.backbones.backbone import Backbone, TrainingData
from genrec_unlearn_bench.backbones.config import BackboneConfig, expect
from genrec_unlearn_bench.backbones.minionerec.config import PRESETS, SID_PRESETS, MiniOneRecConfig
from genrec_unlearn_bench.backbones.recommender import Capability, Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.training import TrainingTask


class MiniOneRec(Backbone):
    """MiniOneRec (arXiv 2510.24431): Qwen2 over semantic IDs, from scratch or from a pretrained text model."""

    name: ClassVar[str] = "mor"
    recommender: ClassVar[str] = "genrec_unlearn_bench.backbones.minionerec.recommender:CausalRecommender"
    Config = MiniOneRecConfig
    presets = PRESETS
    sid_presets = SID_PRESETS

    @classmethod
    def label(cls, config: BackboneConfig, sids: SidConfig) -> str:
        return cls.name if expect(config, MiniOneRecConfig).checkpoint else f"{cls.name} (from scratch)"

    @classmethod
    def capabilities(cls, config: BackboneConfig, sids: SidConfig) -> frozenset[Capability]:
        own = expect(config, MiniOneRecConfig)
        found = super().capabilities(config, sids)
        return found | {Capability.TEXT_TASKS} if own.checkpoint and own.text_tasks else found

    @classmethod
    def untrained(
        cls, config: BackboneConfig, data: TrainingData, sids: SidTable, *, seed: int, device: str
    ) -> Recommender:
        own = expect(config, MiniOneRecConfig)
        if own.checkpoint is None:
            shape = own.saved_shape(own.network)
            fresh: Recommender = cls.recommender_class().fresh(shape, sids, seed=seed, device=device)
            return fresh
        read: Recommender = cls.recommender_class().pretrained(own, own.checkpoint, sids, seed=seed, device=device)
        return read

    @classmethod
    def task(cls, recommender: Any, config: BackboneConfig, data: TrainingData, progress: Progress) -> TrainingTask:
        from genrec_unlearn_bench.backbones.minionerec.training import PrefixChains, SupervisedMixture

        own = expect(config, MiniOneRecConfig)
        if own.checkpoint is None:
            chains = PrefixChains(recommender, data.train)
            progress.note("train.chains", len(chains.items))
            return chains
        mixture = SupervisedMixture(recommender, data, text_tasks=own.text_tasks, ending=own.ending)
        progress.note("train.samples", list(mixture.sizes))
        return mixture
