"""ELM: erasure of language memory by low-rank self-distillation (Gandikota et al., arXiv 2410.02760, sec. 4).

Low-rank adapters in early layers are trained with three terms on the model's own outputs with the adapters off. Erase:
soft-label cross-entropy on the forget target's tokens with softmax(top-50[log p0 - η (log p+ - log p-)]), where p0
is conditioned on the history, p+ on an expert's and p- on a novice's. Retain: cross-entropy with the model's own best
token on retain examples. Consistency: cross-entropy with an item decoded before training from log p0 - 3 (log p+ -
log p-) without concept leaves. The student is conditioned on the plain history. Updates the adapters, which are merged
into the weights.

Adaptation to SIDs: contexts are histories, not prompts (``unlearning/guidance.py``); distributions are over a level's
codes; layers between an eighth and a quarter of each stack's depth (official: 4 to 7 of 32), the first of two, never
the last; rank min(64, d/2) at the official scale of 1/16 (at d = 128 almost a full update). Collision ordinals and ends
of trees are not erased. Deviations from the official code (fa330641): η is constant and small, because a ramp from 1 to
1000 over hundreds of tokens means nothing on three, and 1000 selects the one code whose ratio is noisiest; for the same
reason, codes below 5 % of the likeliest other than the forgotten one are excluded (``guided_targets``); the decoded
item is the best of a beam, not a sample (``guided_items``); the teacher's best token is one of the level's; dropout is
off by default. Contexts are drawn anew in each step, as official prompts are.

Interaction requests: a user's concept is the items of this user's forgotten pairs (with one pair, the expert's history
contains the target itself). Item-text samples of a model that learned titles are not unlearned: they have no history.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import pad

from genrec_unlearn_bench.backbones.recommender import SidVocabulary, StepOutput
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.seeding import derive, numpy_generator
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.descent import DescentConfig, PairedBatch, Search, backward, descend
from genrec_unlearn_bench.unlearning.guidance import Contexts, Contrast, guided_items
from genrec_unlearn_bench.unlearning.likelihood import forward, level_kl, level_log_probs, resting, token_nll
from genrec_unlearn_bench.unlearning.lora import LowRank, early_blocks, linear_names
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants


class ElmConfig(DescentConfig):
    """The official settings where they apply to SIDs; see the module's docstring."""

    search = Search(eta=(1.0, 3.0, 10.0, 30.0), erase_weight=(0.1, 0.3, 1.0))

    lr: float = Field(default=1e-3, gt=0)
    """AdamW learning rate of the adapters, whose product is scaled by 1/16 (official, for 7B: 5e-5)."""
    eta: float = Field(default=10.0, ge=0)
    """η, strength of the shift from expert to novice in the erase target (official: up to 1000)."""
    plausibility: float = Field(default=0.05, ge=0, lt=1)
    """Codes below this share of the original's likeliest are excluded as targets and in decoding; 0 is official."""
    top: int = Field(default=50, ge=1)
    """Number of codes in a target distribution."""
    temperature: float = Field(default=1.2, gt=0)
    """Temperature of the three distributions in the target, not of the student's."""
    replaced: int = Field(default=3, ge=1)
    """m, number of oldest items replaced in a context."""
    guidance: float = Field(default=3.0, ge=0)
    """Weight of expert against novice in decoding the consistency items."""
    erase_weight: float = Field(default=1.0, ge=0)
    """Weight of the erase term."""
    retain_weight: float = Field(default=1.0, ge=0)
    """Weight of the retain term."""
    consistency_weight: float = Field(default=1.0, ge=0)
    """Weight of the consistency term; 0 skips decoding."""
    soft_retain: bool = False
    """Distil the whole distribution on retain examples (KL) instead of the best token."""
    scope: Literal["early", "all"] = "early"
    """Blocks that get adapters."""
    rank: int = Field(default=64, ge=1)
    """Rank of the adapters, at most half the model's width (official: 256)."""
    lora_dropout: float = Field(default=0.05, ge=0, lt=1)
    """Dropout before the adapters, if ``dropout`` is on."""


