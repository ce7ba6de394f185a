"""LETTER on TIGER (Wang et al. 2024, "Learnable item tokenization for generative recommendation", arXiv 2405.07314).

Three steps: SASRec on the train interactions gives item vectors; the tokenizer (``sids.letter``) fits semantic IDs to
texts and these vectors; with the IDs fixed, a T5 is trained from scratch to generate them. ``retrain-full`` repeats all
three without the concept, whose items then have SASRec's initial vectors, which the tokenizer is not fitted on.

The loss is LETTER's ranking-guided one: cross-entropy of logits divided by ``TrainingConfig.temperature``. The
repository ships 1.0, which is plain cross-entropy, and so do the presets. Deviations: docs/backbones.md."""

from __future__ import annotations

from pydantic import Field

from genrec_unlearn_bench.backbones.backbone import Backbone, TrainingData
from genrec_unlearn_bench.backbones.config import SASREC_PRESETS, SasRecConfig, TrainingConfig
from genrec_unlearn_bench.backbones.tiger import TIGER_PRESETS, TigerConfig
from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import LETTER_PRESETS, LetterSidConfig
from genrec_unlearn_bench.sids.table import SidTable


class LetterConfig(TigerConfig):
    """The network, its training, and where the tokenizer's collaborative vectors come from."""

    vectors: SasRecConfig = Field(default_factory=SasRecConfig)
    """SASRec whose item vectors the tokenizer takes; its width is the tokenizer's, whatever stands here."""


_PRESETS = {
    scale: LetterConfig(shape=TIGER_PRESETS[scale].shape, training=TIGER_PRESETS[scale].training, vectors=sasrec)
    for scale, sasrec in SASREC_PRESETS.items()
}
_PRESETS["official"] = LetterConfig(
    # 256 rows on each of two GPUs, two such steps accumulated.
    training=TrainingConfig(
        lr=5e-4, batch_size=1024, epochs=200, warmup_steps=0.01, evaluations=200, patience=20, valid_rows=5000
    ),
    vectors=SASREC_PRESETS["official"],
)


class Letter(Backbone[LetterConfig, LetterSidConfig]):
    """LETTER (arXiv 2405.07314) on TIGER: semantic IDs aligned with collaborative vectors, then frozen."""

    name = "letter"
    Config = LetterConfig
    presets = _PRESETS
    sid_presets = LETTER_PRESETS

    @classmethod
    def collaborative(cls, config: LetterConfig, sids: LetterSidConfig) -> SasRecConfig | None:
        """SASRec of the tokenizer's width; raises ConfigError unless that is a multiple of SASRec's heads."""
        if sids.index:
            return None
        fields = {**config.vectors.model_dump(), "dim": sids.dim}
        return parse(SasRecConfig, fields, where="--set-sid dim (the width of LETTER's SASRec)")

    @classmethod
    def tokenise(
        cls, config: LetterSidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress
    ) -> SidTable:
        from genrec_unlearn_bench.sids.letter import letter_sids

        return letter_sids(
            data.features, data.sasrec_vectors, config, seed=seed, device=device, progress=progress, fit_rows=data.known
        )
