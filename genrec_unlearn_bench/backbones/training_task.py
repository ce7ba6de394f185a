"""What a training minimises: the next items, or samples that a backbone brings itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, StepOutput
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["NextItem", "TrainingTask", "cross_entropy", "one_kind", "sid_terms"]

_IGNORED = -100


class TrainingTask(Protocol):
    """What is learned: M samples, some of them a step. Backbones with more than next-item samples bring their own.

    A loss may depend on the rows, the weights and torch's global generator, and on nothing that changes from call to
    call: a training that was interrupted goes on from these.
    """

    @property
    def lengths(self) -> IntArray:
        """[M] input lengths, so that batches hold samples of similar length."""

    @property
    def terms(self) -> NDArray[np.float64]:
        """[M] how many terms of the loss's mean each sample has, so that means over parts become that of the whole."""

    @property
    def kinds(self) -> IntArray:
        """[M] samples of one kind take one pass over the network together. Sharded processes have to pass alike."""

    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all terms of the chosen samples, differentiable."""


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
    def terms(self) -> NDArray[np.float64]:
        """[M] tokens of each target."""
        return sid_terms(self.recommender.sids, self.examples.targets)

    @property
    def kinds(self) -> IntArray:
        """[M] all alike."""
        return one_kind(len(self.examples))

    @property
    def even(self) -> bool:
        """Whether all targets have equally many tokens."""
        return bool((self.recommender.sids.codes >= 0).all())

    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all target tokens."""
        histories = self.examples.histories(self.recommender.history_limit, rows)
        return cross_entropy(self.recommender.forward(histories, self.examples.targets[rows]), self.temperature)


def sid_terms(sids: SidTable, items: IntArray) -> NDArray[np.float64]:
    """[len(items)] tokens of each item's SID."""
    return np.asarray((sids.codes[items] >= 0).sum(1), dtype=np.float64)


def one_kind(samples: int) -> IntArray:
    """``kinds`` of a task whose samples all take one pass."""
    return np.zeros(samples, dtype=np.int64)


def cross_entropy(output: StepOutput, temperature: float = 1.0) -> Tensor:
    """Mean negative log-likelihood over all target tokens, in nats; logits divided by ``temperature`` (LETTER's τ)."""
    labels = output.labels if output.mask is None else output.labels.masked_fill(~output.mask, _IGNORED)
    logits = output.logits.flatten(0, 1).float() / temperature
    return torch.nn.functional.cross_entropy(logits, labels.flatten(), ignore_index=_IGNORED)
