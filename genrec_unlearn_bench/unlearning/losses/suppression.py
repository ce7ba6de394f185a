"""Losses on the network in TRACER and its controls: retain, bounded forget and coherence loss.

L = L_R + λ1 L_F + λ2 L_Coh (eq. 10 without L_reg), each a mean over target tokens and examples (R12), all with a plus
sign: L_F is the log-likelihood to be reduced (R4). Numbers R1 … refer to docs/tracer.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Capability, Context, Recommender, SoftSids, StepOutput
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.likelihood import masked_mean, token_nll
from genrec_unlearn_bench.unlearning.losses.positives import positive_set
from genrec_unlearn_bench.unlearning.method import MethodConfig
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import PairedBatch, paired_batches


class RetainLossConfig(MethodConfig):
    """The retain loss and the optimiser of the network. Defaults are the paper's unless a field says otherwise."""

    lr: float = Field(default=3e-5, gt=0, json_schema_extra={"search": [3e-5, 1e-4, 3e-4, 1e-3]})
    """AdamW learning rate of the network."""
    batch_size: int = Field(default=128, ge=1)
    """Forget examples per step, paired with as many retain examples."""
    text_share: float = Field(default=0.25, ge=0, le=1)
    """For backbones that learned titles: concept items whose title and SID are unlearned in L_F in each step, and as
    many retain targets kept in L_R, as a share of the batch; 0 leaves item-text samples out. Not in the paper."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm of the network."""
    dropout: bool = False
    """Train with dropout; off by default, so that the student starts exactly at the original model."""


class UnlearningLossConfig(RetainLossConfig):
    """All losses of the network."""

    lambda_forget: float = Field(default=0.4, ge=0, json_schema_extra={"search": [0.2, 0.4, 1.0]})
    """λ1, weight of the forget loss."""
    lambda_coherence: float = Field(default=0.08, ge=0)
    """λ2, weight of the coherence loss; 0 is the ablation without it."""
    neighbours: int = Field(default=5, ge=1)
    """K, size of the positive set P(i)."""
    forget_bound: Literal["uniform", "none"] = "uniform"
    """Stop suppressing a token once its probability is below 1/K (uniform), or never (the paper's unbounded loss, which
    diverges: R3)."""
    clean_history: bool = False
    """Drop concept items from retain histories in L_R (R14); the paper keeps them."""


class TextLosses(NamedTuple):
    """Mean NLL per token of retain targets' titles and SIDs, and mean log-likelihood of concept items' (original SIDs,
    bounded as L_F is)."""

    retain: Tensor
    forget: Tensor


class ItemTexts:
    """Item-text samples (title -> SID, SID -> title) of concept items and retain targets, with the original SIDs.

    A backbone with ``TEXT_TASKS`` (MiniOneRec) learned a concept from titles as well; training on interactions alone
    would leave that untouched.
    """

    def __init__(self, request: ForgetRequest, table: SidTable) -> None:
        self._original = table
        self._titles: Sequence[str] = request.catalogue.titles
        self._titled = np.asarray([bool(title) for title in self._titles], dtype=np.bool_)
        concept = np.flatnonzero(request.items & self._titled).astype(np.int64)
        self._concept = numpy_generator(request.seed, "item-texts").permutation(concept)
        self._next = 0

    def draw(self, count: int) -> IntArray:
        """The next ``count`` concept items of a fixed random cycle, each at most once per draw."""
        size = len(self._concept)
        places = (self._next + np.arange(min(count, size))) % max(size, 1)
        self._next = int((self._next + count) % max(size, 1))
        return np.asarray(self._concept[places], dtype=np.int64)

    def losses(self, model: Recommender, retain: IntArray, count: int, *, bounded: bool) -> TextLosses | None:
        """Losses of ``count`` concept items and of the items ``retain`` that have titles; None if no concept item has.

        Args:
            bounded: Stop suppressing a token below the uniform level: 1/K for a code, 1/V for a word.
        """
        concept = self.draw(count)
        if not len(concept):
            return None
        forget = self.log_likelihood(model.with_sids(self._original), concept, bounded=bounded)
        return TextLosses(self.retain_loss(model, retain), forget)

    def retain_loss(self, model: Recommender, retain: IntArray) -> Tensor:
        """Scalar: mean NLL per token of the items that have titles, in nats; 0 if none has."""
        titled = retain[self._titled[retain]]
        if not len(titled):
            return torch.zeros((), device=model.device)
        return -self.log_likelihood(model, titled)

    @property
    def learned(self) -> bool:
        """Whether any concept item has a title to unlearn."""
        return len(self._concept) > 0

    def log_likelihood(self, model: Recommender, items: IntArray, *, bounded: bool = False) -> Tensor:
        """Scalar: mean log-likelihood per token of the items' SIDs given titles and titles given SIDs, in nats."""
        titles = [self._titles[item] for item in items]
        total, count = [], []
        for side in ("sid", "title"):
            output = model.align(items, titles, to="sid" if side == "sid" else "title")
            values = output.token_log_probs()
            mask = torch.ones_like(output.labels, dtype=torch.bool) if output.mask is None else output.mask
            if bounded:
                values = torch.maximum(values, self._uniform(side, values, output.logits.shape[-1]))
            if side == "sid":
                # The collision ordinal carries no information about an item.
                values, mask = values[:, : self._original.quantised_levels], mask[:, : self._original.quantised_levels]
            total.append((values * mask).sum())
            count.append(mask.sum())
        return torch.stack(total).sum() / torch.stack(count).sum().clamp_min(1)

    def _uniform(self, side: str, values: Tensor, vocabulary: int) -> Tensor:
        """Log-probability of a uniform guess at each token, broadcast over targets."""
        if side == "title":
            return values.new_full((1, 1), -math.log(vocabulary))
        sizes = torch.tensor(self._original.level_sizes, dtype=values.dtype, device=values.device)
        return -sizes.log()[None]


