"""Teacher-forced likelihoods of targets and of wrong items, on histories that are encoded once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, StepOutput, length_batches
from genrec_unlearn_bench.data.examples import Histories, IntArray
from genrec_unlearn_bench.evaluation.likelihoods.reading import FloatArray, Scored
from genrec_unlearn_bench.progress import Progress

__all__ = ["own_moments", "score", "target_tokens"]

ROWS = 256
"""Most histories of a batch."""
LOGITS = 2**25
"""Most logits of a batch: those of a language model's vocabulary would not fit beside each other otherwise."""


def score(
    recommender: Recommender,
    histories: Histories,
    targets: IntArray,
    wrong: IntArray,
    *,
    label: str,
    progress: Progress,
) -> Scored:
    """Score n targets [n] and the wrong items [w, k] of the first w histories (-1 where there is none).

    Softmax over the full vocabulary in fp32, in evaluation mode; targets and wrong items share one encoded history.
    """
    n, levels = len(targets), recommender.sids.levels
    log_probs, mean, sd = (np.zeros((n, levels)) for _ in range(3))
    others = np.full((n, wrong.shape[1]), -1, dtype=np.int64)
    others[: len(wrong)] = wrong
    sums = np.full(others.shape, np.nan)
    for rows in _batches(recommender, histories.lengths, 1 + wrong.shape[1], label, progress):
        pairs = np.argwhere(others[rows] >= 0)
        step = _decode(recommender, histories.rows(rows), targets[rows], pairs[:, 0], others[rows][*pairs.T])
        tokens = step.token_log_probs().cpu().double().numpy()
        log_probs[rows] = tokens[: len(rows)]
        sums[rows[pairs[:, 0]], pairs[:, 1]] = tokens[len(rows) :].sum(axis=1)
        mean[rows], sd[rows] = (part.cpu().double().numpy() for part in own_moments(step.logits[: len(rows)]))
    lengths = (recommender.sids.codes >= 0).sum(axis=1)
    return Scored(
        log_probs=log_probs,
        real=recommender.sids.codes[targets] >= 0,
        mean=mean,
        sd=sd,
        wrong=sums[: len(wrong)],
        wrong_lengths=np.where(wrong >= 0, lengths[wrong], 0),
    )


def target_tokens(
    recommender: Recommender, histories: Histories, targets: IntArray, *, label: str, progress: Progress
) -> FloatArray:
    """[n, L] log-probability of each target token; 0 behind the end of a shorter target."""
    nothing = np.zeros(0, dtype=np.int64)
    out = np.zeros((len(targets), recommender.sids.levels))
    for rows in _batches(recommender, histories.lengths, 1, label, progress):
        step = _decode(recommender, histories.rows(rows), targets[rows], nothing, nothing)
        out[rows] = step.token_log_probs().cpu().double().numpy()
    return out


def own_moments(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of log p(v), v drawn from p itself: [..., V] logits to two tensors [...].

    Min-K%++ (Zhang et al. 2024, arXiv 2404.02936, eq. 4). A token that cannot come has no part in either.
    """
    log_p = logits.float().log_softmax(-1)
    p = log_p.exp()
    finite = log_p.masked_fill(p == 0, 0.0)
    mean = (p * finite).sum(-1)
    variance = (p * (finite - mean[..., None]).square()).sum(-1)
    return mean, variance.sqrt()


def _batches(
    recommender: Recommender, lengths: IntArray, targets: int, label: str, progress: Progress
) -> Iterator[IntArray]:
    """Rows of similar length, as many as their logits allow with so many targets a history."""
    size = recommender.sids.levels * recommender.vocabulary.size * targets
    found = list(length_batches(lengths, max(1, min(ROWS, LOGITS // size))))
    yield from progress.track(label, found, total=len(found))


@torch.no_grad()
def _decode(
    recommender: Recommender, histories: Histories, targets: IntArray, owners: IntArray, items: IntArray
) -> StepOutput:
    """B targets, one a history, and behind them ``items`` [P] on the histories ``owners`` [P]; logits in fp32."""
    module = recommender.module
    was_training = module.training
    module.eval()
    try:
        context = recommender.encode(histories)
        codes = recommender.codes_of(np.concatenate([targets, items]))
        rows = None
        if len(items):
            rows = torch.from_numpy(np.concatenate([np.arange(len(targets)), owners])).to(codes.device)
        step = recommender.decode(context, codes, rows=rows)
    finally:
        module.train(was_training)
    return StepOutput(step.logits.float(), step.labels, mask=step.mask)
