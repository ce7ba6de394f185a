"""What a recommender is made from: the one door through which data reaches a tokenizer or a training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, Examples
from genrec_unlearn_bench.data.items import ItemTable

__all__ = ["TrainingData"]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Interactions and items as one recommender may know them.

    The original gets everything. A retrained oracle gets examples without the concept, texts from which it was
    scrubbed, and ``known`` without the concept items, so whatever a backbone learns from (interactions, co-occurrence,
    collaborative vectors, titles), it learns without the concept.

    Attributes:
        train, valid: Next-item examples.
        items: N items with their texts.
        features: [N, D] embeddings of these texts.
        known: [N] items that tokenizers are fitted on and text samples are made of. The others stay in the catalogue:
            they get semantic IDs and may be recommended.
        collaborative: [N, C] item vectors of a SASRec trained on ``train`` alone, where the backbone asks for them
            (``Backbone.collaborative``); None elsewhere.
    """

    train: Examples
    valid: Examples
    items: ItemTable
    features: NDArray[np.float32]
    known: BoolArray
    collaborative: NDArray[np.float32] | None = None
