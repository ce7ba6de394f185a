"""Next-item training that reads a history once for all of its prefixes.

Sliding windows make one example of every prefix of a user's sequence. A causal model over SIDs alone sees the same
tokens at the same positions in all of them, so one pass over the longest gives the loss of each: response-only loss,
example by example, at a third of the tokens (Industrial: 19,885 examples, 5,186 chains).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.backbones.minionerec.loss import token_losses
from genrec_unlearn_bench.backbones.minionerec.prompt import lay_out
from genrec_unlearn_bench.backbones.minionerec.recommender import SID_PROMPT, CausalRecommender
from genrec_unlearn_bench.backbones.training_task import one_kind, sid_terms
from genrec_unlearn_bench.data.examples import PAD, Examples, IntArray

__all__ = ["PrefixChains"]


class PrefixChains:
    """The examples of a train part, merged where one goes on another. A ``TrainingTask`` of M chains.

    Each chain is a history and its target, written as one prompt; ``counts[m, j]`` says how many examples have the
    first j items as history and the next one as target.
    """

    def __init__(self, recommender: CausalRecommender, examples: Examples) -> None:
        self._recommender = recommender
        limit = recommender.history_limit
        histories = examples.histories(limit)
        lengths = histories.lengths
        wholes = [
            (*row[:length], target)
            for row, length, target in zip(
                histories.items.tolist(), lengths.tolist(), examples.targets.tolist(), strict=True
            )
        ]
        chain_of: dict[tuple[int, ...], int] = {}
        chains: list[tuple[int, ...]] = []
        counts = np.zeros((len(wholes), limit + 1), dtype=np.float32)
        for row in np.argsort(-lengths, kind="stable"):
            whole = wholes[row]
            if whole not in chain_of:
                for size in range(1, len(whole) + 1):
                    chain_of.setdefault(whole[:size], len(chains))
                chains.append(whole)
            counts[chain_of[whole], len(whole) - 1] += 1
        self.items = np.full((len(chains), limit + 1), PAD, dtype=np.int64)
        for row, chain in enumerate(chains):
            self.items[row, : len(chain)] = chain
        self.counts = counts[: len(chains)]

    @property
    def lengths(self) -> IntArray:
        """[M] items of each chain."""
        return np.asarray((self.items != PAD).sum(1), dtype=np.int64)

    @property
    def terms(self) -> NDArray[np.float64]:
        """[M] target tokens of all examples in each chain."""
        tokens = sid_terms(self._recommender.sids, self.items.ravel()).reshape(self.items.shape)
        return np.asarray((self.counts * tokens).sum(1), dtype=np.float64)

    @property
    def kinds(self) -> IntArray:
        """[M] all alike."""
        return one_kind(len(self.items))

    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all target tokens of all examples in the chosen chains."""
        model = self._recommender
        width = int(self.lengths[rows].max())
        items = torch.from_numpy(self.items[rows][:, :width]).to(model.device)
        counts = torch.from_numpy(self.counts[rows][:, :width]).to(model.device)
        layout = lay_out(SID_PROMPT, model.sid_tokens, items)
        weights = counts.gather(1, layout.places.clamp_min(0)).masked_fill(layout.places < 0, 0.0)
        row, position = torch.nonzero(weights, as_tuple=True)
        states = model.prompt_states(layout)[row, position - 1]
        losses = token_losses(states, layout.tokens[row, position], model.head, model.vocabulary.size)
        chosen = weights[row, position]
        return (losses * chosen).sum() / chosen.sum()