@dataclass(frozen=True, eq=False)
class Losses:
    """Loss terms of one step.

    Attributes:
        forget_output: Output at the original forget targets, for TRACER's φ.
        text_fraction: Share of item-text samples in the forget and retain terms.
    """

    retain: Tensor
    forget: Tensor
    coherence: Tensor
    forget_output: StepOutput
    text_fraction: float = 0.0

    def total(self, config: UnlearningLossConfig) -> Tensor:
        """L_R + λ1 L_F + λ2 L_Coh."""
        return self.retain + config.lambda_forget * self.forget + config.lambda_coherence * self.coherence

    def log_values(self) -> dict[str, float]:
        terms = {"retain": self.retain, "forget": self.forget, "coherence": self.coherence}
        values = {name: float(term.detach()) for name, term in terms.items()}
        return values | {"text_fraction": self.text_fraction} if self.text_fraction else values


class RetainObjective:
    """L_R (eq. 7) on one request: the mean NLL per token of retain targets, in nats."""

    def __init__(self, config: RetainLossConfig, request: ForgetRequest, table: SidTable) -> None:
        self.config = config
        self.request = request
        self._texts = ItemTexts(request, table) if config.text_share and request.items.any() else None

    def step(self, model: Recommender, batch: PairedBatch) -> tuple[Tensor, dict[str, float]]:
        """The loss of one batch, and its terms for the log."""
        loss = self.retain_loss(model, batch.retain)
        return loss, {"retain": float(loss.detach())}

    def retain_loss(self, model: Recommender, retain: Examples) -> Tensor:
        """L_R with item-text samples, as in ``Objective.losses``; reads no forget example."""
        loss = self._interaction_loss(model, retain)
        texts, count = self._texts_of(model), self._text_count(len(retain))
        if texts is None or not texts.learned:
            return loss
        fraction = count / (count + len(retain))
        return (1 - fraction) * loss + fraction * texts.retain_loss(model, retain.targets[:count])

    def _interaction_loss(self, model: Recommender, retain: Examples, soft: SoftSids | None = None) -> Tensor:
        context = model.encode(retain.histories(model.history_limit), soft=soft)
        return token_nll(model.decode(context, model.codes_of(retain.targets)))

    def _texts_of(self, model: Recommender) -> ItemTexts | None:
        return self._texts if Capability.TEXT_TASKS in model.capabilities else None

    def _text_count(self, examples: int) -> int:
        return math.ceil(self.config.text_share * examples)


