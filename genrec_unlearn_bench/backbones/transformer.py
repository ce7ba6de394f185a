"""The common part of the recommenders on T5 and Qwen2: saved folders, the trie over the SIDs, ranking.

A saved recommender is one folder of safetensors and JSON: weights, SID table, serving rules.
"""

from __future__ import annotations

import copy
import json
from abc import abstractmethod
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors.numpy import load_file as load_numpy
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.recommender import (
    PAD_TOKEN,
    Recommender,
    ServingRules,
    SidVocabulary,
    eval_mode,
    length_batches,
)
from genrec_unlearn_bench.data.examples import Histories, IntArray
from genrec_unlearn_bench.decoding.beam import beam_search, rank_items
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.sids.table import SidTable, check_successor, load_table, save_table

_RECORD, _WEIGHTS, _SERVING, _SIDS = "recommender.json", "model.safetensors", "serving.safetensors", "sids"
_MASKS = ("blocked", "ignored")

BATCH_BEAMS = 1600
"""Beams decoded at once: beyond this the caches of a CPU overflow and nothing is gained. A GPU takes as many for every
4 GiB of its memory, which hold 1,600 beams of a network of seven billion weights with their prompts."""


class TransformerRecommender(Recommender):
    """A recommender on a network of ``transformers`` with as many tokens as the vocabulary.

    ``shape`` is everything but weights and SIDs that the network is rebuilt from. Families add how histories are read
    and SIDs decoded.
    """

    def __init__(
        self, model: Any, shape: Any, sids: SidTable, serving: ServingRules | None, vocabulary: SidVocabulary
    ) -> None:
        if model.config.vocab_size != vocabulary.size:
            raise ValueError(f"the model has {model.config.vocab_size} tokens, the table {vocabulary.size}")
        self.model, self.shape, self.sids = model, shape, sids
        self.serving = serving or ServingRules()
        self.vocabulary, self.history_limit = vocabulary, shape.history_limit
        self._tries: dict[tuple[str, bytes], Trie] = {}

    @classmethod
    @abstractmethod
    def _rebuilt(cls, shape: dict[str, Any], sids: SidTable, folder: Path, *, device: str) -> Self:
        """A recommender of the saved shape and SIDs with any weights, for ``load`` to fill in."""

    def _like(self, model: Any, sids: SidTable, serving: ServingRules) -> Self:
        return type(self)(model, self.shape, sids, serving)  # type: ignore[call-arg]

    @property
    def module(self) -> nn.Module:
        result: nn.Module = self.model
        return result

    def codes_of(self, items: IntArray) -> Tensor:
        return torch.from_numpy(self.sids.codes[items]).to(self.device)

    def _served(self, histories: Histories) -> Histories:
        """The last items of histories, without those that the serving rules drop."""
        if self.serving.ignored is not None:
            histories = histories.without(self.serving.ignored)
        return histories.latest(self.history_limit)

    def _labels(self, codes: Tensor) -> tuple[Tensor, Tensor | None]:
        """Vocabulary ids of codes [R, L], and which are real; None where all are."""
        real = None if bool((codes >= 0).all()) else codes >= 0
        labels = codes + torch.tensor(self.vocabulary.offsets, device=codes.device)
        return labels if real is None else labels.masked_fill(~real, PAD_TOKEN), real

    def with_sids(self, table: SidTable) -> Self:
        check_successor(self.sids, table)
        return self._like(self.model, table, self.serving)

    def with_serving(self, rules: ServingRules) -> Self:
        return self._like(self.model, self.sids, rules)

    def clone(self) -> Self:
        return self._like(copy.deepcopy(self.model), self.sids, self.serving)

    def recommend(
        self, histories: Histories, k: int, *, beam: int = 50, exact: bool = False, sids: SidTable | None = None
    ) -> Ranking:
        if k < 1 or beam < 1:
            raise ValueError(f"k and beam must be positive, got {k} and {beam}")
        trie = self._trie(sids or self.sids)
        items = np.full((len(histories), k), -1, dtype=np.int64)
        log_probs = np.full((len(histories), k), -np.inf, dtype=np.float32)
        beam = trie.leaves if exact else beam
        share = memory_shares(self.device)
        batch = max(1 if exact else 16, min(256 * share, BATCH_BEAMS * share // beam))
        offsets = self.vocabulary.offsets
        with eval_mode(self.module), torch.inference_mode():
            open_session = self.server()
            for rows in length_batches(np.minimum(histories.lengths, self.history_limit), batch):
                session = open_session(histories.rows(rows))
                part = rank_items(beam_search(session, trie, offsets, beam=beam), trie, k)
                items[rows], log_probs[rows] = part.items, part.log_probs
        return Ranking(items, log_probs)

    def _trie(self, table: SidTable) -> Trie:
        """The trie over ``table`` without blocked items; the last two are cached."""
        blocked = self.serving.blocked
        key = (table.digest, b"" if blocked is None else blocked.tobytes())
        if key not in self._tries:
            if len(self._tries) == 2:
                self._tries.pop(next(iter(self._tries)))
            self._tries[key] = Trie.build(table.codes, table.level_sizes, blocked=blocked)
        return self._tries[key]

    def save(self, folder: Path) -> None:
        """Write ``recommender.json``, weights (tied ones once, under their first name), ``sids/`` and serving rules."""
        folder.mkdir(parents=True, exist_ok=True)
        state, seen = self.model.state_dict(), dict[int, str]()
        firsts = {name: seen.setdefault(tensor.data_ptr(), name) for name, tensor in state.items()}
        tied = {name: first for name, first in firsts.items() if first != name}
        save_file({name: state[name].cpu().contiguous() for name in state.keys() - tied}, folder / _WEIGHTS)
        masks = {name: getattr(self.serving, name) for name in _MASKS}
        present = {name: mask.astype(np.uint8) for name, mask in masks.items() if mask is not None}
        save_numpy(present, folder / _SERVING)
        save_table(self.sids, folder / _SIDS)
        content = {"family": self.name, "shape": self.shape.model_dump(), "tied": tied}
        (folder / _RECORD).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Self:
        content = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        weights = load_file(folder / _WEIGHTS, device=str(torch.device(device)))
        masks = load_numpy(folder / _SERVING)
        weights.update({name: weights[first] for name, first in content["tied"].items()})
        recommender = cls._rebuilt(content["shape"], load_table(folder / _SIDS), folder, device=device)
        recommender.model.load_state_dict(weights)
        return recommender.with_serving(ServingRules(**{name: mask.astype(np.bool_) for name, mask in masks.items()}))


def memory_shares(device: torch.device) -> int:
    """1 on a CPU; on a GPU its memory in units of 4 GiB, all of it: batches depend on the card and not on its load."""
    if device.type != "cuda":
        return 1
    return max(1, int(torch.cuda.get_device_properties(device).total_memory) // (4 << 30))
