"""FLAT: loss adjustment with forget data alone (Wang et al. 2024, arXiv 2410.11143).

L = E[−g(P_g) + f*(g(P_u))] (its sec. 3): a variational f-divergence between a good answer and the forgotten one to the
same history. P is the mean **probability** (not the log) of an answer's tokens, so every term is bounded and its
gradient in a token's logit is of the order p(1 − p)/2: it vanishes for tokens that are already unlikely. The default,
total variation, is (tanh P_u − tanh P_g)/2. unlearning/losses/divergences.py has all eight, and the sign errors of the
repository. Updates all parameters; uses no retain data and no reference model, by definition.

Deviations. (1) The good answer ("I don't know" in the paper) must be an item that the trie can give: one of the 100
most popular retain items, drawn per example and step (unlearning/losses/answers.py). ``random`` is the repository's
"normal"; ``nearest``, from P(i), uses the items' content, which FLAT does not: it is reported as ``flat+``.
(2) The repository takes P over the padded length, which dilutes it by answer length; here it is over the target's
tokens. (3) It averages P over the batch before g and f*; here both are per example, as in the paper's expectation. (4)
Its learning rate (2e-7, 7B) is tuned anew: AdamW normalises the gradients, so small ones do not make it slow.
``flat-retain`` adds the CE of retain examples (``retain_weight``), a different method. Requests for single
interactions: items stay in the catalogue, and an example's own item is never its good answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, StepOutput
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.descent import DescentConfig, backward, descend
from genrec_unlearn_bench.unlearning.likelihood import target_lengths
from genrec_unlearn_bench.unlearning.losses.answers import AnswerKind, Answers
from genrec_unlearn_bench.unlearning.losses.divergences import DIVERGENCES
from genrec_unlearn_bench.unlearning.losses.retain_loss import retain_term
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import PairedBatch

DivergenceName = Literal[
    "total-variation", "kl", "reverse-kl", "jensen-shannon", "pearson", "neyman", "squared-hellinger", "jeffrey"
]


class FlatConfig(DescentConfig):
    """The divergence and the kind of good answers."""

    lr: float = Field(default=1e-4, gt=0, json_schema_extra={"search": [1e-5, 1e-4, 3e-4, 1e-3]})
    """AdamW learning rate."""
    divergence: DivergenceName = Field(
        default="total-variation", json_schema_extra={"search": ["total-variation", "jensen-shannon", "kl"]}
    )
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
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "flat+": {"answers": "nearest"},
        "flat-random": {"answers": "random"},
        "flat-retain": {"retain_weight": 1.0},
    }

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        model = recommender.clone()
        divergence = DIVERGENCES[config.divergence]
        answers = Answers(config.answers, recommender, request, neighbours=config.neighbours)

        def step(batch: PairedBatch) -> Mapping[str, Tensor | float]:
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
