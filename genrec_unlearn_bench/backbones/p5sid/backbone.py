"""P5-SID: a pretrained T5 prompted in words for the next item, with items as semantic IDs among the words.

Geng et al. 2022 (P5, arXiv 2203.13366), Hua et al. 2023 (how to index items, arXiv 2305.06569), Xu et al. 2024 (OpenP5,
arXiv 2306.07134). docs/backbones/p5sid.md compares it with the official code.

The name stands for three models in the literature. Here it is P5's prompts over codebook IDs, as TRACER needs
codebooks; the tree indexers of Hua et al. are options of the tokenizer (``indexer``).

Retraining numbers users anew among those that are left. ``retrain-full`` makes the IDs anew as well: codebooks from
scrubbed texts of retain items, sequential numbers and clusters from interactions without the concept, whose items then
follow behind all others. What a pretrained checkpoint knows of a brand stays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from genrec_unlearn_bench.backbones.backbone import Backbone, TrainingData
from genrec_unlearn_bench.backbones.config import BackboneConfig, expect
from genrec_unlearn_bench.backbones.p5sid.config import PRESETS, SID_PRESETS, P5Config, P5SidConfig
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.p5 import digit_pieces
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.p5sid.recommender import P5Recommender
    from genrec_unlearn_bench.backbones.training import TrainingTask

__all__ = ["P5Sid"]


class P5Sid(Backbone):
    """P5 prompts over semantic IDs, on a pretrained T5 (from scratch without one, and then named so)."""

    name: ClassVar[str] = "p5sid"
    Config = P5Config
    presets = PRESETS
    sid_presets = SID_PRESETS

    @classmethod
    def label(cls, config: BackboneConfig, sids: SidConfig) -> str:
        notes = [] if expect(config, P5Config).checkpoint else ["from scratch"]
        indexer = expect(sids, P5SidConfig).indexer
        notes += [] if indexer == "rqvae" else [indexer]
        return f"{cls.name} ({', '.join(notes)})" if notes else cls.name

    @classmethod
    def capabilities(cls, config: BackboneConfig, sids: SidConfig) -> frozenset[Capability]:
        codebooks = expect(sids, P5SidConfig).indexer == "rqvae"
        return frozenset({Capability.HAS_CODEBOOKS if codebooks else Capability.RAGGED_SIDS})

    @classmethod
    def reads_interactions(cls, config: SidConfig) -> bool:
        return expect(config, P5SidConfig).indexer != "rqvae"

    @classmethod
    def tokenise(cls, config: SidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress) -> SidTable:
        """The semantic IDs of all items: codebooks over features, or a tree over the train interactions."""
        from genrec_unlearn_bench.sids.p5 import collaborative_table, sequential_table

        own = expect(config, P5SidConfig)
        if own.indexer == "sequential":
            return sequential_table(data.train, len(data.items), start=own.start, pieces=_number_pieces(own))
        if own.indexer == "collaborative":
            return collaborative_table(
                data.train,
                len(data.items),
                clusters=own.clusters,
                leaf_size=own.leaf_size,
                tokens=own.cluster_tokens,
                slack=own.collision_slack,
                seed=derive(seed, "clusters"),
            )
        return super().tokenise(own, data, seed=seed, device=device, progress=progress)

    @classmethod
    def recommender_class(cls) -> type[P5Recommender]:
        from genrec_unlearn_bench.backbones.p5sid.recommender import P5Recommender

        return P5Recommender

    @classmethod
    def untrained(
        cls, config: BackboneConfig, data: TrainingData, sids: SidTable, *, seed: int, device: str
    ) -> P5Recommender:
        from genrec_unlearn_bench.backbones.p5sid.recommender import untrained_recommender

        return untrained_recommender(expect(config, P5Config), data.train, sids, seed=seed, device=device)

    @classmethod
    def task(cls, recommender: Any, config: BackboneConfig, data: TrainingData, progress: Progress) -> TrainingTask:
        from genrec_unlearn_bench.backbones.p5sid.recommender import PromptedNextItem

        return PromptedNextItem(recommender, data.train, expect(config, P5Config).training.temperature)


def _number_pieces(config: P5SidConfig) -> Callable[[int], list[str]]:
    from genrec_unlearn_bench.backbones.p5sid.prompts import SubwordTokenizer
    from genrec_unlearn_bench.backbones.pretrained import load_pretrained

    if config.number_tokenizer is None:
        return partial(digit_pieces, width=config.digits)
    loaded = load_pretrained(config.number_tokenizer, "t5")
    return SubwordTokenizer(loaded.tokenizer, loaded.model.get_input_embeddings().num_embeddings).number_pieces
