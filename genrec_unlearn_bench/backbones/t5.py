"""A generative recommender on a T5 encoder-decoder trained from scratch over SID tokens.

TIGER (Rajput et al. 2023, arXiv 2305.05065) and the recommenders of its successors share this adapter: the encoder
reads the history's SID tokens, oldest item first, without separators; the decoder writes the L tokens of the next
item and nothing else (no end-of-sequence token is trained or scored).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.cpu_layers import use_cpu_kernels
from genrec_unlearn_bench.backbones.packing import SharedTargets, in_groups, length_groups, watched
from genrec_unlearn_bench.backbones.recommender import (
    EMPTY,
    PAD_TOKEN,
    Context,
    ServingRules,
    SidVocabulary,
    SoftSids,
    StepOutput,
)
from genrec_unlearn_bench.backbones.transformer import TransformerRecommender
from genrec_unlearn_bench.data.examples import PAD, Examples, Histories
from genrec_unlearn_bench.decoding.session import DecoderSession
from genrec_unlearn_bench.decoding.t5 import T5DecoderWeights, T5EncoderWeights, T5Session, encode_t5
from genrec_unlearn_bench.seeding import torch_seeded
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from transformers import T5Config, T5ForConditionalGeneration


class T5Recommender(TransformerRecommender):
    """T5 over SID tokens."""

    name = "t5"
    Shape: ClassVar[type[T5Shape]] = T5Shape

    def __init__(
        self, model: T5ForConditionalGeneration, shape: T5Shape, sids: SidTable, serving: ServingRules | None = None
    ) -> None:
        super().__init__(model, shape, sids, serving, self._vocabulary_for(shape, sids))
        use_cpu_kernels(model)
        self._tokens = torch.from_numpy(self.vocabulary.tokens(sids)).to(self.device)
        self._softened = torch.from_numpy(sids.quantised_codes >= 0).to(self.device)

    @classmethod
    def fresh(cls, shape: T5Shape, sids: SidTable, *, seed: int, device: str = "cpu") -> Self:
        """Random weights from ``seed``; the global generator is left as it was."""
        config = cls._config(shape, sids)
        with torch_seeded(seed):
            model: Any = cls._network(config, shape)
        return cls(model.to(device), shape, sids)

    @classmethod
    def untrained(cls, config: Any, train: Examples, sids: SidTable, *, seed: int, device: str) -> Self:
        """The network of a backbone's configuration before its training on ``train``."""
        return cls.fresh(config.shape, sids, seed=seed, device=device)

    @classmethod
    def _config(cls, shape: T5Shape, sids: SidTable, **options: Any) -> T5Config:
        from transformers import T5Config

        return T5Config(
            **shape.model_dump(include={"d_model", "d_kv", "d_ff"}),
            vocab_size=cls._vocabulary_for(shape, sids).size,
            num_layers=shape.layers,
            num_decoder_layers=shape.layers,
            num_heads=shape.heads,
            dropout_rate=shape.dropout,
            pad_token_id=PAD_TOKEN,
            decoder_start_token_id=PAD_TOKEN,  # type: ignore[call-arg]
            eos_token_id=None,
            use_cache=False,
            **options,
        )

    @classmethod
    def _vocabulary_for(cls, shape: T5Shape, sids: SidTable) -> SidVocabulary:
        return SidVocabulary(sids.level_sizes, shape.user_tokens, shared=sids.tree is not None)

    @classmethod
    def _network(cls, config: T5Config, shape: T5Shape) -> T5ForConditionalGeneration:
        from transformers import T5ForConditionalGeneration

        return T5ForConditionalGeneration(config)

    def encode(self, histories: Histories, *, soft: SoftSids | None = None, hidden: bool = False) -> Context:
        return self._read(*self._inputs(histories, soft), hidden=hidden)

    def _read(self, embeds: Tensor, mask: Tensor, position_items: Tensor, *, hidden: bool = False) -> Context:
        """Run the encoder over input embeddings [B, S, D], histories of similar length together."""
        ends = (mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)).amax(1)
        groups = [torch.arange(len(mask), device=mask.device)] if watched(self.model) else length_groups(ends)

        def compute(rows: Tensor) -> tuple[Tensor, ...]:
            given, seen = embeds, mask
            if len(groups) > 1:
                length = int(ends[rows].max())
                given, seen = embeds[rows, :length], mask[rows, :length]
            output = self.model.encoder(inputs_embeds=given, attention_mask=seen.long(), output_hidden_states=hidden)
            return output.last_hidden_state, *(output.hidden_states if hidden else ())

        last, *states = in_groups(groups, compute)
        length = last.shape[1]
        return Context(last, mask[:, :length], position_items[:, :length], tuple(states))

    def _inputs(self, histories: Histories, soft: SoftSids | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings [B, S, D], mask [B, S] and items [B, S] of the input positions, as served."""
        histories = self._served(histories)
        items, tokens, embeds = self._history(histories, soft)
        mask = (tokens != PAD_TOKEN).flatten(1)
        position_items = items[..., None].expand(-1, -1, tokens.shape[-1]).flatten(1)
        return self._lead(embeds.flatten(1, 2), mask, position_items, histories)

    def _history(self, histories: Histories, soft: SoftSids | None) -> tuple[Tensor, Tensor, Tensor]:
        """Items [B, T], tokens [B, T, L] and their embeddings [B, T, L, D]; ``PAD_TOKEN`` where there is none."""
        items = torch.from_numpy(histories.items).to(self.device)
        tokens = self._tokens[items.clamp_min(0)].masked_fill((items == PAD)[..., None], PAD_TOKEN)  # [B, T, L]
        embeds: Tensor = self.model.shared(tokens)
        return items, tokens, embeds if soft is None else self._soften(embeds, items, soft)

    def _soften(self, embeds: Tensor, items: Tensor, soft: SoftSids) -> Tensor:
        """Replace the embeddings of softened items by expectations under their token distributions."""
        batch, place = torch.nonzero((items != PAD) & (soft.row_of_item[items.clamp_min(0)] >= 0), as_tuple=True)
        if len(batch) == 0:
            return embeds
        depth = len(soft.weights)
        chosen = items[batch, place]
        hard = embeds[batch, place]
        rows = soft.row_of_item[chosen]
        mixtures = [
            weights[rows] @ self.model.shared.weight[first : first + weights.shape[1]]
            for first, weights in zip(self.vocabulary.offsets, soft.weights, strict=False)
        ]
        # A tree's item may have no code to soften on a level: its ordinal and its end stay as they are.
        softened = self._softened[chosen][..., None]
        mixed = torch.where(softened, torch.stack(mixtures, dim=1), hard[:, :depth])
        return embeds.index_put((batch, place), torch.cat([mixed, hard[:, depth:]], dim=1))

    def _lead(
        self, embeds: Tensor, mask: Tensor, position_items: Tensor, histories: Histories
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Put a user token before each history, or EMPTY before those without any item, where needed."""
        empty = torch.from_numpy(histories.lengths == 0).to(self.device)
        if self.shape.user_tokens:
            users = torch.from_numpy(histories.users).to(self.device)
            first = self.vocabulary.user_offset + users.clamp_min(0) % self.shape.user_tokens
            seen = torch.ones_like(empty)
        elif bool(empty.any()):
            first = torch.where(empty, EMPTY, PAD_TOKEN)
            seen = empty
        else:
            return embeds, mask, position_items
        first = first[:, None]
        items = torch.cat([torch.full_like(first, PAD), position_items], 1)
        return torch.cat([self.model.shared(first), embeds], 1), torch.cat([seen[:, None], mask], 1), items

    def decode(
        self, context: Context, codes: Tensor, *, rows: Tensor | None = None, hidden: bool = False
    ) -> StepOutput:
        from transformers.modeling_outputs import BaseModelOutput

        labels, real = self._labels(codes)
        inputs = torch.cat([torch.full_like(labels[:, :1], PAD_TOKEN), labels[:, :-1]], 1)
        shared = None if rows is None else SharedTargets.of(rows, len(context.mask))
        length = labels.shape[1]
        output: Any = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=context.state),
            attention_mask=context.mask.long(),
            decoder_input_ids=inputs if shared is None else shared.pack(inputs, PAD_TOKEN),
            decoder_attention_mask=None if shared is None else shared.mask(length),
            output_hidden_states=hidden,
            use_cache=False,
        )
        logits, states = output.logits, tuple(output.decoder_hidden_states) if hidden else ()
        if shared is not None:
            logits = shared.unpack(logits, length)
            states = tuple(shared.unpack(layer, length) for layer in states)
        return StepOutput(logits, labels, states, real)

    def server(self) -> Callable[[Histories], DecoderSession]:
        encoder, decoder = T5EncoderWeights(self.model), self._decoder()

        def opened(histories: Histories) -> DecoderSession:
            embeds, mask, _ = self._inputs(histories)
            return T5Session(decoder, encode_t5(encoder, embeds, mask), mask)

        return opened

    def _decoder(self) -> T5DecoderWeights:
        return T5DecoderWeights(self.model)

    @classmethod
    def _rebuilt(cls, shape: dict[str, Any], sids: SidTable, folder: Path, *, device: str) -> Self:
        return cls.fresh(cls.Shape.model_validate(shape), sids, seed=0, device=device)
