"""A T5 that reads a prompt: words, the user's word, the history's semantic IDs.

P5 (Geng et al. 2022, arXiv 2203.13366) and its successors: beside its token embedding every input token has the
embedding of the word it belongs to, counted from the prompt's beginning (*whole-word embedding*), so that the pieces of
an item hold together. Everything but the input is the T5 recommender's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.p5sid.backbone import P5Config
from genrec_unlearn_bench.backbones.p5sid.prompts import (
    PROMPTS,
    SEPARATOR,
    PromptTokens,
    SubwordTokenizer,
    TextTokenizer,
    WordTokenizer,
    close_gaps,
    stacked,
    tokenise_prompt,
)
from genrec_unlearn_bench.backbones.pretrained import load_pretrained
from genrec_unlearn_bench.backbones.recommender import PAD_TOKEN, ServingRules, SidVocabulary, SoftSids, StepOutput
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import NextItem, TrainingTask, cross_entropy
from genrec_unlearn_bench.data.examples import PAD, Examples, Histories, IntArray
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import torch_seeded
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from transformers import T5Config, T5ForConditionalGeneration


class P5Shape(T5Shape):
    """A T5 with a text vocabulary in front of its SID tokens, and tokenised prompts: no text tokenizer is saved."""

    text_tokens: int
    """Token ids of text; SIDs start behind them."""
    prompts: tuple[PromptTokens, ...]
    """Training draws from all of them."""
    evaluation: int = 0
    """The prompt that everything else is done with."""
    separator: tuple[int, ...] = ()
    """Token ids of the word between two items; empty for none."""
    whole_words: int = 512
    """Words that a prompt may have for the whole-word embedding (P5's own number); 0 does without it."""
    user_ids: int = 0
    """User ids that are looked up; all others are unknown."""
    users: int = 0
    """Users that training has seen."""
    user_width: int = 1
    """Tokens of the longest user word."""
    gated: bool = False
    """Feed-forward of T5 v1.1 and Flan-T5 (gated GELU) instead of T5's."""
    tied: bool = True
    """Whether the output head is the input embedding."""


_WHOLE_WORDS, _USER_ROWS, _USER_TOKENS = "whole_words", "user_rows", "user_tokens"

_WHOLE_WORD_SHARE = 0.1
"""Initial size of a whole-word embedding beside a token's. At equal size a position hides half of what a token says: on
Industrial (small, validation NDCG@10) 150 steps reach .037 with and .040 without whole words."""


class P5Recommender(T5Recommender):
    """T5 over prompts."""

    name = "p5sid"
    Shape = P5Shape

    def __init__(
        self, model: T5ForConditionalGeneration, shape: P5Shape, sids: SidTable, serving: ServingRules | None = None
    ) -> None:
        super().__init__(model, shape, sids, serving)
        if sids.tree is not None:
            # Only decoded SIDs need an end token: in a prompt the next word ends an item, as in P5.
            ends = torch.from_numpy(sids.codes == sids.tree.end).to(self.device)
            self._tokens = self._tokens.masked_fill(ends, PAD_TOKEN)
        runs = [(prompt.before, prompt.between, prompt.after) for prompt in shape.prompts]
        self._runs = [stacked(run).to(self.device) for run in zip(*runs, strict=True)]
        self._user_first = torch.tensor([prompt.user_first for prompt in shape.prompts], device=self.device)
        self._separator = torch.tensor(shape.separator, dtype=torch.long, device=self.device)

    @classmethod
    def _vocabulary_for(cls, shape: T5Shape, sids: SidTable) -> SidVocabulary:
        base = cast(P5Shape, shape).text_tokens
        return SidVocabulary(sids.level_sizes, base=base, shared=sids.tree is not None)

    @classmethod
    def _config(cls, shape: T5Shape, sids: SidTable, **options: Any) -> T5Config:
        own = cast(P5Shape, shape)
        activation = "gated-gelu" if own.gated else "relu"
        options |= {"feed_forward_proj": activation, "tie_word_embeddings": own.tied, "scale_decoder_outputs": own.tied}
        return super()._config(shape, sids, **options)

    @classmethod
    def _network(cls, config: T5Config, shape: T5Shape) -> T5ForConditionalGeneration:
        model = super()._network(config, shape)
        _add_prompt_parameters(model, cast(P5Shape, shape))
        return model

    @classmethod
    def pretrained(
        cls, model: Any, shape: P5Shape, sids: SidTable, *, numbers: list[int], seed: int, device: str = "cpu"
    ) -> Self:
        """A pretrained ``T5ForConditionalGeneration`` of the same shape, with SID tokens behind its vocabulary.

        It is changed in place. ``numbers``, its digit tokens, start at random like the SIDs', as in P5's later codes.
        """
        vocabulary = cls._vocabulary_for(shape, sids)
        with torch_seeded(seed), torch.no_grad():
            model.resize_token_embeddings(vocabulary.size, mean_resizing=False)
            new = [*numbers, *range(vocabulary.base, vocabulary.size)]
            for embedding in {id(m): m for m in (model.get_input_embeddings(), model.get_output_embeddings())}.values():
                values = torch.randn(len(new), embedding.weight.shape[1]) * model.config.initializer_factor
                embedding.weight[new] = values
            if shape.tied:
                model.tie_weights()
            _add_prompt_parameters(model, shape)
        return cls(model.to(device), shape, sids)

    @classmethod
    def untrained(cls, config: P5Config, train: Examples, sids: SidTable, *, seed: int, device: str) -> Self:
        """The network with SID tokens and prompts, from scratch or from the checkpoint, and the users of ``train``."""
        text: TextTokenizer = WordTokenizer()
        content = config.shape.model_dump()
        loaded = load_pretrained(config.checkpoint, "t5") if config.checkpoint else None
        if loaded is not None:
            found = loaded.model.config
            text = SubwordTokenizer(loaded.tokenizer, loaded.model.get_input_embeddings().num_embeddings)
            content |= {name: getattr(found, name) for name in ("d_model", "d_kv", "d_ff")}
            content |= {"layers": found.num_layers, "heads": found.num_heads, "dropout": found.dropout_rate}
            content |= {"gated": found.is_gated_act, "tied": found.tie_word_embeddings}
        rows, words = _users(train, text)
        shape = P5Shape.model_validate(
            content
            | {
                "text_tokens": text.size,
                "prompts": tuple(tokenise_prompt(prompt, text) for prompt in PROMPTS),
                "separator": tuple(text.word(SEPARATOR)) if config.separator else (),
                "whole_words": 512 if config.whole_words else 0,
                "user_ids": len(rows),
                "users": len(words) - 1,
                "user_width": max(map(len, words)),
            }
        )
        if loaded is None:
            recommender = cls.fresh(shape, sids, seed=seed, device=device)
        else:
            numbers = text.number_ids() if isinstance(text, SubwordTokenizer) else []
            recommender = cls.pretrained(loaded.model, shape, sids, numbers=numbers, seed=seed, device=device)
        recommender.set_users(rows, words)
        return recommender

    def set_users(self, rows: IntArray, words: list[list[int]]) -> None:
        """Give the users their words, which are saved with the weights: ``rows`` [user ids] of ``words``, 0 for a user
        that training has not seen."""
        tokens = pad_sequence([torch.tensor(word) for word in words], batch_first=True, padding_value=-1)
        for name, values in ((_USER_ROWS, torch.from_numpy(rows)), (_USER_TOKENS, tokens)):
            getattr(self.model, name).copy_(values)

    def prompted(self, histories: Histories, targets: IntArray, prompts: Tensor) -> StepOutput:
        """``forward`` with a prompt for every history; ``prompts`` [B] long."""
        context = self._read(*self._inputs(histories, prompts=prompts))
        return self.decode(context, self.codes_of(targets))

    def _inputs(
        self, histories: Histories, soft: SoftSids | None = None, prompts: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        histories = self._served(histories)
        if prompts is None:
            prompts = torch.full((len(histories),), self.shape.evaluation)
        prompts = prompts.to(self.device)
        items, tokens, embeds = self._history(histories, soft)
        tokens, embeds, firsts, owners = self._separated(items, tokens, embeds)
        around = self._words(prompts, histories)
        lead, tail = (run[..., 0] for run in around)
        filled = torch.cat([lead >= 0, tokens != PAD_TOKEN, tail >= 0], 1)
        order, mask = close_gaps(filled)
        slots = torch.cat([self.model.shared(lead.clamp_min(0)), embeds, self.model.shared(tail.clamp_min(0))], 1)
        values = slots.gather(1, order[..., None].expand(-1, -1, slots.shape[-1]))
        nothing = [torch.full_like(run, PAD) for run in (lead, tail)]
        position_items = torch.cat([nothing[0], owners, nothing[1]], 1).gather(1, order)
        if self.shape.whole_words:
            starts = torch.cat([around[0][..., 1] > 0, firsts, around[1][..., 1] > 0], 1).gather(1, order) & mask
            ends = torch.zeros_like(mask)
            ends[torch.arange(len(mask), device=mask.device), mask.sum(1) - 1] = True
            words = starts.long().cumsum(1).masked_fill(~mask | ends, 0).clamp_max(self.shape.whole_words - 1)
            values = values + getattr(self.model, _WHOLE_WORDS)(words)
        return values, mask, position_items.masked_fill(~mask, PAD)

    def _separated(self, items: Tensor, tokens: Tensor, embeds: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The history's tokens [B, H], embeddings [B, H, D], word beginnings [B, H] and items [B, H], with the
        separator behind every item but the last."""
        levels = tokens.shape[2]
        owners = items[..., None].expand_as(tokens)
        if len(self._separator) and items.shape[1]:
            follows = torch.zeros_like(items, dtype=torch.bool)
            follows[:, :-1] = items[:, 1:] != PAD
            between = self._separator.expand(*items.shape, -1)
            tokens = torch.cat([tokens, between.masked_fill(~follows[..., None], PAD_TOKEN)], 2)
            embeds = torch.cat([embeds, self.model.shared(between)], 2)
            owners = torch.cat([owners, torch.full_like(between, PAD)], 2)
        places = torch.arange(tokens.shape[2], device=tokens.device)
        firsts = ((places == 0) | (places == levels)).expand_as(tokens)
        return tokens.flatten(1), embeds.flatten(1, 2), firsts.flatten(1), owners.flatten(1)

    def _words(self, prompts: Tensor, histories: Histories) -> tuple[Tensor, Tensor]:
        """[B, W, 2] what stands before the history, and what stands behind it: token ids, -1 in holes, and whether each
        begins a word."""
        users = torch.from_numpy(histories.users).to(self.device)
        rows: Tensor = getattr(self.model, _USER_ROWS)
        known = (users >= 0) & (users < len(rows))
        row = rows[users.clamp(0, len(rows) - 1)].masked_fill(~known, 0)
        ids: Tensor = getattr(self.model, _USER_TOKENS)[row]
        user = torch.stack([ids, torch.zeros_like(ids).index_fill(1, torch.tensor([0], device=ids.device), 1)], 2)
        before, between, after = (run[prompts] for run in self._runs)
        first = self._user_first[prompts][:, None, None]
        lead = [before, user.masked_fill(~first, -1), between.masked_fill(~first, -1)]
        tail = [between.masked_fill(first, -1), user.masked_fill(first, -1), after]
        return torch.cat(lead, 1), torch.cat(tail, 1)


def _add_prompt_parameters(model: Any, shape: P5Shape) -> None:
    """Register the whole-word embedding and the users' words as a parameter and buffers that the network saves."""
    device = next(model.parameters()).device
    if shape.whole_words:
        words = nn.Embedding(shape.whole_words, model.config.d_model)
        nn.init.normal_(words.weight, std=model.config.initializer_factor * _WHOLE_WORD_SHARE)
        setattr(model, _WHOLE_WORDS, words.to(device))
    rows = torch.zeros(max(shape.user_ids, 1), dtype=torch.long, device=device)
    tokens = torch.full((1 + shape.users, shape.user_width), -1, dtype=torch.long, device=device)
    model.register_buffer(_USER_ROWS, rows)
    model.register_buffer(_USER_TOKENS, tokens)


class PromptedNextItem(NextItem):
    """Cross-entropy of the next item's tokens, each example with a prompt drawn anew each time."""

    recommender: P5Recommender

    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all target tokens. The draw is torch's, which a training seeds, and resumes where it stopped."""
        model = self.recommender
        prompts = torch.randint(len(model.shape.prompts), (len(rows),))
        histories = self.examples.histories(model.history_limit, rows)
        return cross_entropy(model.prompted(histories, self.examples.targets[rows], prompts), self.temperature)


def training_task(model: P5Recommender, config: P5Config, data: TrainingData, progress: Progress) -> TrainingTask:
    """Next items, asked for by all prompts."""
    return PromptedNextItem(model, data.train, config.training.temperature)


def _users(train: Examples, text: TextTokenizer) -> tuple[IntArray, list[list[int]]]:
    """Train users numbered from 1 in the order of their first train row in time: nothing of what comes later, and no
    user that training does not see, moves a number."""
    order = np.lexsort((train.users, train.times))
    distinct, first = np.unique(train.users[order], return_index=True)
    numbered = distinct[np.argsort(first, kind="stable")]
    rows = np.zeros(int(distinct.max(initial=-1)) + 1 or 1, dtype=np.int64)
    rows[numbered] = np.arange(1, len(numbered) + 1)
    return rows, [text.user(number) for number in range(len(numbered) + 1)]
