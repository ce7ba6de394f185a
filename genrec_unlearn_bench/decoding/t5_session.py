"""Decoding with a T5: what belongs to the history is worked out once and shared by all its beams.

Hugging Face's ``generate`` repeats the encoder output for every beam and projects cross-attention keys and values from
each copy; at 50 beams that is most of its work. Here they exist once a history, [B, H, S, d], and the beams are a
dimension of the query, [B, H, W, d]. Self-attention sees at most a handful of positions. Its first one, the start
token, is shared by all beams too; the others are kept as computed and gathered through each beam's ancestors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from genrec_unlearn_bench.decoding.ancestry import Ancestry
from genrec_unlearn_bench.decoding.keys import padded_blind, padded_heads
from genrec_unlearn_bench.decoding.t5_weights import DecoderLayer, T5DecoderWeights
from genrec_unlearn_bench.decoding.window import window_log_probs, within

if TYPE_CHECKING:
    from transformers import T5ForConditionalGeneration

__all__ = ["T5Session"]


class T5Session:
    """B encoded histories of a T5, ready for ``beam_search`` or ``exact_search``.

    Args:
        model: The model, or its weights if they serve many batches (they are then not read again).
        states: [B, S, D] encoder output.
        mask: [B, S] True at real positions; every history needs one.
    """

    @torch.inference_mode()
    def __init__(self, model: T5ForConditionalGeneration | T5DecoderWeights, states: Tensor, mask: Tensor) -> None:
        self._weights = model if isinstance(model, T5DecoderWeights) else T5DecoderWeights(model)
        self._batch = states.shape[0]
        heads, width = self._weights.heads, self._weights.width
        states = states.detach().to(self._weights.embedding.dtype)
        blind = padded_blind(mask, states.dtype)
        self._cross_bias = blind[:, None, None].expand(-1, heads, -1, -1).reshape(-1, 1, blind.shape[1])
        self._cross: list[tuple[Tensor, Tensor]] = []
        for layer in self._weights.layers:
            both = layer.cross_key_value(states).view(*mask.shape, 2, heads, width)
            self._cross.append((padded_heads(both[:, :, 0]).mT, padded_heads(both[:, :, 1])))
        self._ancestry = Ancestry()
        self._past: list[list[Tensor]] = []

    @torch.inference_mode()
    def start(self) -> Tensor:
        """[B, V] logits of the first SID token."""
        return self._logits(self._first())

    @torch.inference_mode()
    def step(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """[B, W, V] logits of the next token."""
        return self._logits(self._next(parents, tokens))

    @torch.inference_mode()
    def start_window(self, window: slice) -> Tensor:
        """[B, n] log-probabilities of the tokens ``window``."""
        return self._log_probs(self._first(), window)

    @torch.inference_mode()
    def step_window(self, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
        """[B, W, n] log-probabilities of the tokens ``window``."""
        return self._log_probs(self._next(parents, tokens), window)

    def _logits(self, states: Tensor) -> Tensor:
        """[..., V] logits at the newest position; with level heads, next to impossible outside its level."""
        logits: Tensor = self._weights.head(states)
        levels = self._weights.levels
        return logits if levels is None else within(logits, levels[len(self._ancestry)].window)

    def _log_probs(self, states: Tensor, window: slice) -> Tensor:
        """[..., n] log-probabilities of the tokens ``window`` at the newest position."""
        levels = self._weights.levels
        if levels is None:
            return window_log_probs(states, self._weights.head, self._weights.vocabulary, window)
        level = levels[len(self._ancestry)]
        first, size = level.window.start, level.window.stop - level.window.start
        return window_log_probs(states, level.head, size, slice(window.start - first, window.stop - first))

    def _first(self) -> Tensor:
        """[B, D] final states at the start token; forgets all beams."""
        self._ancestry = Ancestry()
        self._past = [[] for _ in self._weights.layers]
        tokens = torch.full((self._batch, 1), self._weights.start_token, device=self._cross_bias.device)
        return self._forward(tokens)[:, 0]

    def _next(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """[B, W, D] final states of the beams just chosen."""
        self._ancestry.advance(parents)
        return self._forward(tokens)

    def _forward(self, tokens: Tensor) -> Tensor:
        """[B, W, D] final states at the newest position of every beam."""
        weights = self._weights
        bias = weights.position_bias(len(self._ancestry))
        rows = self._ancestry.rows()
        states = weights.embedding[tokens]
        for index, layer in enumerate(weights.layers):
            states = self._attend_self(layer, states, self._past[index], rows, bias)
            states = self._attend_history(layer, states, *self._cross[index])
            states = layer.feed_forward(states)
        return weights.final_norm(states)

    def _attend_self(
        self, layer: DecoderLayer, states: Tensor, past: list[Tensor], rows: list[Tensor], bias: Tensor
    ) -> Tensor:
        """Residual self-attention over the start token, the ancestors and the beam itself."""
        batch, beams, _ = states.shape
        heads, width = self._weights.heads, self._weights.width
        normed = layer.norm(states)
        query = layer.query(normed).view(batch, beams, heads, width)
        past.append(layer.key_value(normed))
        seen = [past[0], *(kept.flatten(0, 1).index_select(0, row) for kept, row in zip(past[1:-1], rows, strict=True))]
        if len(past) > 1:
            seen.append(past[-1])
        pairs = [kept.view(batch, -1, 2, heads, width) for kept in seen]
        scores = torch.stack([(query * pair[:, :, 0]).sum(-1) for pair in pairs], dim=-1)
        shares = scores.add_(bias).softmax(-1)[..., None]
        mixed = shares[..., 0, :] * pairs[0][:, :, 1]
        for place, pair in enumerate(pairs[1:], start=1):
            mixed.addcmul_(shares[..., place, :], pair[:, :, 1])
        return layer.out(mixed.view(batch, beams, -1)).add_(states)

    def _attend_history(self, layer: DecoderLayer, states: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Residual cross-attention; keys [B * H, d, S] and values [B * H, S, d] serve all beams of a history."""
        batch, beams, _ = states.shape
        heads, width = self._weights.heads, self._weights.width
        query = layer.cross_query(layer.cross_norm(states)).view(batch, beams, heads, width)
        query = query.transpose(1, 2).reshape(batch * heads, beams, width)
        shares = torch.baddbmm(self._cross_bias, query, keys).softmax(-1)
        mixed = torch.bmm(shares, values).view(batch, heads, beams, width)
        return layer.cross_out(mixed.transpose(1, 2).reshape(batch, beams, -1)).add_(states)
