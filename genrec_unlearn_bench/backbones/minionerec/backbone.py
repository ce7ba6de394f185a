"""MiniOneRec: a decoder-only language model that reads and writes semantic IDs.

"MiniOneRec: An open-source framework for scaling generative recommendation" (arXiv 2510.24431); TRACER's MOR row. Its
supervised stage is built here (TRACER starts from it); the reinforcement stage, about which reproductions disagree, is
not.

From scratch (``checkpoint: null``; the smoke and small scales) there is no text at all, and results call it
"mor (from scratch)". With a checkpoint, four of five tasks carry titles, so a concept also sits in item-text samples:
``Capability.TEXT_TASKS``.

What retraining means here. ``retrain``: the same frozen SIDs and the same start (the random weights of the seed, or the
checkpoint); interactions with the concept are gone from targets and histories, item-text samples of concept items are
left out, and the titles that remain are scrubbed of the concept's name. ``retrain-full``: the tokenizer is fitted anew
on scrubbed texts of retain items before that. What a checkpoint's own pretraining knows of a brand stays, as it does
for the original.

Main deviations from the official code (docs/backbones/minionerec.md lists all): early stopping on validation NDCG@10,
where the repository stops on validation loss; cosine decay for linear; prompts tokenised piece by piece.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import torch

from genrec_unlearn_bench.backbones.backbone import Backbone, BackboneConfig, Scale
from genrec_unlearn_bench.backbones.minionerec.chains import PrefixChains
from genrec_unlearn_bench.backbones.minionerec.config import PRESETS, MiniOneRecConfig, mor_sid_preset
from genrec_unlearn_bench.backbones.minionerec.network import adapted, extend_vocabulary
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.minionerec.shape import CausalShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.text import TextSide
from genrec_unlearn_bench.backbones.minionerec.text_tasks import SupervisedMixture
from genrec_unlearn_bench.backbones.pretrained import load_pretrained
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.backbones.training import TrainingTask, train_recommender
from genrec_unlearn_bench.backbones.training_data import TrainingData
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["MiniOneRec", "pretrained_recommender"]


class MiniOneRec(Backbone):
    """MiniOneRec (arXiv 2510.24431): Qwen2 over semantic IDs, from scratch or from a pretrained text model."""

    name: ClassVar[str] = "mor"
    Config: ClassVar[type[BackboneConfig]] = MiniOneRecConfig

    @classmethod
    def preset(cls, scale: Scale) -> MiniOneRecConfig:
        return PRESETS[scale]

    @classmethod
    def sid_preset(cls, scale: Scale) -> SidConfig:
        return mor_sid_preset(scale)

    @classmethod
    def label(cls, config: BackboneConfig, sids: SidConfig) -> str:
        return cls.name if _checked(config).checkpoint else f"{cls.name} (from scratch)"

    @classmethod
    def capabilities(cls, config: BackboneConfig, sids: SidConfig) -> frozenset[Capability]:
        own = _checked(config)
        found = super().capabilities(config, sids)
        return found | {Capability.TEXT_TASKS} if own.checkpoint and own.text_tasks else found

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
    ) -> CausalRecommender:
        own = _checked(config)
        task: TrainingTask
        if own.checkpoint is None:
            recommender = _from_scratch(own, sids, seed=derive(seed, "weights"), device=device)
            chains = PrefixChains(recommender, data.train)
            progress.note("train.chains", len(chains.items))
            task = chains
        else:
            recommender = pretrained_recommender(own, own.checkpoint, sids, seed=derive(seed, "weights"), device=device)
            mixture = SupervisedMixture(recommender, data, text_tasks=own.text_tasks, ending=own.ending)
            progress.note("train.samples", list(mixture.sizes))
            task = mixture
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
    def load(cls, folder: Path, *, device: str = "cpu") -> CausalRecommender:
        return CausalRecommender.load(folder, device=device)


def _checked(config: BackboneConfig) -> MiniOneRecConfig:
    if not isinstance(config, MiniOneRecConfig):
        raise TypeError(f"MiniOneRec takes a MiniOneRecConfig, not {type(config).__name__}")
    faults = []
    if config.checkpoint is None and config.lora is not None:
        faults.append("lora: adapters need a checkpoint to adapt; a network from scratch is trained in full")
    if config.lora is not None and config.training.weight_decay:
        faults.append("training.weight_decay: must be 0 with lora, it would move the text rows of the embedding")
    if faults:
        raise ConfigError(faults, where="--set-backbone")
    return config


def _from_scratch(config: MiniOneRecConfig, sids: SidTable, *, seed: int, device: str) -> CausalRecommender:
    shape = CausalShape(
        network=config.network,
        history_limit=config.history_limit,
        dropout=config.dropout,
        precision=config.precision,
        checkpointing=config.checkpointing,
    )
    return CausalRecommender.fresh(shape, sids, seed=seed, device=device)


def pretrained_recommender(
    config: MiniOneRecConfig, checkpoint: str, sids: SidTable, *, seed: int, device: str
) -> CausalRecommender:
    """The checkpoint with SID tokens added and adapters in, before any training. Raises as ``load_pretrained``."""
    dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    found = load_pretrained(checkpoint, "qwen2", dtype=dtype)
    tokenizer: Any = found.tokenizer
    text_tokens = max(tokenizer.get_vocab().values()) + 1
    shape = CausalShape(
        network=NetworkShape.of(found.model.config, found.source),
        text_tokens=text_tokens,
        words=config.words,
        text_tasks=config.text_tasks,
        end_token=tokenizer.eos_token_id,
        title_tokens=config.title_tokens,
        history_limit=config.history_limit,
        dropout=config.dropout,
        lora=config.lora,
        precision=config.precision,
        checkpointing=config.checkpointing,
    )
    extend_vocabulary(found.model, text_tokens, sum(sids.level_sizes), seed=seed)
    model = adapted(found.model, shape, seed=seed)
    text = TextSide.of(tokenizer.backend_tokenizer, config.words, shape.end_token)
    return CausalRecommender(model.to(device), shape, sids, text=text)  # type: ignore[arg-type]
