"""ETEGRec's two alignment losses and their heads (Liu et al. 2025, arXiv 2409.05546, sec. 3.3).

Sequence-item alignment (SIA, eq. 15) asks the tokenizer to give a user's encoded history and the item chosen next the
same distribution over codes; preference-semantic alignment (PSA, eq. 16) draws the decoder's first state to the
reconstruction of that item, and away from the others of the batch.

Where the paper and the official code differ: the paper prints SIA with a minus sign, which would drive the
distributions apart, and sums over levels; the code adds it, as a mean over levels and items. The code's weights belong
to the mean, so it is taken here. The sign of the distances is a choice (``compat_sign``). The paper's PSA sums both
directions, and so does the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from genrec_unlearn_bench.backbones.etegrec.config import AlignmentConfig
from genrec_unlearn_bench.backbones.etegrec.recommender import DEVIATION
from genrec_unlearn_bench.backbones.etegrec.tokenizer import TokenizerPass
from genrec_unlearn_bench.backbones.recommender import Context, StepOutput
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.seeding import torch_generator
from genrec_unlearn_bench.sids.rqvae import RqVae

__all__ = ["AlignmentHeads", "UserState", "aligned", "code_log_probs", "first_occurrences", "info_nce", "symmetric_kl"]


def code_log_probs(residuals: Tensor, codebooks: Iterable[Tensor], *, compat_sign: bool) -> Tensor:
    """[n, Q, K] log-probability of every code at every level (eq. 6): softmax over -||r^l - c_k^l||^2.

    ``residuals`` [n, Q, D], Q ``codebooks`` [K, D]; ``compat_sign``: over +||r^l - c_k^l||^2, as in the official code.
    """
    levels = []
    for level, book in enumerate(codebooks):
        residual = residuals[:, level]
        squared = (residual**2).sum(1, keepdim=True) - 2 * residual @ book.T + (book**2).sum(1)
        levels.append((squared if compat_sign else -squared).log_softmax(-1))
    return torch.stack(levels, dim=1)


def symmetric_kl(a: Tensor, b: Tensor) -> Tensor:
    """KL(a || b) + KL(b || a) of log-probabilities [n, Q, K], in nats: the mean over n and Q."""
    return ((a.exp() - b.exp()) * (a - b)).sum(-1).mean()


def info_nce(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """InfoNCE of n pairs [n, D] by cosine similarity, in nats: a among all b plus b among all a, each a mean."""
    similarity = functional.normalize(a, dim=-1) @ functional.normalize(b, dim=-1).T / temperature
    own = torch.arange(len(a), device=a.device)
    return functional.cross_entropy(similarity, own) + functional.cross_entropy(similarity.T, own)


def first_occurrences(targets: IntArray) -> IntArray:
    """First row of each distinct target of a batch [B], by ascending target: no item is its own negative."""
    return np.unique(targets, return_index=True)[1].astype(np.int64)


@dataclass(frozen=True, eq=False)
class UserState:
    """Final states of n users."""

    sequence: Tensor
    """[n, D] mean of the encoder's final states over real positions."""
    preference: Tensor
    """[n, D] the decoder's final state at the start token, which the output layer reads."""

    @classmethod
    def of(cls, context: Context, output: StepOutput) -> UserState:
        """The states of encoded histories and of one target each, decoded with its hidden states."""
        states, weights = context.state.float(), context.mask[..., None].float()
        return cls((states * weights).sum(1) / weights.sum(1).clamp_min(1), output.hidden[-1][:, 0].float())

    def rows(self, index: Tensor) -> UserState:
        return UserState(self.sequence[index], self.preference[index])


class AlignmentHeads(nn.Module):
    """Linear maps from the recommender's width to the codewords' and to the item vectors', never saved."""

    def __init__(self, width: int, latent: int, vector: int, *, seed: int) -> None:
        super().__init__()
        generator = torch_generator(seed, "etegrec", "heads")
        self.sequence = _linear(width, latent, generator)
        self.preference = _linear(width, vector, generator)


def aligned(
    config: AlignmentConfig, heads: AlignmentHeads, tokenizer: RqVae, users: UserState, items: TokenizerPass
) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum of both losses and each by name, for n users and their n distinct next items.

    Differentiable in both networks.
    """
    sequence = tokenizer.quantise(heads.sequence(users.sequence))
    books = list(tokenizer.codebooks)
    sia = symmetric_kl(
        code_log_probs(sequence.residuals, books, compat_sign=config.compat_sign),
        code_log_probs(items.quantised.residuals, books, compat_sign=config.compat_sign),
    )
    psa = info_nce(heads.preference(users.preference), items.reconstruction, config.temperature)
    return config.sia * sia + config.psa * psa, {"sia": sia, "psa": psa}


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    # On the meta device first: the default initialisation draws from the global generator.
    linear = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    nn.init.normal_(linear.weight, std=DEVIATION, generator=generator)
    nn.init.zeros_(linear.bias)
    return linear