class Objective(RetainObjective):
    """L_R (eq. 7), L_F (eq. 8) and L_Coh (eq. 9) on one request, with the original SIDs as forget targets."""

    def __init__(self, config: UnlearningLossConfig, request: ForgetRequest, table: SidTable) -> None:
        super().__init__(config, request, table)
        self.config: UnlearningLossConfig = config
        self.original = table
        targets = np.unique(request.train.forget.targets)
        self._row_of_target = np.full(len(table), -1, dtype=np.int64)
        self._row_of_target[targets] = np.arange(len(targets))
        self._positives = positive_set(request.features, table, targets, request.items, config.neighbours)
        self._uniform = -torch.tensor(table.quantised_sizes, dtype=torch.float32).log()
        # A tree's ordinals and end tokens carry no information about an item: they are not suppressed.
        self._content = torch.from_numpy(table.quantised_codes >= 0)

    def step(self, model: Recommender, batch: PairedBatch) -> tuple[Tensor, dict[str, float]]:
        losses = self.losses(model, batch.forget, batch.retain)
        return losses.total(self.config), losses.log_values()

    def losses(self, model: Recommender, forget: Examples, retain: Examples, soft: SoftSids | None = None) -> Losses:
        """All terms of one paired batch; each history is encoded once, whatever the number of its targets."""
        kept = retain.without_items(self.request.items) if self.config.clean_history else retain
        retained = self._interaction_loss(model, kept, soft)
        context = model.encode(forget.histories(model.history_limit), soft=soft)
        losses = self._forget_losses(model, context, forget, retained)
        texts, count = self._texts_of(model), self._text_count(len(forget))
        if texts is None:
            return losses
        bounded = self.config.forget_bound == "uniform"
        found = texts.losses(model, retain.targets[:count], count, bounded=bounded)
        if found is None:
            return losses
        # Each sample has the weight of an interaction.
        fraction = count / (count + len(forget))
        return replace(
            losses,
            retain=(1 - fraction) * losses.retain + fraction * found.retain,
            forget=(1 - fraction) * losses.forget + fraction * found.forget,
            text_fraction=fraction,
        )

    def _forget_losses(self, model: Recommender, context: Context, forget: Examples, retain: Tensor) -> Losses:
        device = context.mask.device
        count = len(forget)
        old = torch.from_numpy(self.original.codes[forget.targets]).to(device)
        positives = self._positives[self._row_of_target[forget.targets]]
        row, place = (positives >= 0).nonzero()
        wanted = model.codes_of(positives[row, place])
        rows = torch.cat([torch.arange(count), torch.from_numpy(row)]).to(device)
        output = model.decode(context, torch.cat([old, wanted]), rows=rows)
        log_probs = output.token_log_probs()
        suppressed = log_probs[:count, : self.original.quantised_levels]
        if self.config.forget_bound == "uniform":
            suppressed = torch.maximum(suppressed, self._uniform.to(device))
        original, neighbours = output.rows(slice(0, count)), output.rows(slice(count, None))
        content = self._content[torch.from_numpy(forget.targets)].to(device)
        return Losses(retain, masked_mean(suppressed, content), -neighbours.mean(log_probs[count:]), original)


def train_with_discrete_sids(
    model: Recommender,
    objective: RetainObjective,
    *,
    epochs: int,
    progress: Progress,
    stage: str,
    optimizer: torch.optim.Optimizer | None = None,
) -> None:
    """Train ``model`` in place with discrete SIDs in all histories.

    With the unbounded forget loss it stops early and notes ``<stage>.stopped_at`` when the retain loss exceeds three
    times its first value: that loss destroys the model within tens of steps (R3).
    """
    config, request = objective.config, objective.request
    model.module.train(config.dropout)
    optimizer = optimizer or torch.optim.AdamW(model.module.parameters(), lr=config.lr, weight_decay=0.0)
    unbounded = isinstance(objective, Objective) and objective.config.forget_bound == "none"
    first, step = math.inf, 0
    for epoch in progress.track(stage, range(epochs), total=epochs):
        generator = numpy_generator(request.seed, stage, epoch)
        for batch in paired_batches(request.train, config.batch_size, generator):
            loss, values = objective.step(model, batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.module.parameters(), config.clip)
            optimizer.step()
            progress.log(stage, step, values)
            first = values["retain"] if step == 0 else first
            step += 1
            ruined = unbounded and values["retain"] > 3 * first
            if progress.diverged or ruined:
                progress.note(f"{stage}.stopped_at", step)
                return
