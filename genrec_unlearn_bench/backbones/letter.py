"""LETTER on TIGER (Wang et al. 2024, "Learnable item tokenization for generative recommendation", arXiv 2405.07314).

Three steps, one after the other: SASRec on the train interactions gives item vectors; the tokenizer (``sids.letter``)
fits semantic IDs to texts and these vectors; with the IDs fixed, a T5 is trained from scratch to generate them. This is
two-stage training: no gradient reaches the tokenizer from the recommender, and the ID table is frozen before the
recommender sees it. TRACER (arXiv 2606.07688) lists LETTER under joint training; LETTER's code has none. Of our
backbones ETEGRec alone trains jointly.

What retraining means here. ``retrain`` keeps the deployed IDs, which texts and vectors with the concept went into.
``retrain-full`` makes all three steps anew without it: SASRec on cleaned interactions, the tokenizer on retain items
and scrubbed texts, the T5 on cleaned interactions. Concept items then have SASRec's initial vectors, which the
tokenizer is not fitted on; their IDs come from their scrubbed texts.

The recommender's loss is LETTER's ranking-guided one: cross-entropy of logits divided by a temperature
(``TrainingConfig.temperature``). The repository ships 1.0, which is plain cross-entropy, and so do the presets.

Deviations from the official code: a collision level where the preset says so (``official`` does without, as the
repository does: items that share an ID then share its score); no end-of-sequence token, because all IDs have the same
length, so the token is certain under constrained decoding and would add its log-probability to every item alike, but
for the little that the model keeps it from 1; a vocabulary of semantic-ID tokens alone, where the official one drags
32,000 sub-words along that no history contains; weight decay on all parameters; early stopping on validation NDCG@10,
where the repository takes the validation loss.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from genrec_unlearn_bench.backbones.backbone import Backbone, BackboneConfig, Scale
from genrec_unlearn_bench.backbones.sasrec.config import SasRecConfig, sasrec_preset
from genrec_unlearn_bench.backbones.t5 import T5Recommender, T5Shape
from genrec_unlearn_bench.backbones.training import TrainingConfig, train_recommender
from genrec_unlearn_bench.backbones.training_data import TrainingData
from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.config import LetterSidConfig, SidConfig, letter_sid_preset
from genrec_unlearn_bench.sids.letter import letter_sids
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["Letter", "LetterConfig"]


class LetterConfig(BackboneConfig):
    """The network, its training, and where the tokenizer's collaborative vectors come from."""

    shape: T5Shape = Field(default_factory=T5Shape)
    """Architecture and history length."""
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    """Optimisation, ranking temperature and early stopping."""
    vectors: SasRecConfig = Field(default_factory=SasRecConfig)
    """SASRec whose item vectors the tokenizer takes; its width is the tokenizer's, whatever stands here."""


_PRESETS = {
    Scale.SMOKE: LetterConfig(
        shape=T5Shape(d_model=64, d_kv=16, d_ff=256, layers=2, heads=4, dropout=0.0, history_limit=6),
        training=TrainingConfig(lr=5e-3, batch_size=128, epochs=8, warmup_steps=60, evaluations=4, valid_rows=500),
        vectors=sasrec_preset("smoke"),
    ),
    Scale.SMALL: LetterConfig(
        shape=T5Shape(d_model=128, d_kv=32, d_ff=512, layers=2, heads=4, history_limit=10),
        training=TrainingConfig(lr=1e-3, epochs=40, max_steps=1500, warmup_steps=150, evaluations=8, patience=3),
        vectors=sasrec_preset("small"),
    ),
    Scale.PAPER: LetterConfig(
        shape=T5Shape(),
        training=TrainingConfig(
            lr=5e-4, batch_size=128, epochs=200, warmup_steps=2000, evaluations=100, patience=10, valid_rows=5000
        ),
        vectors=sasrec_preset("paper"),
    ),
    Scale.OFFICIAL: LetterConfig(
        shape=T5Shape(d_model=128, d_kv=64, d_ff=1024, layers=4, heads=6, dropout=0.1, history_limit=20),
        # Warm-up over one step in a hundred: 250 of 25,700 on Amazon Beauty.
        training=TrainingConfig(
            lr=5e-4,
            weight_decay=0.01,
            batch_size=1024,
            epochs=200,
            warmup_steps=250,
            evaluations=200,
            patience=20,
            valid_rows=5000,
        ),
        vectors=sasrec_preset("official"),
    ),
}


class Letter(Backbone):
    """LETTER (arXiv 2405.07314) on TIGER: semantic IDs aligned with collaborative vectors, then frozen."""

    name: ClassVar[str] = "letter"
    Config: ClassVar[type[BackboneConfig]] = LetterConfig

    @classmethod
    def preset(cls, scale: Scale) -> LetterConfig:
        return _PRESETS[scale]

    @classmethod
    def sid_preset(cls, scale: Scale) -> LetterSidConfig:
        return letter_sid_preset(scale.value)

    @classmethod
    def collaborative(cls, config: BackboneConfig, sids: SidConfig) -> SasRecConfig:
        """SASRec of the tokenizer's width.

        Raises:
            ConfigError: The width is no multiple of SASRec's heads.
        """
        fields = {**_letter(config).vectors.model_dump(), "dim": sids.dim}
        return parse(SasRecConfig, fields, where="--set-sid dim (the width of LETTER's SASRec)")

    @classmethod
    def tokenise(cls, config: SidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress) -> SidTable:
        """Fit the tokenizer on ``data.known`` and give all N items their IDs.

        Raises:
            DataFault: ``data.collaborative`` is missing.
        """
        if not isinstance(config, LetterSidConfig):
            raise TypeError(f"LETTER takes a LetterSidConfig, not {type(config).__name__}")
        if data.collaborative is None:
            raise DataFault(
                "LETTER's tokenizer needs collaborative item vectors, and there are none",
                where="TrainingData.collaborative",
                hint="train the SASRec that Letter.collaborative names on the same examples, and pass its item vectors",
            )
        return letter_sids(
            data.features,
            data.collaborative,
            config,
            seed=seed,
            device=device,
            progress=progress,
            fit_rows=data.known,
        )

    @classmethod
    def tokenizer_modules(cls) -> tuple[str, ...]:
        return (letter_sids.__module__,)

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
    ) -> T5Recommender:
        chosen = _letter(config)
        recommender = T5Recommender.fresh(chosen.shape, sids, seed=derive(seed, "weights"), device=device)
        train_recommender(
            recommender,
            chosen.training,
            train=data.train,
            valid=data.valid,
            seed=seed,
            device=device,
            progress=progress,
        )
        return recommender

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> T5Recommender:
        return T5Recommender.load(folder, device=device)


def _letter(config: BackboneConfig) -> LetterConfig:
    if not isinstance(config, LetterConfig):
        raise TypeError(f"LETTER takes a LetterConfig, not {type(config).__name__}")
    return config
