"""FLAT: loss adjustment with forget data alone (Wang et al. 2024, arXiv 2410.11143).

L = E[−g(P_g) + f*(g(P_u))] (its sec. 3): a variational f-divergence between a good answer and the forgotten one to the
same history. P is the mean **probability** (not the log) of an answer's tokens, so every term is bounded and its
gradient in a token's logit is of the order p(1 − p)/2: it vanishes for tokens that are already unlikely. The default,
total variation, is (tanh P_u − tanh P_g)/2. Updates all parameters; uses no retain data and no reference model, by
definition. ``DIVERGENCES`` has all eight divergences.

Deviations. (1) The good answer ("I don't know" in the paper) must be an item that the trie can give: one of the 100
most popular retain items, drawn per example and step (FLAT has as many templates). ``random`` is the repository's
"normal"; ``nearest``, from P(i), uses the items' content, which FLAT does not: it is reported as ``flat+``. (2) The
repository takes P over the padded length, which dilutes it by answer length; here it is over the target's tokens. (3)
It averages P over the batch before g and f*; here both are per example, as in the paper's expectation. (4) Its learning
rate (2e-7, 7B) is tuned anew, from 3e-6: AdamW normalises the gradients, so small ones do not make it slow.
``flat-retain`` adds the CE of retain examples (``retain_weight``), a different method. Requests for single
interactions: items stay in the catalogue, and an example's own item is never its good answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.backbones.recommender import StepOutput
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.descent import DescentConfig, PairedBatch, Search, Terms, backward, descend
from genrec_unlearn_bench.unlearning.likelihood import target_lengths
from genrec_unlearn_bench.unlearning.losses.retain_loss import retain_term
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants
from genrec_unlearn_bench.unlearning.sampling import positive_set

DivergenceName = Literal[
    "total-variation", "kl", "reverse-kl", "jensen-shannon", "pearson", "neyman", "squared-hellinger", "jeffrey"
]

AnswerKind = Literal["popular", "random", "nearest"]

POOL = 100
"""Number of most popular items: as many as FLAT has template answers."""


class FlatConfig(DescentConfig):
    """The divergence and the kind of good answers."""

    search = Search(divergence=("total-variation", "jensen-shannon", "kl"))

    divergence: DivergenceName = "total-variation"
    """f-divergence between the good and the forgotten answer."""
    answers: AnswerKind = "popular"
    """Good answers: popular retain items, any retain item, or the nearest ones (P(i))."""
    neighbours: int = Field(default=5, ge=1)
    """Size of P(i), for nearest answers."""
    retain_weight: float = Field(default=0.0, ge=0)
    """Weight of the CE of as many random retain examples; 0 in FLAT."""


class Flat(UnlearningMethod[FlatConfig]):
    """Bounded shift of probability from the forgotten answer to a good one, on forget data alone."""

    name = "flat"
    Config = FlatConfig
    variants: ClassVar[Variants] = {
        "flat+": {"answers": "nearest"},
        "flat-random": {"answers": "random"},
        "flat-retain": {"retain_weight": 1.0},
    }
    variant_search: ClassVar[Mapping[str, Search]] = {"flat-retain": Search(retain_weight=(0.3, 1.0, 3.0))}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        model = recommender.clone()
        divergence = DIVERGENCES[config.divergence]
        answers = Answers(config.answers, recommender, request, neighbours=config.neighbours)

        def step(batch: PairedBatch) -> Terms:
            wanted = model.codes_of(answers.draw(batch.forget.targets))
            good, forgotten = answer_probabilities(model, batch, wanted)
            loss = divergence.loss(good, forgotten)
            backward(loss)
            terms = {"forget": loss.detach(), "p_good": good.detach().mean(), "p_forget": forgotten.detach().mean()}
            if not config.retain_weight:
                return terms
            retain = retain_term(model, recommender, batch.retain, "nll")
            backward(config.retain_weight * retain)
            return terms | {"retain": retain.detach()}

        descend(model, request, config, step, progress)
        return model


def answer_probabilities(model: Recommender, batch: PairedBatch, good: Tensor) -> tuple[Tensor, Tensor]:
    """P_g and P_u, [n] each: both answers to a history in one pass. ``good``: [n, L] codes."""
    forget = batch.forget
    context = model.encode(forget.histories(model.history_limit))
    rows = torch.arange(len(forget), device=good.device).repeat(2)
    output = model.decode(context, torch.cat([good, model.codes_of(forget.targets)]), rows=rows)
    probabilities = mean_probability(output)
    return probabilities[: len(forget)], probabilities[len(forget) :]


def mean_probability(output: StepOutput) -> Tensor:
    """[R] mean probability of each target's real tokens."""
    probabilities = output.token_log_probs().exp()
    real = probabilities if output.mask is None else probabilities * output.mask
    return real.sum(1) / target_lengths(output)


