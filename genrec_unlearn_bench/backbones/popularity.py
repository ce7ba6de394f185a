"""Popularity: the most frequent train targets for every user. The floor of every table."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from genrec_unlearn_bench.backbones.recommender import Ranker
from genrec_unlearn_bench.data.examples import Examples, Histories
from genrec_unlearn_bench.decoding.ranking import Ranking


class Popularity(Ranker):
    """Ranks by the number of train targets; ties by item order. Histories are ignored."""

    name: ClassVar[str] = "popularity"

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self.counts = counts
        self._order = np.argsort(-counts, kind="stable")

    @classmethod
    def fit(cls, train: Examples, items: int) -> Self:
        return cls(np.bincount(train.targets, minlength=items).astype(np.int64))

    def recommend(self, histories: Histories, k: int, *, beam: int = 50) -> Ranking:
        """The same k items for all. ``log_probs`` are log shares of the train targets (add-one smoothed)."""
        top = self._order[:k]
        shares = np.log((self.counts[top] + 1) / (self.counts.sum() + len(self.counts)))
        items = np.full((len(histories), k), -1, dtype=np.int64)
        log_probs = np.full((len(histories), k), -np.inf, dtype=np.float32)
        items[:, : len(top)] = top
        log_probs[:, : len(top)] = shares
        return Ranking(items, log_probs)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        save_file({"counts": self.counts}, folder / "popularity.safetensors")

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Self:
        return cls(load_file(folder / "popularity.safetensors")["counts"])
