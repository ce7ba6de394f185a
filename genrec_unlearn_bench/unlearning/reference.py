"""The original model θ0 as a frozen reference, without gradients and dropout: no second copy is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, eval_mode
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.unlearning.likelihood import level_log_probs
from genrec_unlearn_bench.unlearning.sampling import example_batches


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


def reference_log_probs(recommender: Recommender, examples: Examples, *, batch: int = 512, raw: bool = False) -> Tensor:
    """[M, L, K] log-probabilities over each level's codes at every target position, float32 on the CPU.

    Args:
        raw: Logits instead of log-probabilities (``level_log_probs``).
    """
    found = []
    with resting(recommender):
        for part in example_batches(examples, batch):
            output = recommender.forward(part.histories(recommender.history_limit), part.targets)
            found.append(level_log_probs(output, recommender.vocabulary, raw=raw).float().cpu())
    return torch.cat(found)


def content_positions(recommender: Recommender, examples: Examples) -> Tensor:
    """[M, L] bool: target positions that hold a content code; ordinals and ends carry no information about an item."""
    content = recommender.sids.quantised_codes[examples.targets] >= 0
    missing = recommender.sids.codes.shape[1] - content.shape[1]
    return torch.nn.functional.pad(torch.from_numpy(content), (0, missing))