class Answers:
    """Sampler of one answer per example and step, with its own generator.

    ``popular``: one of the ``POOL`` retain items with the most retain train interactions. ``random``: any retain item.
    ``nearest``: one of the ``neighbours`` items of P(i), or of the popular pool if P(i) is empty. An example's own
    target is never its answer (in interaction requests it may be in the pool): the pool's next item is used.
    """

    def __init__(
        self, kind: AnswerKind, recommender: Recommender, request: ForgetRequest, *, neighbours: int = 5
    ) -> None:
        blocked = recommender.serving.blocked
        allowed = ~request.items if blocked is None else ~request.items & ~blocked
        counts = np.bincount(request.train.retain.targets, minlength=len(allowed))
        ranked = np.argsort(-counts, kind="stable")
        ranked = ranked[allowed[ranked]].astype(np.int64)
        self.pool: IntArray = ranked if kind == "random" else ranked[:POOL]
        """Items to draw from, most popular first."""
        if len(self.pool) < 2:
            raise BenchError("fewer than two items are left to give as good answers")
        self._near: IntArray | None = None
        if kind == "nearest":
            distinct = np.unique(request.train.forget.targets)
            self._row = np.full(len(allowed), -1, dtype=np.int64)
            self._row[distinct] = np.arange(len(distinct))
            self._near = positive_set(request.features, recommender.sids, distinct, ~allowed, neighbours)
        self._generator = numpy_generator(request.seed, "answers", kind)

    def draw(self, targets: IntArray) -> IntArray:
        """[n] an answer for each forget target [n], never the target itself."""
        place = self._generator.integers(len(self.pool), size=len(targets))
        answers = self.pool[place]
        answers = np.where(answers == targets, self.pool[(place + 1) % len(self.pool)], answers)
        if self._near is None:
            return answers
        near = self._near[self._row[targets]]
        found = (near >= 0).sum(axis=1)
        chosen = near[np.arange(len(near)), self._generator.integers(np.maximum(found, 1))]
        return np.where(found > 0, chosen, answers)


@dataclass(frozen=True)
class Divergence:
    """g and f* of a row of the table at ``DIVERGENCES``; both are elementwise."""

    activation: Callable[[Tensor], Tensor]
    conjugate: Callable[[Tensor], Tensor]

    def loss(self, good: Tensor, forgotten: Tensor) -> Tensor:
        """Scalar: mean of −g(P_g) + f*(g(P_u)) over pairs of probabilities [R]."""
        return (self.conjugate(self.activation(forgotten)) - self.activation(good)).mean()


def _jeffrey_conjugate(t: Tensor) -> Tensor:
    """f*(t) = ut − (u − 1) log u where f'(u) = log u + 1 − 1/u = t; u is also its derivative (envelope theorem)."""
    with torch.no_grad():
        u = torch.ones_like(t)
        for _ in range(12):
            # u = 1 is left of the root for t >= 0 and f' is concave, so Newton increases to the root monotonically.
            u = u + (t - u.log() - 1 + 1 / u) / (1 / u + 1 / u**2)
    return u * t - (u - 1) * u.log()


def _identity(v: Tensor) -> Tensor:
    return v


DIVERGENCES: Mapping[str, Divergence] = {
    "total-variation": Divergence(lambda v: v.tanh() / 2, _identity),
    "kl": Divergence(_identity, lambda t: (t - 1).exp()),
    "reverse-kl": Divergence(lambda v: -(-v).exp(), lambda t: -1 - (-t).log()),
    "jensen-shannon": Divergence(lambda v: math.log(2) - F.softplus(-v), lambda t: -(2 - t.exp()).log()),
    "pearson": Divergence(_identity, lambda t: t**2 / 4 + t),
    "neyman": Divergence(lambda v: 1 - (-v).exp(), lambda t: 2 - 2 * (1 - t).sqrt()),
    "squared-hellinger": Divergence(lambda v: 1 - (-v).exp(), lambda t: t / (1 - t)),
    "jeffrey": Divergence(_identity, _jeffrey_conjugate),
}
"""FLAT's f-divergences in variational form.

For convex f, D_f(P ‖ Q) = sup_g E_P[g] − E_Q[f*(g)], f*(t) = sup_u ut − f(u). FLAT puts the probability v of an answer
through the activation g that f-GAN (arXiv 1606.00709, tables 2 and 6) pairs with f, so that f*(g(v)) is finite:

    name               f(u)                         g(v)                    f*(t)              f*(g(v))
    total-variation    |u − 1| / 2                  tanh(v) / 2             t                  tanh(v) / 2
    kl                 u log u                      v                       exp(t − 1)         exp(v − 1)
    reverse-kl         −log u                       −exp(−v)                −1 − log(−t)       v − 1
    jensen-shannon     u log u − (u+1) log (u+1)/2  log 2 − log(1+exp(−v))  −log(2 − exp t)    v + log (1+exp(−v))/2
    pearson            (u − 1)²                     v                       t²/4 + t           v²/4 + v
    neyman             (u − 1)² / u                 1 − exp(−v)             2 − 2√(1 − t)      2 − 2 exp(−v/2)
    squared-hellinger  (√u − 1)²                    1 − exp(−v)             t / (1 − t)        exp(v) − 1
    jeffrey            (u − 1) log u                v                       W + 1/W + t − 2    W = W0(exp(1 − t))

Every g and f*(g) increases with v, so the loss falls when the good answer becomes likelier and the forgotten one less
likely. The repository has g = −exp(v) for reverse KL and 1 − exp(v) for Neyman and squared Hellinger, a sign error
against f-GAN that pushes the good answer down (and, except for Neyman, the forgotten one up). Its Jeffrey uses a cubic
expansion of f*; here f* is solved for.
"""
