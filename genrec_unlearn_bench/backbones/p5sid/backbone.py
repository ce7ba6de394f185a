"""P5-SID: a pretrained T5 that is asked for the next item in words, items being semantic IDs among the words.

Geng et al. 2022 (P5, arXiv 2203.13366), Hua et al. 2023 (how to index items, arXiv 2305.06569), Xu et al. 2024 (OpenP5,
arXiv 2306.07134). docs/backbones/p5sid.md says what is as in the official code and what is not.

The name stands for three models in the literature. Here it is P5's prompts over codebook IDs, as TRACER needs
codebooks; the tree indexers of Hua et al. are options of the tokenizer (``indexer``).

What retraining means: ``retrain`` keeps the IDs, whatever made them, and trains a new network on cleaned interactions;
users are numbered anew among those that are left. ``retrain-full`` makes the IDs anew as well: codebooks from scrubbed
texts of retain items, sequential numbers and clusters from interactions without the concept, whose items then follow
behind all others. With a pretrained checkpoint both start from it: what its text model knows of a brand, it knows.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from genrec_unlearn_bench.backbones.backbone import Backbone, BackboneConfig, Scale
from genrec_unlearn_bench.backbones.p5sid.config import P5Config, p5_preset
from genrec_unlearn_bench.backbones.p5sid.indexing import p5_table
from genrec_unlearn_bench.backbones.p5sid.layout import prompt_tokens
from genrec_unlearn_bench.backbones.p5sid.prompt_training import PromptedNextItem
from genrec_unlearn_bench.backbones.p5sid.prompts import EVALUATION, PROMPTS
from genrec_unlearn_bench.backbones.p5sid.recommender import P5Recommender, Users
from genrec_unlearn_bench.backbones.p5sid.shape import P5Shape
from genrec_unlearn_bench.backbones.p5sid.sid_config import P5SidConfig, p5_sid_preset
from genrec_unlearn_bench.backbones.p5sid.words import OwnWords, PretrainedWords, TextTokens
from genrec_unlearn_bench.backbones.pretrained import load_pretrained
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.backbones.training_data import TrainingData
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["P5Sid"]


class P5Sid(Backbone):
    """P5 prompts over semantic IDs, on a pretrained T5 (from scratch without one, and then named so)."""

    name: ClassVar[str] = "p5sid"
    Config: ClassVar[type[BackboneConfig]] = P5Config

    @classmethod
    def preset(cls, scale: Scale) -> P5Config:
        return p5_preset(scale)

    @classmethod
    def sid_preset(cls, scale: Scale) -> P5SidConfig:
        return p5_sid_preset(scale.value)

    @classmethod
    def label(cls, config: BackboneConfig, sids: SidConfig) -> str:
        notes = [] if _own(config).checkpoint else ["from scratch"]
        indexer = _indexer(sids).indexer
        if indexer != "rqvae":
            notes.append(indexer)
        return f"{cls.name} ({', '.join(notes)})" if notes else cls.name

    @classmethod
    def capabilities(cls, config: BackboneConfig, sids: SidConfig) -> frozenset[Capability]:
        codebooks = _indexer(sids).indexer == "rqvae"
        return frozenset({Capability.HAS_CODEBOOKS if codebooks else Capability.RAGGED_SIDS})

    @classmethod
    def tokenise(cls, config: SidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress) -> SidTable:
        return p5_table(_indexer(config), data, seed=seed, device=device, progress=progress)

    @classmethod
    def tokenizer_modules(cls) -> tuple[str, ...]:
        return (p5_table.__module__,)

    @classmethod
    def reads_interactions(cls, config: SidConfig) -> bool:
        return _indexer(config).indexer != "rqvae"

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
    ) -> P5Recommender:
        own = _own(config)
        recommender = _untrained(own, data.train, sids, seed=derive(seed, "weights"), device=device)
        train_recommender(
            recommender,
            own.training,
            train=data.train,
            valid=data.valid,
            seed=seed,
            device=device,
            progress=progress,
            task=PromptedNextItem(recommender, data.train, own.training.temperature),
        )
        return recommender

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> P5Recommender:
        return P5Recommender.load(folder, device=device)


def _untrained(config: P5Config, train: Examples, sids: SidTable, *, seed: int, device: str) -> P5Recommender:
    text: TextTokens = OwnWords()
    content = config.shape.model_dump()
    loaded = load_pretrained(config.checkpoint, "t5") if config.checkpoint else None
    if loaded is not None:
        found = loaded.model.config
        text = PretrainedWords(loaded.tokenizer, loaded.model.get_input_embeddings().num_embeddings)
        content |= {
            "d_model": found.d_model,
            "d_kv": found.d_kv,
            "d_ff": found.d_ff,
            "layers": found.num_layers,
            "heads": found.num_heads,
            "dropout": found.dropout_rate,
            "gated": found.is_gated_act,
            "tied": found.tie_word_embeddings,
        }
    users = _users(train, text)
    shape = P5Shape.model_validate(
        content
        | {
            "text_tokens": text.size,
            "prompts": tuple(prompt_tokens(prompt, text) for prompt in PROMPTS),
            "evaluation": EVALUATION,
            "separator": tuple(text.separator) if config.separator else (),
            "whole_words": 512 if config.whole_words else 0,
            "user_ids": len(users.rows),
            "users": len(users.tokens) - 1,
            "user_width": users.tokens.shape[1],
        }
    )
    if loaded is None:
        recommender = P5Recommender.fresh(shape, sids, seed=seed, device=device)
    else:
        numbers = text.number_ids() if isinstance(text, PretrainedWords) else []
        recommender = P5Recommender.pretrained(loaded.model, shape, sids, numbers=numbers, seed=seed, device=device)
    recommender.set_users(users)
    return recommender


def _users(train: Examples, text: TextTokens) -> Users:
    """Train users numbered from 1 in the order of their first train row in time: nothing of what comes later, and no
    user that training does not see, moves a number."""
    order = np.lexsort((train.users, train.times))
    distinct, first = np.unique(train.users[order], return_index=True)
    numbered = distinct[np.argsort(first, kind="stable")]
    rows = np.zeros(int(distinct.max(initial=-1)) + 1 or 1, dtype=np.int64)
    rows[numbered] = np.arange(1, len(numbered) + 1)
    return Users(rows, [text.user(number) for number in range(len(numbered) + 1)])


def _own(config: BackboneConfig) -> P5Config:
    if not isinstance(config, P5Config):
        raise TypeError(f"P5-SID takes a P5Config, not {type(config).__name__}")
    return config


def _indexer(config: SidConfig) -> P5SidConfig:
    if not isinstance(config, P5SidConfig):
        raise TypeError(f"P5-SID takes a P5SidConfig, not {type(config).__name__}")
    return config
