"""Early stopping: the best weights by validation NDCG@10, and when patience runs out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.distributed import Processes, Shards
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.progress import Progress


def validation_sample(valid: Examples, rows: int, generator: np.random.Generator) -> Examples:
    """At most ``rows`` of the examples, drawn at random, in their order."""
    return valid.subset(np.sort(generator.permutation(len(valid))[:rows]))


def validation_ndcg(recommender: Recommender, valid: Examples) -> float:
    """Mean NDCG@10 over the examples by beam search, 10 wide."""
    return mean_ndcg(recommender.recommend(valid.histories(recommender.history_limit), 10, beam=10), valid.targets)


def mean_ndcg(ranking: Ranking, targets: IntArray) -> float:
    """Mean NDCG of lists with one relevant item each."""
    ranks = ranking.ranks(targets)
    return float(np.where(ranks > 0, 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0).mean())


@dataclass(eq=False)
class EarlyStopping:
    """Keeps a copy of the trained parameters at the best evaluation.

    Of several processes the first measures, with all blocks gathered where they are split, and broadcasts the value.
    """

    recommender: Recommender
    valid: Examples
    patience: int
    stage: str
    progress: Progress
    processes: Processes
    shards: Shards | None = None
    score: float = -1.0
    """Best NDCG@10 so far; -1 before the first evaluation."""
    stale: int = 0
    """Evaluations since then."""
    weights: dict[str, Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self._keep()

    def stop_after(self, step: int) -> bool:
        """Evaluate; keep the weights if they are the best so far; True once patience has run out."""
        with self.shards.gathered() if self.shards else nullcontext():
            score = validation_ndcg(self.recommender, self.valid) if self.processes.first else 0.0
            score = self.processes.agree(score)
        self.progress.log(f"{self.stage}.valid", step, {"ndcg@10": score})
        self.progress.info(f"{self.stage}: step {step}, validation NDCG@10 {score:.4f}")
        self.stale += 1
        if score > self.score:
            self.score, self.stale = score, 0
            self._keep()
        return self.stale >= self.patience

    def restore(self, steps: int) -> None:
        """Load the best weights; note the score and the number of steps."""
        with torch.no_grad():
            for name, parameter in learned(self.recommender.module).items():
                parameter.copy_(self.weights[name])
        self.recommender.module.eval()
        self.progress.note(f"{self.stage}.best_valid_ndcg@10", self.score)
        self.progress.note(f"{self.stage}.steps", steps)

    def _keep(self) -> None:
        self.weights = {name: value.detach().clone() for name, value in learned(self.recommender.module).items()}


def learned(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """The parameters that require gradients, by name."""
    return {name: value for name, value in module.named_parameters() if value.requires_grad}
