"""Next items asked for in many wordings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.backbones.p5sid.recommender import P5Recommender
from genrec_unlearn_bench.backbones.training_task import cross_entropy, one_kind, sid_terms
from genrec_unlearn_bench.data.examples import Examples, IntArray

__all__ = ["PromptedNextItem"]


@dataclass(frozen=True, eq=False)
class PromptedNextItem:
    """Cross-entropy of the next item's tokens, each example with a prompt drawn anew each time."""

    recommender: P5Recommender
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

    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all target tokens. The draw is torch's, which a training seeds, and resumes where it stopped."""
        model = self.recommender
        prompts = torch.randint(len(model.shape.prompts), (len(rows),))
        histories = self.examples.histories(model.history_limit, rows)
        return cross_entropy(model.prompted(histories, self.examples.targets[rows], prompts), self.temperature)
