"""Losses on the network in TRACER and its controls: retain, bounded forget and coherence loss.

L = L_R + λ1 L_F + λ2 L_Coh (eq. 10 without L_reg), all with a plus sign: L_F is the log-likelihood to be reduced (R4).
Each term is a mean over examples and tokens, or with ``reduction=sum`` the paper's sum (R12). The tokens of L_R and
L_Coh are all of a SID, those of L_F its content codes: four and three in TIGER, whose ordinal carries no information
about an item. Numbers R1 … refer to docs/methods.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Capability, Context, Recommender, SoftSids, StepOutput
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.descent import DescentConfig, Phase, backward, descend
from genrec_unlearn_bench.unlearning.likelihood import masked_mean, sequence_nll, token_nll
from genrec_unlearn_bench.unlearning.losses.retain_loss import RUINED
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import PairedBatch, positive_set
from genrec_unlearn_bench.unlearning.search import Search


class RetainLossConfig(DescentConfig):
    """The retain loss and the optimiser of the network. Defaults are the paper's unless a field says otherwise."""

    lr: float = Field(default=3e-5, gt=0)
    """AdamW learning rate of the network."""
    text_share: float = Field(default=0.25, ge=0, le=1)
    """For backbones that learned titles: concept items whose title and SID are unlearned in L_F in each step, and as
    many retain targets kept in L_R, as a share of the batch; 0 leaves item-text samples out. Not in the paper."""


class UnlearningLossConfig(RetainLossConfig):
    """All losses of the network."""

    search = Search(lambda_forget=(0.04, 0.12, 0.4, 1.0))

    lambda_forget: float = Field(default=0.4, ge=0)
    """λ1, weight of the forget loss."""
    lambda_coherence: float = Field(default=0.08, ge=0)
    """λ2, weight of the coherence loss; 0 is the ablation without it."""
    neighbours: int = Field(default=5, ge=1)
    """K, size of the positive set P(i)."""
    forget_bound: Literal["uniform", "none"] = "uniform"
    """Stop suppressing a token once its probability is below 1/K (uniform), or never (the paper's unbounded loss, which
    diverges: R3)."""
    reduction: Literal["mean", "sum"] = "mean"
    """Means over examples and tokens, or the paper's sums over D_r and D_f, each estimated without bias from a batch
    (R12), which leave item-text samples out. With sums λ1 weighs |D_f| / |D_r| times what it does with means."""
    clean_history: bool = False
    """Drop concept items from retain histories in L_R (R14); the paper keeps them."""


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

    def forget_loss(self, model: Recommender, count: int, *, bounded: bool) -> Tensor:
        """Scalar: mean log-likelihood per token of the next ``count`` concept items, with their original SIDs."""
        return self.log_likelihood(model.with_sids(self._original), self.draw(count), bounded=bounded)

    def log_likelihood(self, model: Recommender, items: IntArray, *, bounded: bool = False) -> Tensor:
        """Scalar: mean log-likelihood per token of the items' SIDs given titles and titles given SIDs, in nats.

        ``bounded`` stops suppressing a token below the uniform level: 1/K for a code, 1/V for a word.
        """
        titles = [self._titles[item] for item in items]
        total, count = [], []
        sides: tuple[Literal["sid", "title"], ...] = ("sid", "title")
        for side in sides:
            output = model.align(items, titles, to=side)
            values = output.token_log_probs()
            mask = torch.ones_like(output.labels, dtype=torch.bool) if output.mask is None else output.mask
            if bounded and side == "sid":
                values = torch.maximum(values, -values.new_tensor(self._original.level_sizes).log()[None])
            elif bounded:
                values = torch.maximum(values, values.new_full((1, 1), -math.log(output.logits.shape[-1])))
            if side == "sid":
                # The collision ordinal carries no information about an item.
                values, mask = values[:, : self._original.quantised_levels], mask[:, : self._original.quantised_levels]
            total.append((values * mask).sum())
            count.append(mask.sum())
        return torch.stack(total).sum() / torch.stack(count).sum().clamp_min(1)


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
        self._summed = False

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
        output = model.decode(context, model.codes_of(retain.targets))
        if self._summed:
            return sequence_nll(output).mean() * len(self.request.train.retain)
        return token_nll(output)

    def _texts_of(self, model: Recommender) -> ItemTexts | None:
        # The paper has no such samples, so they have no place in its sums.
        return self._texts if Capability.TEXT_TASKS in model.capabilities and not self._summed else None

    def _text_count(self, examples: int) -> int:
        return math.ceil(self.config.text_share * examples)


class Objective(RetainObjective):
    """L_R (eq. 7), L_F (eq. 8) and L_Coh (eq. 9) on one request, with the original SIDs as forget targets."""

    def __init__(self, config: UnlearningLossConfig, request: ForgetRequest, table: SidTable) -> None:
        super().__init__(config, request, table)
        self.config: UnlearningLossConfig = config
        self._summed = config.reduction == "sum"
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
        cleaned = retain.without_items(self.request.items) if self.config.clean_history else retain
        retained = self._interaction_loss(model, cleaned, soft)
        context = model.encode(forget.histories(model.history_limit), soft=soft)
        losses = self._forget_losses(model, context, forget, retained)
        texts, count = self._texts_of(model), self._text_count(len(forget))
        if texts is None or not texts.learned or not count:
            return losses
        suppressed = texts.forget_loss(model, count, bounded=self.config.forget_bound == "uniform")
        kept = texts.retain_loss(model, retain.targets[:count])
        # Each sample has the weight of an interaction.
        fraction = count / (count + len(forget))
        return replace(
            losses,
            retain=(1 - fraction) * losses.retain + fraction * kept,
            forget=(1 - fraction) * losses.forget + fraction * suppressed,
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
        if not self._summed:
            return Losses(retain, masked_mean(suppressed, content), -neighbours.mean(log_probs[count:]), original)
        share = len(self.request.train.forget) / count
        coherence = -log_probs[count:].sum() / self.config.neighbours
        return Losses(retain, share * (suppressed * content).sum(), share * coherence, original)


def train_with_discrete_sids(
    model: Recommender,
    objective: RetainObjective,
    *,
    epochs: int,
    progress: Progress,
    optimizer: torch.optim.Optimizer | None = None,
    steps_before: int = 0,
) -> None:
    """Train ``model`` in place with discrete SIDs in all histories.

    With the unbounded forget loss it stops early when the retain loss exceeds three times its first value: that loss
    destroys the model within tens of steps (R3). ``optimizer`` and ``steps_before`` are those of an earlier phase.
    """
    unbounded = isinstance(objective, Objective) and objective.config.forget_bound == "none"
    first: list[float] = []

    def step(batch: PairedBatch) -> Mapping[str, Tensor | float]:
        loss, values = objective.step(model, batch)
        backward(loss)
        return values

    def stop(terms: Mapping[str, float]) -> str:
        first.append(terms["retain"])
        return f"a retain loss {RUINED:g} times its first" if unbounded and first[-1] > RUINED * first[0] else ""

    phase = Phase("hard", epochs, optimizer, steps_before, stop=stop)
    descend(model, objective.request, objective.config, step, progress, phase=phase)
