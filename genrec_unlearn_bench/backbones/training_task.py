"""What a training minimises: the next items, or samples that a backbone brings itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, StepOutput
from genrec_unlearn_bench.data.examples import Examples, IntArray

__all__ = ["NextItem", "TrainingTask", "cross_entropy"]

_IGNORED = -100


class TrainingTask(Protocol):
    """What is learned: M samples, some of them a step. Backbones with more than next-item samples bring their own.

    A loss may depend on the rows, the weights and torch's global generator, and on nothing that changes from call to
    call: a training that was interrupted goes on from these.
    """

    @property
    def lengths(self) -> IntArray:
        """[M] input lengths, so that batches hold samples of similar length."""

    def loss(self, rows: IntArray) -> Tensor:
        """Scalar loss of the chosen samples, differentiable."""


@dataclass(frozen=True, eq=False)
class NextItem:
    """Cross-entropy of the next item's tokens."""

    recommender: Recommender
    examples: Examples
    temperature: float = 1.0

    @property
    def lengths(self) -> IntArray:
        """[M] history lengths."""
        return self.examples.history_lengths(self.recommender.history_limit)

    @property
    def even(self) -> bool:
        """Whether all targets have equally many tokens."""
        return bool((self.recommender.sids.codes >= 0).all())

    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all target tokens."""
        histories = self.examples.histories(self.recommender.history_limit, rows)
        return cross_entropy(self.recommender.forward(histories, self.examples.targets[rows]), self.temperature)


def cross_entropy(output: StepOutput, temperature: float = 1.0) -> Tensor:
    """Mean negative log-likelihood over all target tokens, in nats; logits divided by ``temperature`` (LETTER's τ)."""
    labels = output.labels if output.mask is None else output.labels.masked_fill(~output.mask, _IGNORED)
    logits = output.logits.flatten(0, 1).float() / temperature
    return torch.nn.functional.cross_entropy(logits, labels.flatten(), ignore_index=_IGNORED)
