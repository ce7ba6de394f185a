"""The reference rows: SASRec (Kang and McAuley 2018, arXiv 1808.09781) and popularity, the floor of every table.

In SASRec every item has a vector, and the whole catalogue is scored. LETTER and ETEGRec build their semantic IDs on its
item vectors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from genrec_unlearn_bench.backbones.config import SasRecConfig
from genrec_unlearn_bench.backbones.early_stopping import mean_ndcg, validation_sample
from genrec_unlearn_bench.backbones.recommender import Ranker, eval_mode, length_batches
from genrec_unlearn_bench.backbones.sasrec_network import SasRecNetwork, train_network, train_sequences
from genrec_unlearn_bench.data.examples import PAD, BoolArray, Examples, Histories
from genrec_unlearn_bench.decoding.beam import leading
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator

_WEIGHTS = "sasrec.safetensors"
_RECORD = "sasrec.json"
_SCORES = 8_000_000
"""Scores computed at once while recommending: 32 MB."""


class SasRec(Ranker):
    """A trained SASRec, with ``counts`` [N], how often each item is a train target, and ``seen`` [N], whether it occurs
    in training at all."""

    name: ClassVar[str] = "sasrec"

    def __init__(
        self, network: SasRecNetwork, config: SasRecConfig, counts: NDArray[np.int64], seen: BoolArray
    ) -> None:
        self.network, self.config, self.counts, self.seen = network, config, counts, seen

    @classmethod
    def fit(
        cls,
        config: SasRecConfig,
        *,
        train: Examples,
        valid: Examples,
        items: int,
        seed: int,
        device: str,
        progress: Progress,
    ) -> Self:
        """Train on the examples' sequences (see ``train_sequences``); the best epoch on validation NDCG@10 is kept.

        Of the N ``items`` those that never occur in training keep their initial vectors, small and random. Raises
        DataFault where there is no train example with a history, or no validation example.
        """
        longest = int(train.history_lengths().max(initial=0))
        limit = max(min(config.history_limit, longest), 1)
        sequences = train_sequences(train, limit)
        if not len(sequences[0]) or not len(valid):
            examples = f"{len(train)} train, {len(valid)} validation examples"
            raise DataFault("SASRec has nothing to train on", where=examples)
        seen = np.zeros(items, dtype=np.bool_)
        for part in sequences:
            seen[part[part != PAD]] = True
        network = SasRecNetwork(config, items=items, positions=limit, seed=derive(seed, "sasrec", "weights")).to(device)
        ranker = cls(network, config, np.bincount(train.targets, minlength=items).astype(np.int64), seen)
        chosen = validation_sample(valid, config.valid_rows, numpy_generator(seed, "sasrec", "valid-sample"))
        histories = chosen.histories(limit)
        train_network(
            network,
            config,
            sequences,
            seen=torch.from_numpy(np.flatnonzero(seen)),
            validate=lambda: mean_ndcg(ranker.recommend(histories, 10), chosen.targets),
            seed=seed,
            device=device,
            progress=progress,
        )
        progress.note("sasrec.sequences", len(sequences[0]))
        progress.note("sasrec.unseen_items", int((~seen).sum()))
        return ranker

    def recommend(self, histories: Histories, k: int, *, beam: int = 50) -> Ranking:
        """The k best items of the whole catalogue; equal scores stand in item order.

        ``log_probs`` are those of a softmax over the catalogue. Items that never occurred in training have a vector
        that means nothing; they stand behind all others, level with each other. A history without any item is
        answered by popularity (add-one smoothed log shares of the train targets).
        """
        if k < 1:
            raise ValueError(f"k must be positive, got {k}")
        items = np.full((len(histories), k), PAD, dtype=np.int64)
        log_probs = np.full((len(histories), k), -np.inf, dtype=np.float32)
        histories = histories.latest(self.network.positions.num_embeddings)
        with eval_mode(self.network), torch.inference_mode():
            for rows in length_batches(histories.lengths, max(_SCORES // len(self.counts), 1)):
                scores = self._log_probs(histories.rows(rows))
                found = leading(scores, k)
                values, order = scores.gather(1, found).sort(dim=1, descending=True, stable=True)
                items[rows, : found.shape[1]] = found.gather(1, order).cpu().numpy()
                log_probs[rows, : found.shape[1]] = values.cpu().numpy()
        return Ranking(items, log_probs)

    def item_vectors(self) -> NDArray[np.float32]:
        """[N, dim] item embeddings: the collaborative vectors."""
        return self.network.items.weight.detach().float().cpu().numpy().copy()

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"network.{name}": value.cpu().contiguous() for name, value in self.network.state_dict().items()}
        tensors["counts"] = torch.from_numpy(self.counts)
        tensors["seen"] = torch.from_numpy(self.seen.astype(np.uint8))
        save_file(tensors, folder / _WEIGHTS)
        text = json.dumps(self.config.model_dump(), indent=2, sort_keys=True)
        (folder / _RECORD).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Self:
        config = SasRecConfig.model_validate_json((folder / _RECORD).read_bytes())
        tensors = load_file(folder / _WEIGHTS)
        state = {name[8:]: value for name, value in tensors.items() if name.startswith("network.")}
        network = SasRecNetwork(config, items=len(tensors["counts"]), positions=len(state["positions.weight"]), seed=0)
        network.load_state_dict(state)
        ranker = cls(network.to(device), config, tensors["counts"].numpy(), tensors["seen"].numpy().astype(np.bool_))
        ranker.network.eval()
        return ranker

    def _log_probs(self, histories: Histories) -> Tensor:
        """[B, N]."""
        device = self.network.items.weight.device
        seen = torch.from_numpy(self.seen).to(device)
        shares = torch.from_numpy(np.log((self.counts + 1) / (self.counts.sum() + len(self.counts)))).float().to(device)
        lengths = torch.from_numpy(histories.lengths).to(device)
        if not histories.items.shape[1]:
            return shares.expand(len(histories), -1)
        states = self.network(torch.from_numpy(histories.items).to(device))
        last = states[torch.arange(len(states), device=device), (lengths - 1).clamp_min(0)]
        scores = last @ self.network.items.weight.T
        floor = scores.masked_fill(~seen, torch.inf).amin(1, keepdim=True) - 1
        found = torch.where(seen, scores, floor).log_softmax(-1)
        return torch.where((lengths > 0)[:, None], found, shares)


class Popularity(Ranker):
    """Ranks by the number of train targets, alike for every user; ties by item order. Histories are ignored."""

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
        save_file({"counts": torch.from_numpy(self.counts)}, folder / "popularity.safetensors")

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Self:
        return cls(load_file(folder / "popularity.safetensors")["counts"].numpy())
