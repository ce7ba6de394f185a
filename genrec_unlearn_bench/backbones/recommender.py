"""The interface of all recommenders; methods and measurements are written against it alone.

It hides what differs between families: T5 labels are unshifted while causal models predict the next position; padding
is on the right for encoders and on the left for causal models.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, Histories, IntArray
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.errors import CapabilityMissing
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from genrec_unlearn_bench.decoding.session import DecoderSession

PAD_TOKEN = 0
"""Padding, and T5's decoder start."""
BOS = 1
EMPTY = 2
"""Stands for a history without any item, so that no input has zero length."""
SPECIALS = 3


class Capability(StrEnum):
    """Features of a backbone that a method may need."""

    HAS_CODEBOOKS = "has_codebooks"
    JOINT_TOKENIZER = "joint_tokenizer"
    TEXT_TASKS = "text_tasks"
    RAGGED_SIDS = "ragged_sids"


@dataclass(frozen=True)
class SidVocabulary:
    """Token = base + offset of the level + code (+ user tokens at the end)."""

    level_sizes: tuple[int, ...]
    user_tokens: int = 0
    base: int = SPECIALS
    """Tokens in front of the SIDs': the specials, or all tokens of a text model."""
    shared: bool = False
    """Whether a code is the same token on every level (trees: the digit piece 12 is one word wherever it stands)."""

    @property
    def size(self) -> int:
        """V."""
        return self.user_offset + self.user_tokens

    @property
    def offsets(self) -> tuple[int, ...]:
        """First token id of each level."""
        before = (0 if self.shared else sum(self.level_sizes[:level]) for level in range(len(self.level_sizes)))
        return tuple(self.base + size for size in before)

    @property
    def user_offset(self) -> int:
        """First user token."""
        return self.base + (max(self.level_sizes) if self.shared else sum(self.level_sizes))

    def tokens(self, table: SidTable) -> NDArray[np.int64]:
        """[N, L] token ids of every item; ``PAD_TOKEN`` behind the end of a shorter SID."""
        tokens = table.codes + np.asarray(self.offsets, dtype=np.int64)[None, :]
        return np.where(table.codes < 0, PAD_TOKEN, tokens)


@dataclass(frozen=True, eq=False)
class ServingRules:
    """Item filters of a served recommender, saved with it."""

    blocked: BoolArray | None = None
    """[N] items taken out of the trie (never recommended), or None."""
    ignored: BoolArray | None = None
    """[N] items dropped from every history before the model sees it, or None."""


@dataclass(frozen=True, eq=False)
class SoftSids:
    """Soft token assignments that stand in for the hard SIDs of some items in histories (TRACER, sec. 3.1).

    The collision ordinal keeps its hard token.
    """

    row_of_item: Tensor
    """[N] long, row of ``weights`` for a softened item, -1 for a hard one."""
    weights: tuple[Tensor, ...]
    """Q tensors [n, K_l], each row a distribution over the codes of level l."""


@dataclass(frozen=True, eq=False)
class Context:
    """B encoded histories."""

    state: Any
    """Encoder output [B, S, D] or a prompt's embeddings, as the family has it."""
    mask: Tensor
    """[B, S] bool, True at real input positions."""
    position_items: Tensor
    """[B, S] long, item id behind each input position, -1 elsewhere."""
    hidden: tuple[Tensor, ...] = ()
    """Encoder hidden states by layer, [B, S, D] each, where requested."""


@dataclass(frozen=True, eq=False)
class StepOutput:
    """Teacher-forced decoding of R targets."""

    logits: Tensor
    """[R, L, V]; ``logits[:, l]`` predicts the target's token at level l (no shift left to the caller)."""
    labels: Tensor
    """[R, L] long, vocabulary ids of the targets' tokens; any valid id where ``mask`` is False."""
    hidden: tuple[Tensor, ...] = ()
    """Decoder hidden states at the target positions, by layer, [R, L, D] each, where requested."""
    mask: Tensor | None = None
    """[R, L] bool, False behind the end of a target that is shorter than L; None where all are full."""

    def token_log_probs(self) -> Tensor:
        """[R, L] log-probability of each target token, softmax over the full vocabulary; 0 outside ``mask``."""
        values = self.logits.log_softmax(-1).gather(-1, self.labels[..., None]).squeeze(-1)
        return values if self.mask is None else values.masked_fill(~self.mask, 0.0)

    def mean(self, values: Tensor) -> Tensor:
        """Mean of values [R, l] over the real tokens of the first l levels; 0 where there are none."""
        if self.mask is None:
            return values.mean() if values.numel() else values.new_zeros(())
        real = self.mask[:, : values.shape[1]]
        return (values * real).sum() / real.sum().clamp_min(1)

    def rows(self, index: slice) -> StepOutput:
        mask = None if self.mask is None else self.mask[index]
        return StepOutput(self.logits[index], self.labels[index], tuple(layer[index] for layer in self.hidden), mask)


