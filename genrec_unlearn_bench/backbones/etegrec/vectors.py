"""What the tokenizer reads of an item: SASRec's vector, its text's, or both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.etegrec.config import EtegrecSidConfig
from genrec_unlearn_bench.backbones.training_data import TrainingData
from genrec_unlearn_bench.errors import DataFault

__all__ = ["item_vectors"]

FloatArray = NDArray[np.float32]


def item_vectors(config: EtegrecSidConfig, data: TrainingData) -> FloatArray:
    """[N, D] item vectors as ``config.item_features`` says.

    ``cf`` and ``text`` are taken as they are (the tokenizer centres and scales its input itself).

    Raises:
        DataFault: Collaborative vectors are asked for and there are none, or a vector is not finite.
    """
    parts: list[FloatArray] = []
    if config.item_features in ("cf", "both"):
        if data.collaborative is None:
            raise DataFault(
                "ETEGRec's tokenizer needs SASRec item vectors, and there are none",
                hint="train SASRec first (bench run does), or choose item_features=text",
            )
        parts.append(data.collaborative)
    if config.item_features in ("text", "both"):
        parts.append(data.features)
    if len(parts) > 1:
        parts = [_balanced(part, data.known) for part in parts]
    vectors = np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
        raise DataFault(
            f"the vectors of {bad.size} items are not finite numbers",
            where=f"item row {bad[0]}" + (" and others" if bad.size > 1 else ""),
            hint="check SASRec's training (a lower rate `sasrec.lr`) and the text encoder",
        )
    return vectors


def _balanced(part: FloatArray, known: NDArray[np.bool_]) -> FloatArray:
    """Centred, and scaled to root-mean-square norm 1 over the known rows."""
    centred = part - part[known].mean(axis=0)
    norm = float(np.sqrt((centred[known].astype(np.float64) ** 2).sum(axis=1).mean()))
    scaled: FloatArray = (centred / (norm or 1.0)).astype(np.float32)
    return scaled
