"""Where tokenizer and recommender meet: the two heads and the losses of one batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.etegrec.config import AlignmentConfig
from genrec_unlearn_bench.backbones.etegrec.losses import code_log_probs, info_nce, symmetric_kl
from genrec_unlearn_bench.backbones.etegrec.recommender import DEVIATION
from genrec_unlearn_bench.backbones.etegrec.tokenizer import TokenizerPass
from genrec_unlearn_bench.seeding import torch_generator
from genrec_unlearn_bench.sids.rqvae import RqVae

__all__ = ["AlignmentHeads", "AlignmentLoss", "UserState", "aligned", "pooled"]


@dataclass(frozen=True, eq=False)
class UserState:
    """What the recommender knows of n users.

    Attributes:
        sequence: [n, D] mean of the encoder's final states over real positions.
        preference: [n, D] the decoder's final state at the start token, which the output layer reads.
    """

    sequence: Tensor
    preference: Tensor

    def rows(self, index: Tensor) -> UserState:
        """Some of the users."""
        return UserState(self.sequence[index], self.preference[index])


@dataclass(frozen=True, eq=False)
class AlignmentLoss:
    """Scalars; ``total`` is weighted, the others are not."""

    total: Tensor
    sia: Tensor
    psa: Tensor


class AlignmentHeads(nn.Module):
    """Two linear maps, trained with the recommender and needed in training alone.

    Args:
        width: D of the recommender.
        latent: Width of the tokenizer's codewords.
        vector: Width of the item vectors.
    """

    def __init__(self, width: int, latent: int, vector: int, *, seed: int) -> None:
        super().__init__()
        generator = torch_generator(seed, "etegrec", "heads")
        self.sequence = _linear(width, latent, generator)
        self.preference = _linear(width, vector, generator)


def pooled(states: Tensor, mask: Tensor) -> Tensor:
    """[B, D] mean of states [B, S, D] over the real positions of ``mask`` [B, S]."""
    weights = mask[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1).clamp_min(1)


def aligned(
    config: AlignmentConfig, heads: AlignmentHeads, tokenizer: RqVae, users: UserState, items: TokenizerPass
) -> AlignmentLoss:
    """Both losses for n users and their n distinct next items; whatever is not frozen gets gradients."""
    sequence = tokenizer.quantise(heads.sequence(users.sequence))
    books = list(tokenizer.codebooks)
    sia = symmetric_kl(
        code_log_probs(sequence.residuals, books, compat_sign=config.compat_sign),
        code_log_probs(items.quantised.residuals, books, compat_sign=config.compat_sign),
    )
    psa = info_nce(heads.preference(users.preference), items.reconstruction, config.temperature)
    return AlignmentLoss(config.sia * sia + config.psa * psa, sia, psa)


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    # By way of the meta device, because the default initialisation draws from the global generator.
    linear = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    nn.init.normal_(linear.weight, std=DEVIATION, generator=generator)
    nn.init.zeros_(linear.bias)
    return linear
