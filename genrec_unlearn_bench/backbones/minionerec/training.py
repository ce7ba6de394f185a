"""MiniOneRec's training tasks: prefix chains from scratch, the supervised mixture with a text model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.minionerec.backbone import MiniOneRecConfig
from genrec_unlearn_bench.backbones.minionerec.prompts import UNTITLED, Prompt, batch_prompts
from genrec_unlearn_bench.backbones.minionerec.recommender import SID_PROMPT, CausalRecommender
from genrec_unlearn_bench.backbones.recommender import Context
from genrec_unlearn_bench.backbones.training import TrainingTask, sid_terms
from genrec_unlearn_bench.data.examples import PAD, Examples, IntArray
from genrec_unlearn_bench.progress import Progress

_ELEMENTS = 1 << 28
"""Logits held at a time: 1 GiB in float32."""


def token_losses(states: Tensor, labels: Tensor, head: Callable[[Tensor], Tensor], vocabulary: int) -> Tensor:
    """[P] negative log-likelihoods in nats over a large vocabulary, without the logits of all positions in memory.

    Beyond ``_ELEMENTS`` they are computed in chunks, and again in the backward pass. ``states`` [P, D] are final ones;
    ``head`` maps [p, D] to logits [p, V].
    """

    def losses(part: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(head(part).float(), wanted, reduction="none")

    chunk = max(1, _ELEMENTS // vocabulary)
    if len(states) <= chunk:
        return losses(states, labels)
    parts = zip(torch.split(states, chunk), torch.split(labels, chunk), strict=True)
    return torch.cat([checkpoint(losses, part, wanted, use_reentrant=False) for part, wanted in parts])


class PrefixChains(TrainingTask):
    """Next-item training that reads a history once for all of its prefixes; M chains.

    Sliding windows make one example of every prefix of a user's sequence. A causal model over SIDs alone sees the same
    tokens at the same positions in all of them, so one pass over the longest gives the loss of each, at a third of the
    tokens (Industrial: 19,885 examples, 5,186 chains).

    Each chain is a history and its target, written as one prompt; ``counts[m, j]`` says how many examples have the
    first j items as history and the next one as target.
    """

    def __init__(self, recommender: CausalRecommender, examples: Examples) -> None:
        self._recommender = recommender
        limit = recommender.history_limit
        histories = examples.histories(limit)
        lengths = histories.lengths
        rows = zip(histories.items.tolist(), lengths.tolist(), examples.targets.tolist(), strict=True)
        wholes = [(*row[:length], target) for row, length, target in rows]
        chain_of: dict[tuple[int, ...], int] = {}
        chains: list[tuple[int, ...]] = []
        counts = np.zeros((len(wholes), limit + 1), dtype=np.float32)
        for row in np.argsort(-lengths, kind="stable"):
            whole = wholes[row]
            if whole not in chain_of:
                for size in range(1, len(whole) + 1):
                    chain_of.setdefault(whole[:size], len(chains))
                chains.append(whole)
            counts[chain_of[whole], len(whole) - 1] += 1
        self.items = np.full((len(chains), limit + 1), PAD, dtype=np.int64)
        for row, chain in enumerate(chains):
            self.items[row, : len(chain)] = chain
        self.counts = counts[: len(chains)]
        self.lengths = np.asarray((self.items != PAD).sum(1), dtype=np.int64)
        tokens = sid_terms(recommender.sids, self.items.ravel()).reshape(self.items.shape)
        self.terms = np.asarray((self.counts * tokens).sum(1), dtype=np.float64)
        self.kinds = np.zeros(len(self.items), dtype=np.int64)

    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all target tokens of all examples in the chosen chains."""
        model = self._recommender
        width = int(self.lengths[rows].max())
        items = torch.from_numpy(self.items[rows][:, :width]).to(model.device)
        counts = torch.from_numpy(self.counts[rows][:, :width]).to(model.device)
        prompts = batch_prompts(SID_PROMPT, model.sid_tokens, items)
        weights = counts.gather(1, prompts.places.clamp_min(0)).masked_fill(prompts.places < 0, 0.0)
        row, position = torch.nonzero(weights, as_tuple=True)
        # Nothing is predicted from a chain's last token, nor from the separator behind it.
        seen = prompts.before(-2)
        states = model.prompt_states(seen, row * seen.mask.shape[1] + position - 1)
        losses = token_losses(states, prompts.tokens[row, position], model.head, model.vocabulary.size)
        chosen = weights[row, position]
        return (losses * chosen).sum() / chosen.sum()