class Ranker(ABC):
    """Ranks items for histories: generative recommenders and reference rows."""

    name: ClassVar[str]

    @abstractmethod
    def recommend(self, histories: Histories, k: int, *, beam: int = 50) -> Ranking:
        """The k best items for each history; ``beam`` is ignored by rankers that score the whole catalogue."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything needed to load it again: JSON and safetensors only."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Self:
        """The inverse of ``save``; the store has checked every byte."""


class Recommender(Ranker):
    """A trained generative recommender: model, SID table, trie and serving rules as one thing."""

    sids: SidTable
    serving: ServingRules
    vocabulary: SidVocabulary
    history_limit: int
    """Most recent items that the model reads."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Its features; families add those that their table does not show."""
        shown = {
            Capability.HAS_CODEBOOKS: self.sids.codebooks is not None,
            Capability.RAGGED_SIDS: self.sids.tree is not None or bool((self.sids.codes < 0).any()),
        }
        return frozenset(capability for capability, there in shown.items() if there)

    @property
    @abstractmethod
    def module(self) -> nn.Module:
        """The network with all trainable parameters, token embeddings included."""

    @property
    def blocks(self) -> Sequence[nn.Module]:
        """Parts of ``module`` that sharded training may split: called through ``forward`` or read for decoding only."""
        return ()

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @abstractmethod
    def encode(self, histories: Histories, *, soft: SoftSids | None = None, hidden: bool = False) -> Context:
        """Encode B histories (longer ones are cut to ``history_limit``). Differentiable, also in ``soft``."""

    @abstractmethod
    def decode(
        self, context: Context, codes: Tensor, *, rows: Tensor | None = None, hidden: bool = False
    ) -> StepOutput:
        """Teacher-forced logits of R targets, given by their ``codes`` [R, L], on B encoded histories. Differentiable.

        ``rows`` [R] says which history each target belongs to; several may share one. None means R = B in order.
        """

    def align(self, items: IntArray, titles: Sequence[str], *, to: Literal["sid", "title"]) -> StepOutput:
        """Teacher-forced item-text samples: an item's SID from its title, or its title from its SID. Differentiable.

        ``mask`` of the n targets marks the real tokens. Raises CapabilityMissing where the recommender reads no text.
        """
        raise CapabilityMissing(
            f"the recommender {self.name!r} reads no texts, so there is no title to align with",
            hint="ask for Capability.TEXT_TASKS first",
        )

    @abstractmethod
    def server(self) -> Callable[[Histories], DecoderSession]:
        """Open sessions on many batches of histories, without gradients; weights are read once, in this call."""

    @abstractmethod
    def with_sids(self, table: SidTable) -> Self:
        """The same network on another version of the SID table (trie rebuilt). Level sizes must not grow."""

    @abstractmethod
    def with_serving(self, rules: ServingRules) -> Self:
        """The same network and table, served by other rules."""

    @abstractmethod
    def clone(self) -> Self:
        """An independent copy: parameters are copied, the immutable table is shared."""

    @abstractmethod
    def recommend(
        self, histories: Histories, k: int, *, beam: int = 50, exact: bool = False, sids: SidTable | None = None
    ) -> Ranking:
        """Constrained beam search over the trie; ``exact`` ranks the whole catalogue.

        ``sids`` decodes in another SID space (the original one, to measure leakage) than the recommender's own, in
        which histories are written.
        """

    @abstractmethod
    def codes_of(self, items: IntArray) -> Tensor:
        """[len(items), L] long codes of items on the model's device; -1 behind the end of a shorter SID."""

    def forward(
        self, histories: Histories, targets: IntArray, *, soft: SoftSids | None = None, hidden: bool = False
    ) -> StepOutput:
        """Encode and decode one target per history."""
        context = self.encode(histories, soft=soft, hidden=hidden)
        return self.decode(context, self.codes_of(targets), hidden=hidden)

    def target_log_probs(self, histories: Histories, targets: IntArray, *, batch_size: int = 256) -> Tensor:
        """[B, L] teacher-forced token log-probabilities, full-vocabulary softmax, without gradients."""
        import torch

        out = torch.empty(len(targets), self.sids.levels)
        with eval_mode(self.module), torch.no_grad():
            for rows in length_batches(histories.lengths, batch_size):
                step = self.forward(histories.rows(rows), targets[rows])
                out[torch.from_numpy(rows)] = step.token_log_probs().float().cpu()
        return out


def exposed(recommender: Recommender, original: SidTable) -> Recommender | None:
    """What someone who holds the weights can decode: the same network without serving rules, all items at their
    ``original`` IDs, in histories as in answers. The recommender itself where it has no rule and no ID was moved; None
    where the original codes have no tokens in it."""
    if recommender.sids.level_sizes != original.level_sizes or recommender.sids.codes.shape != original.codes.shape:
        return None
    ruled = recommender.serving.blocked is not None or recommender.serving.ignored is not None
    if not np.array_equal(recommender.sids.codes, original.codes):
        recommender, ruled = recommender.with_sids(original), True
    return recommender.with_serving(ServingRules()) if ruled else recommender


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; the mode from before afterwards."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


def length_batches(lengths: IntArray, batch_size: int) -> Iterator[IntArray]:
    """Row indices in batches of similar length, longest first, so that little is padded."""
    order = np.argsort(-lengths, kind="stable")
    for first in range(0, len(order), batch_size):
        yield np.asarray(order[first : first + batch_size], dtype=np.int64)
