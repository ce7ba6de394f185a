"""Where a network's blocks, feed-forward layers and value vectors are, and which position of them is whose.

Methods that reach inside a model (RMU, RepNoise, PISCES, ELM) name what they read and change through this: T5's
encoder and decoder blocks, or a causal model's blocks, which count as decoder. Parameters are found by module and name,
never by their index in a list (RMU's index 6 is ``down_proj`` in Llama and ``o_proj`` in Qwen2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.packing import Packing, SharedTargets
from genrec_unlearn_bench.backbones.recommender import Context, Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.errors import BenchError

__all__ = ["Anatomy", "Block", "Stack", "anatomy"]


class Stack(StrEnum):
    """Which half of the network a block belongs to. Causal models have decoder blocks alone."""

    ENCODER = "encoder"
    DECODER = "decoder"


@dataclass(frozen=True, eq=False)
class Block:
    """One transformer block.

    Attributes:
        index: Place in its stack, from 0.
        name: Of ``module`` among ``recommender.module.named_modules()``.
        module: Gives the residual stream behind the block.
        mlp: Feed-forward layer; gives what is added to the residual stream, before the addition.
        down: W_out [D, F]; column j of its weight is the value vector v_j of neuron j, its input are the activations.
        gated: Activations may be negative (SwiGLU); otherwise they are ReLU's.
    """

    stack: Stack
    index: int
    name: str
    module: nn.Module
    mlp: nn.Module
    down: nn.Linear
    gated: bool


@dataclass(frozen=True, eq=False)
class Anatomy:
    """A recommender's blocks, and the way from what a hook catches to targets and history positions.

    Attributes:
        encoder, decoder: Blocks from the input up.
        lens: Residual stream [..., D] to logits [..., V] through the final norm and the output head, tied scaling
            included. What ``decode(hidden=True)`` gives as its last layer is normed already: that one is ``unnormed``
            in no family, so catch the last block with ``tapped`` instead of norming it twice.
    """

    encoder: tuple[Block, ...]
    decoder: tuple[Block, ...]
    causal: bool
    lens: Callable[[Tensor], Tensor]

    def at_targets(self, caught: Tensor, context: Context, length: int, *, rows: Tensor | None = None) -> Tensor:
        """What a hook on a decoder block caught during ``decode``, at the positions that predict the targets' tokens.

        Args:
            caught: [B or packed, positions, D] as the module gave it.
            context: The context that was decoded on.
            length: L, tokens of a target.
            rows: As given to ``decode``.

        Returns:
            [R, L, D].
        """
        if not self.causal:
            return caught if rows is None else SharedTargets.of(rows, len(context.mask)).unpack(caught, length)
        rows = torch.arange(len(context.mask), device=caught.device) if rows is None else rows
        return Packing.of(context.mask, rows, length).unpack(caught, context.mask.shape[1], length)

    def at_history(self, caught: Tensor, context: Context) -> Tensor:
        """What a hook caught at the input positions, [B, S, D], beside ``context.mask`` and ``context.position_items``.

        T5: a hook on an encoder block during ``encode``. Causal models: a hook on any block during ``decode``.
        """
        return caught[:, : context.mask.shape[1]]

    @property
    def reading(self) -> tuple[Block, ...]:
        """The blocks in which a history is read: T5's encoder, or the blocks of a causal model."""
        return self.decoder if self.causal else self.encoder


def anatomy(recommender: Recommender) -> Anatomy:
    """The anatomy of a T5 or Qwen2 recommender. Raises BenchError for a family that nobody has described yet."""
    if isinstance(recommender, T5Recommender):
        return _t5(recommender)
    if isinstance(recommender, CausalRecommender):
        return _causal(recommender)
    raise BenchError(
        f"the blocks of a {type(recommender).__name__} are not known",
        hint="describe the family in genrec_unlearn_bench/unlearning/anatomy.py",
    )


def _t5(recommender: T5Recommender) -> Anatomy:
    model: Any = recommender.model
    scale = model.model_dim**-0.5 if model.config.scale_decoder_outputs else 1.0

    def lens(states: Tensor) -> Tensor:
        logits: Tensor = model.lm_head(model.decoder.final_layer_norm(states) * scale)
        return logits

    def blocks(stack: Stack) -> tuple[Block, ...]:
        found = []
        for index, block in enumerate(getattr(model, stack.value).block):
            mlp = block.layer[-1].DenseReluDense
            name = f"{stack.value}.block.{index}"
            found.append(Block(stack, index, name, block, mlp, mlp.wo, bool(model.config.is_gated_act)))
        return tuple(found)

    return Anatomy(blocks(Stack.ENCODER), blocks(Stack.DECODER), False, lens)


def _causal(recommender: CausalRecommender) -> Anatomy:
    model: Any = recommender.model

    def lens(states: Tensor) -> Tensor:
        return recommender.head(model.model.norm(states))

    blocks = tuple(
        Block(Stack.DECODER, index, f"model.layers.{index}", block, block.mlp, block.mlp.down_proj, True)
        for index, block in enumerate(model.model.layers)
    )
    return Anatomy((), blocks, True, lens)