class Elm(UnlearningMethod[ElmConfig]):
    """ELM (arXiv 2410.02760): distil the model towards a novice's predictions, with low-rank adapters."""

    name = "elm"
    Config = ElmConfig
    variants: ClassVar[Variants] = {
        "elm-official-eta": {"eta": 1000.0, "plausibility": 0.0},
        "elm-soft-retain": {"soft_retain": True},
        "elm-all-layers": {"scope": "all"},
    }

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config, limit = self.config, recommender.history_limit
        contexts = Contexts(request, recommender.sids, count=config.replaced)
        model = recommender.clone()
        wanted = request.train.forget.targets
        if config.consistency_weight:
            drawn = numpy_generator(request.seed, "elm", "consistency")
            histories = request.train.forget.histories(limit)
            wanted = guided_items(model, histories, contexts, drawn, weight=config.guidance, floor=config.plausibility)
            progress.note("consistency_items", len(set(wanted.tolist())))
        blocks = early_blocks(model) if config.scope == "early" else anatomy(model).blocks
        rank = max(1, min(config.rank, blocks[0].down.out_features // 2))
        names, seed = linear_names(blocks), derive(request.seed, "elm", "adapters")
        adapters = LowRank(model.module, names, rank=rank, scale=1 / 16, seed=seed, dropout=config.lora_dropout)
        progress.note("adapter_rank", rank)
        drawn = numpy_generator(request.seed, "elm", "contexts")

        def step(batch: PairedBatch) -> dict[str, Tensor]:
            contrast = contexts.draw(batch.forget.histories(limit), drawn)
            with resting(model), adapters.off():
                targets = self.targets(model, contrast, batch.forget)
                original = forward(model, batch.retain)
            retain = self.retain(model, original, forward(model, batch.retain))
            backward(config.retain_weight * retain)
            codes = [model.codes_of(batch.forget.targets), model.codes_of(wanted[batch.forget_rows])]
            codes = codes if config.consistency_weight else codes[:1]
            rows = torch.arange(len(batch.forget), device=model.device).repeat(len(codes))
            output = model.decode(model.encode(contrast.base), torch.cat(codes), rows=rows)
            erase = soft_cross_entropy(output.rows(slice(0, len(batch.forget))), targets, model.vocabulary)
            terms, loss = {"retain": retain, "erase": erase}, config.erase_weight * erase
            if config.consistency_weight:
                terms["consistency"] = token_nll(output.rows(slice(len(batch.forget), None)))
                loss = loss + config.consistency_weight * terms["consistency"]
            backward(loss)
            return terms

        descend(model, request, config, step, progress, parameters=adapters.parameters)
        adapters.merge()
        return model

    def targets(self, model: Recommender, contrast: Contrast, forget: Examples) -> Tensor:
        """[B, L, K] targets of the erase term, from one pass over three contexts; 0 at non-content positions."""
        config, codes = self.config, model.codes_of(forget.targets)
        output = model.decode(model.encode(contrast.stacked()), codes.repeat(3, 1))
        base, expert, novice = tempered(level_log_probs(output, model.vocabulary), config.temperature).chunk(3)
        guided = guided_targets(base, expert, novice, codes, eta=config.eta, top=config.top, floor=config.plausibility)
        content = torch.from_numpy(model.sids.quantised_codes[forget.targets] >= 0).to(guided)
        return guided * pad(content, (0, guided.shape[1] - content.shape[1]))[..., None]

    def retain(self, model: Recommender, original: StepOutput, output: StepOutput) -> Tensor:
        """Scalar: cross-entropy with the original's best codes, or KL(original ‖ student)."""
        teacher = level_log_probs(original, model.vocabulary)
        if self.config.soft_retain:
            return level_kl(teacher, level_log_probs(output, model.vocabulary), mask=output.mask)
        offsets = torch.tensor(model.vocabulary.offsets, device=teacher.device)
        return token_nll(replace(output, labels=teacher.argmax(-1) + offsets))


def tempered(log_probs: Tensor, temperature: float) -> Tensor:
    """[..., K] log-probabilities at another temperature, in float64 as ELM computes its targets."""
    return (log_probs.double() / temperature).log_softmax(-1)


def guided_targets(
    base: Tensor, expert: Tensor, novice: Tensor, forgotten: Tensor, *, eta: float, top: int, floor: float = 0.0
) -> Tensor:
    """[..., K] softmax over the ``top`` largest of log p0 - eta (log p+ - log p-).

    Args:
        base, expert, novice: [..., K] log-probabilities; -inf where ``base`` has no code.
        forgotten: [...] long, the forget target's code (negative if it has none).
        floor: Codes less likely under ``base`` than this share of the likeliest code other than ``forgotten`` are
            excluded; 0 excludes none. ``forgotten`` does not set the threshold: a model that is sure of it would leave
            no other code, and the target would be the code to forget.
    """
    legal = base > -torch.inf
    contrast = expert.masked_fill(~legal, 0.0) - novice.masked_fill(~legal, 0.0)
    scores = base - eta * contrast
    if floor:
        others = base.scatter(-1, forgotten.clamp_min(0)[..., None], -torch.inf)
        likely = base >= others.amax(-1, keepdim=True) + math.log(floor)
        scores = scores.masked_fill(~likely, -torch.inf)
    best = scores.topk(min(top, scores.shape[-1]), dim=-1)
    kept = torch.full_like(scores, -torch.inf).scatter(-1, best.indices, best.values)
    return kept.softmax(-1)


def soft_cross_entropy(output: StepOutput, targets: Tensor, vocabulary: SidVocabulary) -> Tensor:
    """Scalar: cross-entropy with ``targets`` [R, L, K] over each level's codes, mean over positions with a target.

    The model's distribution is over the full vocabulary, so mass outside the level is penalised.
    """
    values = []
    for level, (first, size) in enumerate(zip(vocabulary.offsets, vocabulary.level_sizes, strict=True)):
        logits = output.logits[:, level].float()
        gap = logits.logsumexp(-1, keepdim=True) - logits[:, first : first + size]
        values.append((targets[:, level, :size].to(gap.dtype) * gap).sum(-1))
    return torch.stack(values).sum() / (targets.sum(-1) > 0).sum().clamp_min(1)