@dataclass(frozen=True, eq=False)
class _TextTask:
    """One task: [m, T] items in the prompt, [m] item of the response, and tokens [N, W] of items on either side."""

    prompt: Prompt
    items: IntArray
    targets: IntArray
    source: Tensor
    response: Tensor


class SupervisedMixture(TrainingTask):
    """MiniOneRec's supervised mixture: five tasks, or six, concatenated, unweighted, loss on the response alone.

    SIDs of a history -> SID; title -> SID; SID -> title; SIDs of a history -> title; titles of a history -> SID; and
    with ``titles_to_title`` titles of a history -> title. Item samples are made of ``known`` items alone and every
    title comes from ``TrainingData.items``: a retrained oracle has no sample of a concept item, and its titles are
    scrubbed. Responses end with a newline and the end of the sequence in training where ``ending`` says so; neither is
    ever scored.
    """

    def __init__(self, recommender: CausalRecommender, data: TrainingData, config: MiniOneRecConfig) -> None:
        text = recommender.text
        if text is None:
            raise ValueError("the mixture is for a recommender that reads text")
        self._recommender = recommender
        histories = data.train.histories(recommender.history_limit).items
        targets = data.train.targets
        device = recommender.device
        sids = recommender.sid_tokens
        end = text.ending if config.ending else ()
        self._parts = [_TextTask(text.prompts["next_item"], histories, targets, sids, _ended(sids, end))]
        if config.text_tasks:
            shown = [title or UNTITLED for title in data.items.titles]
            titles = text.table(shown, recommender.shape.title_tokens).to(device)
            titled = np.asarray([bool(title) for title in data.items.titles], dtype=np.bool_)
            items, named = np.flatnonzero(data.known & titled).astype(np.int64), titled[targets]
            to_sid, to_title, prompts = _ended(sids, end), _ended(titles, end), text.prompts
            self._parts += [
                _TextTask(prompts["title_to_sid"], items[:, None], items, titles, to_sid),
                _TextTask(prompts["sid_to_title"], items[:, None], items, sids, to_title),
                _TextTask(prompts["next_title"], histories[named], targets[named], sids, to_title),
                _TextTask(prompts["titles_to_sid"], histories, targets, titles, to_sid),
            ]
            if config.titles_to_title:
                self._parts.append(replace(self._parts[3], prompt=prompts["titles_to_title"], source=titles))
        self.sizes = tuple(len(part.targets) for part in self._parts)
        self._first = np.cumsum([0, *self.sizes])
        answers = [_sizes(part.response, part.targets) for part in self._parts]
        asked = [_sizes(part.source, part.items).sum(1) for part in self._parts]
        self.lengths = np.concatenate([*map(np.add, asked, answers)])
        self.terms = np.concatenate(answers).astype(np.float64)
        self.kinds = np.repeat(np.arange(len(self._parts)), self.sizes)

    def loss(self, rows: IntArray) -> Tensor:
        parts = np.searchsorted(self._first, rows, side="right") - 1
        kinds = [(self._parts[index], rows[parts == index] - self._first[index]) for index in np.unique(parts)]
        return torch.cat([self._losses(part, chosen) for part, chosen in kinds]).mean()

    def _losses(self, part: _TextTask, rows: IntArray) -> Tensor:
        model = self._recommender
        items = part.items[rows]
        items = items[:, : int((items != PAD).sum(1).max(initial=0))]
        prompts = batch_prompts(part.prompt, part.source, torch.from_numpy(items).to(model.device))
        wanted = part.response[torch.from_numpy(part.targets[rows]).to(model.device)]
        wanted = wanted[:, : int((wanted >= 0).sum(1).max())]
        states = model.states(Context(model.embed(prompts), prompts.mask, prompts.items), wanted.clamp_min(0))[-1]
        real = wanted >= 0
        return token_losses(states[real], wanted[real], model.head, model.vocabulary.size)


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


def training_task(
    model: CausalRecommender, config: MiniOneRecConfig, data: TrainingData, progress: Progress
) -> TrainingTask:
    """Prefix chains from scratch, the supervised mixture with a checkpoint."""
    if config.checkpoint is None:
        chains = PrefixChains(model, data.train)
        progress.note("train.chains", len(chains.items))
        return chains
    mixture = SupervisedMixture(model, data, config)
    progress.note("train.samples", list(mixture.sizes))
    return mixture
