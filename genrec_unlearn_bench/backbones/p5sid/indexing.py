"""The three indexers of P5-SID behind one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from genrec_unlearn_bench.backbones.p5sid.sid_config import P5SidConfig
from genrec_unlearn_bench.backbones.p5sid.words import PretrainedWords
from genrec_unlearn_bench.backbones.pretrained import load_pretrained
from genrec_unlearn_bench.backbones.training_data import TrainingData
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.p5 import collaborative_table, digit_pieces, sequential_table
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["p5_table"]


def p5_table(config: P5SidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress) -> SidTable:
    """The semantic IDs of all items: codebooks over features, or a tree over the train interactions."""
    if config.indexer == "sequential":
        return sequential_table(data.train, len(data.items), start=config.start, pieces=_pieces(config))
    if config.indexer == "collaborative":
        return collaborative_table(
            data.train,
            len(data.items),
            clusters=config.clusters,
            leaf_size=config.leaf_size,
            tokens=config.cluster_tokens,
            slack=config.collision_slack,
            seed=derive(seed, "clusters"),
        )
    return quantise(data.features, config, seed=seed, device=device, progress=progress, fit_rows=data.known)


def _pieces(config: P5SidConfig) -> Callable[[int], list[str]]:
    if config.number_tokenizer is None:
        return partial(digit_pieces, width=config.digits)
    loaded = load_pretrained(config.number_tokenizer, "t5")
    return PretrainedWords(loaded.tokenizer, loaded.model.get_input_embeddings().num_embeddings).number_pieces
