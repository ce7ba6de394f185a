"""ETEGRec's recommender: a T5 whose every SID position has a vocabulary of its own.

The official code has one embedding table per position, used for the encoder's input, the decoder's input and,
transposed and unscaled, as output layer; the decoder starts with the one row of T5's own table. Here they are slices of
one table, level after level, behind the start row: the same parameters, addressed by offset. Outside the position's own
slice logits are so low (-1e9) that every softmax over the full vocabulary is the softmax over the level.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.etegrec.backbone import EtegrecConfig
from genrec_unlearn_bench.backbones.recommender import Capability, Context, StepOutput
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.decoding.t5 import T5DecoderWeights
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from transformers import T5Config, T5ForConditionalGeneration

DEVIATION = 0.02
"""Standard deviation of fresh weights, as in the official code."""

_OUTSIDE = -1e9
"""Logit of a token that a position cannot take: finite, so that no product with a zero probability is undefined."""


class EtegrecRecommender(T5Recommender):
    """T5 over SID tokens with a softmax per level."""

    name = "etegrec"

    @property
    def capabilities(self) -> frozenset[Capability]:
        return super().capabilities | {Capability.JOINT_TOKENIZER}

    @property
    def level_windows(self) -> tuple[slice, ...]:
        """The token ids of each level."""
        levels = zip(self.vocabulary.offsets, self.vocabulary.level_sizes, strict=True)
        return tuple(slice(first, first + size) for first, size in levels)

    @classmethod
    def _network(cls, config: T5Config, shape: T5Shape) -> T5ForConditionalGeneration:
        """Linear and embedding weights from N(0, 0.02^2), output layer unscaled, as in the official code."""
        from transformers import T5ForConditionalGeneration

        config.scale_decoder_outputs = False
        model: Any = T5ForConditionalGeneration(config)
        with torch.no_grad():
            for weight in _drawn(model):
                weight.normal_(std=DEVIATION)
        result: T5ForConditionalGeneration = model
        return result

    @classmethod
    def untrained(cls, config: EtegrecConfig, train: Examples, sids: SidTable, *, seed: int, device: str) -> Self:
        made = super().untrained(config, train, sids, seed=seed, device=device)
        made.rescale(config.initial_deviation)
        return made

    def rescale(self, deviation: float) -> None:
        """Turn fresh weights into those of another standard deviation (normal draws differ by a factor alone)."""
        with torch.no_grad():
            for weight in _drawn(self.module):
                weight.mul_(deviation / DEVIATION)

    def decode(
        self, context: Context, codes: Tensor, *, rows: Tensor | None = None, hidden: bool = False
    ) -> StepOutput:
        output = super().decode(context, codes, rows=rows, hidden=hidden)
        levels = [within(output.logits[:, level], window) for level, window in enumerate(self.level_windows)]
        return StepOutput(torch.stack(levels, dim=1), output.labels, output.hidden, output.mask)

    def _decoder(self) -> T5DecoderWeights:
        return T5DecoderWeights(self.model, self.level_windows)


def within(logits: Tensor, window: slice) -> Tensor:
    """Lower logits [..., V] outside ``window`` so far that the softmax is that of the window alone."""
    columns = torch.arange(logits.shape[-1], device=logits.device)
    outside = (columns < window.start) | (columns >= window.stop)
    return logits.masked_fill(outside, max(_OUTSIDE, torch.finfo(logits.dtype).min))


def _drawn(model: nn.Module) -> Iterator[Tensor]:
    """The weights that are drawn at random, tied ones once."""
    seen = set()
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding) and id(module.weight) not in seen:
            seen.add(id(module.weight))
            yield module.weight
