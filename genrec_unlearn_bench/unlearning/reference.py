"""The original model θ0 as a frozen reference, without gradients and dropout: no second copy is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, eval_mode
from genrec_unlearn_bench.data.examples import Examples


@contextmanager
def resting(recommender: Recommender) -> Iterator[Recommender]:
    """Put ``recommender`` in evaluation mode without gradients inside the block."""
    with eval_mode(recommender.module), torch.no_grad():
        yield recommender


def mean_nll(recommender: Recommender, examples: Examples) -> float:
    """Mean NLL per token of the examples' targets, in nats."""
    histories = examples.histories(recommender.history_limit)
    return -float(recommender.target_log_probs(histories, examples.targets).mean())


def reference_nll(recommender: Recommender, examples: Examples) -> Tensor:
    """[M] sequence NLL of every example under ``recommender``, in nats, on its device."""
    log_probs = recommender.target_log_probs(examples.histories(recommender.history_limit), examples.targets)
    return -log_probs.sum(1).to(recommender.device)
