"""MiniOneRec's supervised mixture for a text model: five tasks, concatenated, unweighted, loss on the response alone.

SIDs of a history -> SID; title -> SID; SID -> title; SIDs of a history -> title; titles of a history -> SID. Item
samples are made of ``known`` items alone and every title comes from ``TrainingData.items``: a retrained oracle has no
sample of a concept item, and its titles are scrubbed. Responses end with a newline and the end of the sequence
in training; neither is ever scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.backbones.minionerec.loss import token_losses
from genrec_unlearn_bench.backbones.minionerec.prompt import Prompt, lay_out
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.minionerec.text import TextSide
from genrec_unlearn_bench.backbones.recommender import Context
from genrec_unlearn_bench.backbones.training_data import TrainingData
from genrec_unlearn_bench.data.examples import PAD, IntArray

__all__ = ["SupervisedMixture"]


@dataclass(frozen=True, eq=False)
class _Part:
    """One task: [m, T] items in the prompt, [m] item of the response, and tokens [N, W] of items on either side."""

    prompt: Prompt
    items: IntArray
    targets: IntArray
    source: Tensor
    response: Tensor

    @cached_property
    def lengths(self) -> IntArray:
        """[m] tokens of each sample, prompts' words left out."""
        return np.asarray(_sizes(self.source, self.items).sum(1) + _sizes(self.response, self.targets), dtype=np.int64)


class SupervisedMixture:
    """A ``TrainingTask`` over all five parts, or over the first alone.

    Args:
        text_tasks: Whether titles are learned beside interactions.
        ending: Whether responses are taught to end.
    """

    def __init__(self, recommender: CausalRecommender, data: TrainingData, *, text_tasks: bool, ending: bool) -> None:
        text = recommender.text
        if text is None:
            raise ValueError("the mixture is for a recommender that reads text")
        self._recommender = recommender
        histories = data.train.histories(recommender.history_limit).items
        targets = data.train.targets
        device = recommender.device
        sids = recommender.sid_tokens
        end = text.ending if ending else ()
        self._parts = [_Part(text.prompts["next_item"], histories, targets, sids, _ended(sids, end))]
        if text_tasks:
            words = recommender.shape.words
            untitled = "" if words is None else words.untitled
            shown = [title or untitled for title in data.items.titles]
            titles = text.table(shown, recommender.shape.title_tokens).to(device)
            self._parts += _text_parts(text, data, histories, sids, titles, end)
        self._first = np.cumsum([0, *(len(part.targets) for part in self._parts)])

    @cached_property
    def lengths(self) -> IntArray:
        """[M] tokens of each sample that are not words of its prompt."""
        return np.concatenate([part.lengths for part in self._parts])

    @cached_property
    def terms(self) -> NDArray[np.float64]:
        """[M] tokens of each response."""
        return np.concatenate([_sizes(part.response, part.targets) for part in self._parts]).astype(np.float64)

    @cached_property
    def kinds(self) -> IntArray:
        """[M] the task of each sample: every task is a pass of its own."""
        return np.repeat(np.arange(len(self._parts)), self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples of each task."""
        return tuple(len(part.targets) for part in self._parts)

    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all response tokens of the chosen samples."""
        parts = np.searchsorted(self._first, rows, side="right") - 1
        found = [
            self._losses(self._parts[index], rows[parts == index] - self._first[index]) for index in np.unique(parts)
        ]
        return torch.cat(found).mean()

    def _losses(self, part: _Part, rows: IntArray) -> Tensor:
        model = self._recommender
        layout = lay_out(part.prompt, part.source, _trimmed(part.items[rows], model.device))
        wanted = part.response[torch.from_numpy(part.targets[rows]).to(model.device)]
        wanted = wanted[:, : int((wanted >= 0).sum(1).max())]
        states = model.states(Context(model.embed(layout), layout.mask, layout.items), wanted.clamp_min(0))[-1]
        real = wanted >= 0
        return token_losses(states[real], wanted[real], model.head, model.vocabulary.size)


def _text_parts(
    text: TextSide, data: TrainingData, histories: IntArray, sids: Tensor, titles: Tensor, end: tuple[int, ...]
) -> list[_Part]:
    titled = np.asarray([bool(title) for title in data.items.titles], dtype=np.bool_)
    items = np.flatnonzero(data.known & titled).astype(np.int64)
    targets = data.train.targets
    named = titled[targets]
    to_sid, to_title = _ended(sids, end), _ended(titles, end)
    prompts = text.prompts
    return [
        _Part(prompts["title_to_sid"], items[:, None], items, titles, to_sid),
        _Part(prompts["sid_to_title"], items[:, None], items, sids, to_title),
        _Part(prompts["next_title"], histories[named], targets[named], sids, to_title),
        _Part(prompts["titles_to_sid"], histories, targets, titles, to_sid),
    ]


def _ended(table: Tensor, end: tuple[int, ...]) -> Tensor:
    """[N, W + e] the tokens of ``table`` with ``end`` right behind each row's last."""
    if not end:
        return table
    out = torch.cat([table, table.new_full((len(table), len(end)), -1)], 1)
    place = (table >= 0).sum(1, keepdim=True) + torch.arange(len(end), device=table.device)
    return out.scatter(1, place, torch.tensor(end, device=table.device).expand(len(table), -1))


def _sizes(table: Tensor, items: IntArray) -> IntArray:
    """Tokens of each item, 0 for padding; shaped as ``items``."""
    sizes = (table >= 0).sum(1).cpu().numpy()
    return np.asarray(np.where(items == PAD, 0, sizes[items]), dtype=np.int64)


def _trimmed(items: IntArray, device: torch.device) -> Tensor:
    width = int((items != PAD).sum(1).max(initial=0))
    return torch.from_numpy(items[:, :width]).to(device)
