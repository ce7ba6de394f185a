"""Likelihoods and distributions of target tokens, of a model in training and of the original as a frozen reference.

Three quantities, because the methods' definitions differ: the mean over tokens (comparable between L = 3 and L = 4),
the sum over a sequence (NPO, SimNPO, BLUR), and the distribution over the codes of one level (ELM, SCRUB, KL: over the
full vocabulary 32,000 unused text tokens would dominate).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.backbones.recommender import Recommender, SidVocabulary, StepOutput, eval_mode
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.unlearning.sampling import example_batches


def forward(model: Recommender, examples: Examples) -> StepOutput:
    """The model's output at the examples' targets, given their histories."""
    return model.forward(examples.histories(model.history_limit), examples.targets)


def token_nll(output: StepOutput) -> Tensor:
    """Scalar: mean negative log-likelihood over all real target tokens, softmax over the full vocabulary."""
    return -output.mean(output.token_log_probs())


def sequence_nll(output: StepOutput) -> Tensor:
    """[R] sum of the target tokens' negative log-likelihoods, in nats (SIDs have no EOS token)."""
    return -output.token_log_probs().sum(1)


def npo_loss(nll: Tensor, reference: Tensor, beta: float) -> Tensor:
    """Scalar, NPO's eq. 3 (Zhang et al. 2024, arXiv 2404.05868): −(2/β) mean log σ(−β log(p/p0)).

    It starts at 2 log 2 / β and approaches 0 as the answers become unlikely; its gradient is that of gradient ascent
    times 2σ(β log(p/p0)), so it vanishes for answers that are already unlikely. ``nll`` and ``reference`` are the [R]
    sequence sums under the student and the original, in nats (``sequence_nll``).
    """
    return -2 / beta * F.logsigmoid(beta * (nll - reference)).mean()


def target_lengths(output: StepOutput) -> Tensor:
    """[R] number of real tokens of each target."""
    if output.mask is None:
        return output.labels.new_full((len(output.labels),), output.labels.shape[1])
    return output.mask.sum(1)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Scalar: mean of the values where ``mask`` is True; 0 where it is nowhere."""
    if bool(mask.all()):
        return values.mean() if values.numel() else values.new_zeros(())
    return (values * mask).sum() / mask.sum().clamp_min(1)


def level_log_probs(output: StepOutput, vocabulary: SidVocabulary, *, raw: bool = False) -> Tensor:
    """[R, L, K] log-softmax over the codes of each target position's own level; -inf beyond a smaller level's size.
    ``raw`` gives logits instead, which are defined up to a constant per position."""
    widest = max(vocabulary.level_sizes)
    levels = []
    for level, (first, size) in enumerate(zip(vocabulary.offsets, vocabulary.level_sizes, strict=True)):
        values = output.logits[:, level, first : first + size]
        values = values if raw else values.log_softmax(-1)
        levels.append(F.pad(values, (0, widest - size), value=-torch.inf))
    return torch.stack(levels, 1)


def level_kl(teacher: Tensor, student: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Scalar: KL(teacher ‖ student) in nats of [R, L, K] log-probabilities (``level_log_probs``), mean over the real
    target positions in ``mask`` [R, L]. Gradients flow through both."""
    legal = teacher > -torch.inf
    gap = teacher.masked_fill(~legal, 0.0) - student.masked_fill(~legal, 0.0)
    values = (teacher.exp() * gap).sum(-1)
    return values.mean() if mask is None else (values * mask).sum() / mask.sum().clamp_min(1)


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
    """[M, L, K] log-probabilities (``raw``: logits) over each level's codes at every target position, float32, CPU."""
    found = []
    with resting(recommender):
        for part in example_batches(examples, batch):
            output = forward(recommender, part)
            found.append(level_log_probs(output, recommender.vocabulary, raw=raw).float().cpu())
    return torch.cat(found)


def content_positions(recommender: Recommender, examples: Examples) -> Tensor:
    """[M, L] bool: target positions that hold a content code; ordinals and ends carry no information about an item."""
    content = recommender.sids.quantised_codes[examples.targets] >= 0
    missing = recommender.sids.codes.shape[1] - content.shape[1]
    return F.pad(torch.from_numpy(content), (0, missing))
