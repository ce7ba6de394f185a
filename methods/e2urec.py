"""E2URec: two teachers, one that remembers and one that forgets (Wang et al. 2024, arXiv 2403.03536).

The remembering teacher is the original. The forgetting teacher comes from an augmented model, the original fine-tuned
on the forget examples: q = softmax(z0 − α · ReLU(z_a − z0)), so what the augmented model likes better is demoted.
FGT = CE(q, p) on forget examples; REM = CE(y) + CE(p0, p) on retain examples. The first epoch minimises FGT alone, the
others w·REM + (1 − w)·FGT with w = .6 (the paper's β is 1 − w). Updates low-rank adapters (rank 16, alpha 32) in the
query and value layers of all blocks, which are merged into the weights.

Adaptation to SIDs: logits are defined up to a constant per position and ReLU is not invariant to it, so q is formed
from log-probabilities over a level's codes (``raw_logits`` is the official form); only content codes are demoted;
soft cross-entropies are computed as KL, which has the same gradient, over real target positions (official: padding as
well). Rank is at most half the model's width. Deviation: the official code stops both trainings at steps chosen by
hand (1200 and 1000, in a Yes/No task with T5-base); here both have a number of epochs. With too short an augmenting
training z_a ≈ z0 and FGT is self-distillation: ``augment.mean_relu`` and ``augment.forget_nll`` are in the record.
Item-text samples of a model that learned titles are not unlearned. Requests for single interactions need no changes.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.descent import DescentConfig, PairedBatch, Terms, backward, descend
from genrec_unlearn_bench.unlearning.likelihood import (
    content_positions,
    forward,
    level_kl,
    level_log_probs,
    mean_nll,
    reference_log_probs,
    resting,
    token_nll,
)
from genrec_unlearn_bench.unlearning.lora import LowRank, linear_names
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, Search, UnlearningMethod
from genrec_unlearn_bench.unlearning.sampling import steps_per_epoch

QUERY_AND_VALUE = frozenset({"q", "v", "q_proj", "v_proj"})


class E2URecConfig(DescentConfig):
    """The paper's settings where they apply to SIDs; see the module's docstring."""

    search = Search(alpha=(1.0, 2.0), remember=(0.3, 0.6, 0.9), augment_epochs=(3, 10))

    lr: float = Field(default=1e-3, gt=0)
    """AdamW learning rate of the adapters."""
    alpha: float = Field(default=2.0, ge=0)
    """α, how far the forgetting teacher demotes what the augmented model likes better."""
    augment_epochs: int = Field(default=3, ge=0)
    """Passes over the forget set that make the augmented model."""
    augment_lr: float = Field(default=1e-4, gt=0)
    """AdamW learning rate of the augmented model (official: 5e-5)."""
    warm_epochs: int = Field(default=1, ge=0)
    """First epochs, with the forgetting term alone."""
    remember: float = Field(default=0.6, ge=0, le=1)
    """w, weight of the remembering term; the forgetting term has 1 − w."""
    rank: int = Field(default=16, ge=1)
    """Rank of the adapters, at most half the model's width."""
    lora_dropout: float = Field(default=0.05, ge=0, lt=1)
    """Dropout before the adapters, if ``dropout`` is on."""
    raw_logits: bool = False
    """Form the forgetting teacher from raw logits, as the official code does."""


class E2URec(UnlearningMethod[E2URecConfig]):
    """Distillation from a forgetting and a remembering teacher into adapters."""

    name = "e2urec"
    Config = E2URecConfig

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        teacher = self.forgetting_teacher(recommender, request, progress)
        model = recommender.clone()
        blocks = anatomy(model).blocks
        names = [name for name in linear_names(blocks) if name.rpartition(".")[2] in QUERY_AND_VALUE]
        rank = max(1, min(config.rank, blocks[0].down.out_features // 2))
        seed = derive(request.seed, self.name, "adapters")
        adapters = LowRank(model.module, names, rank=rank, scale=2.0, seed=seed, dropout=config.lora_dropout)
        warm = config.warm_epochs * steps_per_epoch(request.train, config.batch_size)
        done = 0

        def step(batch: PairedBatch) -> Terms:
            nonlocal done
            done += 1
            output = forward(model, batch.forget)
            wanted = teacher[torch.from_numpy(batch.forget_rows)].to(model.device)
            forget = level_kl(wanted, level_log_probs(output, model.vocabulary), mask=output.mask)
            if done <= warm:
                backward(forget)
                return {"forget": forget.detach()}
            backward((1 - config.remember) * forget)
            retain = self.remembering_term(model, recommender, batch)
            backward(config.remember * retain)
            return {"forget": forget.detach(), "retain": retain.detach()}

        descend(model, request, config, step, progress, parameters=adapters.parameters)
        adapters.merge()
        return model

    def forgetting_teacher(self, original: Recommender, request: ForgetRequest, progress: Progress) -> Tensor:
        """[M, L, K] log q for every forget example, on the CPU."""
        config, forget = self.config, request.train.forget
        augmented = original.clone()

        def step(batch: PairedBatch) -> Terms:
            loss = token_nll(forward(augmented, batch.forget))
            backward(loss)
            return {"augment_nll": loss.detach()}

        changes = {"lr": config.augment_lr, "epochs": config.augment_epochs, "max_steps": None}
        descend(augmented, request, config.model_copy(update=changes), step, progress)
        base, tuned = (reference_log_probs(each, forget, raw=config.raw_logits) for each in (original, augmented))
        content = content_positions(original, forget)
        rise = (tuned - base).nan_to_num(0.0).clamp_min(0.0)
        progress.note("augment.mean_relu", float(rise[content].mean()) if bool(content.any()) else 0.0)
        progress.note("augment.forget_nll", mean_nll(augmented, forget))
        return forgetting_targets(base, tuned, config.alpha, content)

    def remembering_term(self, model: Recommender, original: Recommender, batch: PairedBatch) -> Tensor:
        """Scalar: CE(y) + KL(p0 ‖ p) on the retain examples, in nats."""
        with resting(original):
            teacher = level_log_probs(forward(original, batch.retain), original.vocabulary)
        output = forward(model, batch.retain)
        return token_nll(output) + level_kl(teacher, level_log_probs(output, model.vocabulary), mask=output.mask)


def forgetting_targets(base: Tensor, augmented: Tensor, alpha: float, content: Tensor) -> Tensor:
    """[R, L, K] log-softmax of z0 − α · ReLU(z_a − z0) at ``content`` positions [R, L], and log p0 elsewhere. Both are
    [R, L, K] logits or log-probabilities; -inf beyond a level's size."""
    rise = (augmented - base).nan_to_num(0.0).clamp_min(0.0)
    return (base - alpha * rise * content[..., None]).log_softmax(-1)
