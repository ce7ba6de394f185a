"""Blocks, feed-forward layers and value vectors of a network, and activations at the positions of a batch.

Used by methods that read or edit hidden states (RMU, RepNoise, PISCES, ELM). A causal model's blocks count as decoder
blocks. Parameters are found by module and name, never by their index in a list (RMU's index 6 is ``down_proj`` in
Llama and ``o_proj`` in Qwen2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.packing import Packing, SharedTargets
from genrec_unlearn_bench.backbones.recommender import Context, Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.unlearning.likelihood import resting
from genrec_unlearn_bench.unlearning.sampling import example_batches

Activations = tuple[Tensor, Tensor]
"""Values [B, P, D] at P positions of B examples, and [B, P] whether a position is real."""


class Stack(StrEnum):
    """Encoder or decoder; causal models have decoder blocks only."""

    ENCODER = "encoder"
    DECODER = "decoder"


@dataclass(frozen=True, eq=False)
class Block:
    """One transformer block.

    Attributes:
        name: Name of ``module`` in ``recommender.module``; the module's output is the residual stream after the block.
        mlp: Feed-forward layer; its output is added to the residual stream.
        down: W_out [D, F]; column j of its weight is the value vector v_j of neuron j, its input the activations.
        gated: Activations may be negative (SwiGLU); otherwise they are ReLU outputs.
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
    """A recommender's blocks from the input up, and the mapping from module outputs to target and history positions.

    Attributes:
        lens: Logit lens: residual stream [..., D] to logits [..., V] through the final norm and the output head, tied
            scaling included. The last layer of ``decode(hidden=True)`` is already normed; read the last block with
            ``tapped`` instead of norming it twice.
    """

    encoder: tuple[Block, ...]
    decoder: tuple[Block, ...]
    causal: bool
    lens: Callable[[Tensor], Tensor]

    def at_targets(self, caught: Tensor, context: Context, length: int, *, rows: Tensor | None = None) -> Tensor:
        """[R, L, D] the positions that predict the targets' L = ``length`` tokens, of a decoder module's output
        ``caught`` [B or packed, positions, D] during ``decode(context, …, rows=rows)``."""
        if not self.causal:
            return caught if rows is None else SharedTargets.of(rows, len(context.mask)).unpack(caught, length)
        rows = torch.arange(len(context.mask), device=caught.device) if rows is None else rows
        return Packing.of(context.mask, rows, length).unpack(caught, context.mask.shape[1], length)

    def at_history(self, caught: Tensor, context: Context) -> Tensor:
        """[B, S, D] the input positions, aligned with ``context.mask``, of an encoder module's output during ``encode``
        (T5), or of a causal model's during ``decode``."""
        return caught[:, : context.mask.shape[1]]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks, the encoder's first."""
        return (*self.encoder, *self.decoder)

    @property
    def history_blocks(self) -> tuple[Block, ...]:
        """The blocks that process a history: T5's encoder, or the blocks of a causal model."""
        return self.decoder if self.causal else self.encoder


def anatomy(recommender: Recommender) -> Anatomy:
    """Describe a T5 or Qwen2 recommender. Raises BenchError for other families."""
    if isinstance(recommender, T5Recommender):
        return _t5(recommender)
    if isinstance(recommender, CausalRecommender):
        return _causal(recommender)
    raise BenchError(
        f"the blocks of a {type(recommender).__name__} are not known",
        hint="describe the family in genrec_unlearn_bench/unlearning/anatomy.py",
    )


def mlp_activations(
    recommender: Recommender,
    examples: Examples,
    blocks: Sequence[Block],
    *,
    prompts: bool = False,
    inputs: bool = False,
    batch_size: int = 128,
) -> Iterator[list[Activations]]:
    """Iterate over batches of every block's feed-forward outputs, without gradients.

    Encoder blocks: the history's positions. Decoder blocks: those that predict the target's tokens, with ``prompts``
    a causal model's prompt positions too (each once). ``inputs`` yields the neurons' activations [B, P, F] instead,
    which W_out turns into the output.
    """
    body = anatomy(recommender)
    modules: list[nn.Module] = [block.down if inputs else block.mlp for block in blocks]
    with resting(recommender):
        for part in example_batches(examples, batch_size):
            codes = recommender.codes_of(part.targets)
            with tapped(modules, inputs=inputs) as caught:
                context = recommender.encode(part.histories(recommender.history_limit))
                recommender.decode(context, codes)
            yield [
                activations_at(body, block, values, context, codes, prompts=prompts)
                for block, values in zip(blocks, caught, strict=True)
            ]


def activations_at(
    body: Anatomy, block: Block, values: Tensor, context: Context, codes: Tensor, *, prompts: bool
) -> Activations:
    """Cut a module's output in ``block`` to its history or target positions (see ``mlp_activations``)."""
    if block.stack is Stack.ENCODER:
        return body.at_history(values, context).float(), context.mask
    at_targets, real = body.at_targets(values, context, codes.shape[1]).float(), codes >= 0
    if not (prompts and body.causal):
        return at_targets, real
    # The prompt's last position predicts the first token, so it is both.
    history = body.at_history(values, context).float()
    return torch.cat([history, at_targets[:, 1:]], 1), torch.cat([context.mask, real[:, 1:]], 1)


class _LastModuleReached(Exception):
    """Ends a forward pass after the last tapped module."""


@contextmanager
def tapped(modules: Sequence[nn.Module], *, stop: bool = False, inputs: bool = False) -> Iterator[list[Tensor]]:
    """Collect each module's latest output (its first element if it is a tuple), in a list filled while the block runs.

    ``inputs`` collects the first input instead. ``stop`` ends the forward pass once the last of ``modules`` has run;
    this leaves the ``with`` block as well, so statements after the call are not executed.
    """
    caught: list[Tensor] = [Tensor()] * len(modules)
    last = len(modules) - 1

    def hook(place: int) -> Any:
        def catch(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
            value = given[0] if inputs else output
            caught[place] = value[0] if isinstance(value, tuple) else value
            if stop and place == last:
                raise _LastModuleReached

        return catch

    handles = [module.register_forward_hook(hook(place)) for place, module in enumerate(modules)]
    try:
        yield caught
    except _LastModuleReached:
        pass
    finally:
        for handle in handles:
            handle.remove()


def _t5(recommender: T5Recommender) -> Anatomy:
    model: Any = recommender.model
    scale = model.model_dim**-0.5 if model.config.scale_decoder_outputs else 1.0

    def lens(states: Tensor) -> Tensor:
        return cast(Tensor, model.lm_head(model.decoder.final_layer_norm(states) * scale))

    def blocks(stack: Stack) -> Iterator[Block]:
        for index, block in enumerate(getattr(model, stack.value).block):
            mlp = block.layer[-1].DenseReluDense
            name = f"{stack.value}.block.{index}"
            yield Block(stack, index, name, block, mlp, mlp.wo, bool(model.config.is_gated_act))

    return Anatomy(tuple(blocks(Stack.ENCODER)), tuple(blocks(Stack.DECODER)), False, lens)


def _causal(recommender: CausalRecommender) -> Anatomy:
    model: Any = recommender.model

    def lens(states: Tensor) -> Tensor:
        return recommender.head(model.model.norm(states))

    blocks = tuple(
        Block(Stack.DECODER, index, f"model.layers.{index}", block, block.mlp, block.mlp.down_proj, True)
        for index, block in enumerate(model.model.layers)
    )
    return Anatomy((), blocks, True, lens)
