"""Alternating training of tokenizer and recommender (Liu et al. 2025, sec. 3.4), the first of ETEGRec's two stages.

In every cycle the tokenizer trains for one epoch with the recommender frozen; then all items get their new codes, and
with them histories and labels; then the recommender trains with the tokenizer frozen. The best cycle by validation
NDCG@10 is restored, tokenizer and recommender together.

Two terms of the official loss are left out because they have no gradient: the token cross-entropy in tokenizer epochs
(weight 0, and its labels are integers) and the reconstruction in recommender epochs (weight 0). In tokenizer epochs the
recommender runs without dropout, and only for the rows that the alignment losses use. As in the official code, the
recommender's schedule spans the steps of all epochs, though it takes only its own: at cycle 2 its rate ends at half the
peak.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.batches import bucketed_batches
from genrec_unlearn_bench.backbones.config import Schedule
from genrec_unlearn_bench.backbones.early_stopping import EarlyStopping
from genrec_unlearn_bench.backbones.etegrec.alignment import AlignmentHeads, UserState, aligned, first_occurrences
from genrec_unlearn_bench.backbones.etegrec.config import EtegrecConfig, JointConfig
from genrec_unlearn_bench.backbones.etegrec.recommender import EtegrecRecommender
from genrec_unlearn_bench.backbones.etegrec.tokenizer import LiveTokenizer, tokenizer_pass
from genrec_unlearn_bench.backbones.recommender import StepOutput
from genrec_unlearn_bench.backbones.training import check_training, cross_entropy
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.launch import launched
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accelerate import Accelerator

__all__ = ["JointTraining", "train_jointly"]

_STAGE = "joint"


def train_jointly(
    recommender: EtegrecRecommender,
    tokenizer: LiveTokenizer,
    config: EtegrecConfig,
    train: Examples,
    valid: Examples,
    *,
    seed: int,
    device: str,
    progress: Progress,
) -> EtegrecRecommender:
    """Train both in turns; returns the recommender of the best cycle on that cycle's (frozen) codes.

    Network and tokenizer are trained in place.

    Raises:
        DataFault: As ``train_recommender``.
        UsageError: There are several processes.
        BenchError: The tokenizer diverged or collapsed (``LiveTokenizer.table``).
    """
    if launched() > 1:
        # The alignment losses are means over a batch's distinct items; means over shares of it would differ.
        raise UsageError(
            f"ETEGRec's alternating training runs in one process, not in {launched()}",
            where="accelerate launch",
            hint="start `bench run` without a launcher",
        )
    check_training(recommender, train, valid)
    joint = config.joint
    training = JointTraining(recommender, tokenizer, config, train, seed, device, progress)
    sample = np.sort(numpy_generator(seed, "valid-sample").permutation(len(valid))[: joint.valid_rows])
    best = EarlyStopping(recommender, valid.subset(sample), joint.patience, _STAGE, progress)
    kept, epoch = training.tokenizer_state(), 0
    on_cuda = torch.device(device).type == "cuda"
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if on_cuda else []):
        torch.manual_seed(derive(seed, "dropout", _STAGE))
        for epoch in progress.track(_STAGE, range(joint.epochs), total=joint.epochs):
            align = epoch >= joint.warm_epoch
            if epoch % joint.cycle == 0:
                training.tokenizer_epoch(epoch, align=align)
            else:
                training.recommender_epoch(epoch, align=align)
            if progress.diverged:
                break
            if (epoch + 1) % joint.cycle == 0:
                score, best.recommender = best.score, training.recommender
                stop = best.stop_after(epoch + 1)
                if best.score > score:
                    kept = training.tokenizer_state()
                if stop:
                    break
    training.freeze_tokenizer()
    best.restore(epoch + 1)
    tokenizer.model.load_state_dict(kept)
    return training.retokenise(note=True)


class _Learner:
    """Networks with their optimizer and learning-rate schedule."""

    def __init__(
        self, modules: list[nn.Module], rate: float, schedule: Schedule, config: JointConfig, accelerator: Accelerator
    ) -> None:
        self.modules, self._rate, self._schedule = modules, rate, schedule
        self._parameters = [parameter for module in modules for parameter in module.parameters()]
        self._optimiser = torch.optim.AdamW(self._parameters, lr=rate, weight_decay=config.weight_decay)
        self._clip, self._accelerator, self._steps = config.clip, accelerator, 0

    def require_grad(self, wanted: bool) -> None:
        for module in self.modules:
            module.requires_grad_(wanted)

    def step(self, loss: Tensor) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate * self._schedule.factor(self._steps)
        self._optimiser.zero_grad()
        self._accelerator.backward(loss)
        self._accelerator.clip_grad_norm_(self._parameters, self._clip)
        self._optimiser.step()
        self._steps += 1


class JointTraining:
    """Both networks, their optimisers, and the recommender on the tokenizer's present codes."""

    def __init__(
        self,
        recommender: EtegrecRecommender,
        tokenizer: LiveTokenizer,
        config: EtegrecConfig,
        train: Examples,
        seed: int,
        device: str,
        progress: Progress,
    ) -> None:
        from accelerate import Accelerator

        on_cuda = torch.device(device).type == "cuda"
        width, dim = recommender.shape.d_model, tokenizer.model.config.dim
        self.heads = AlignmentHeads(width, dim, tokenizer.vectors.shape[1], seed=seed).to(recommender.device)
        self.recommender = recommender.with_sids(tokenizer.table())
        self.tokenizer, self.config, self.alignment = tokenizer, config.joint, config.alignment
        self.train, self.seed, self.progress = train, seed, progress
        self.accelerator: Accelerator = Accelerator(cpu=not on_cuda, mixed_precision="bf16" if on_cuda else "no")
        joint = config.joint
        total = joint.epochs * math.ceil(len(train) / joint.batch_size)
        warmup = min(joint.warmup_steps, max(total // 10, 1))
        schedule = Schedule("cosine", warmup, total)
        own = Schedule("cosine", warmup // joint.cycle, total // joint.cycle)
        networks = [recommender.module, self.heads]
        self._recommender_learner = _Learner(networks, joint.lr_recommender, schedule, joint, self.accelerator)
        self._tokenizer_learner = _Learner([tokenizer.model], joint.lr_tokenizer, own, joint, self.accelerator)

    def tokenizer_epoch(self, number: int, *, align: bool) -> None:
        """The tokenizer learns to reconstruct the epoch's targets and, aligned, to fit the frozen recommender."""
        self._recommender_learner.require_grad(False)
        self._tokenizer_learner.require_grad(True)
        self.recommender.module.eval()
        losses = _Means()
        for rows in self._batches(number):
            items = self.train.targets[rows]
            first = first_occurrences(items)
            given = tokenizer_pass(self.tokenizer.model, self._vectors(items[first]))
            loss, parts = given.loss.total, {"vq": given.loss.total, "reconstruction": given.loss.reconstruction}
            if align:
                with torch.no_grad():
                    users, _ = self._read(rows[first])
                total, ties = aligned(self.alignment, self.heads, self.tokenizer.model, users, given)
                loss, parts = loss + total, parts | ties
            self._tokenizer_learner.step(loss)
            losses.add(parts)
        before = self.recommender.sids
        self.retokenise()
        moved = (before.quantised_codes != self.recommender.sids.quantised_codes).any(axis=1).mean()
        health = {"moved": float(moved), "colliding": _colliding(self.recommender.sids)}
        self.progress.log("joint.tokenizer", number, losses.values() | health)

    def recommender_epoch(self, number: int, *, align: bool) -> None:
        """The recommender learns the codes of the epoch's targets and, aligned, to fit the frozen tokenizer."""
        self.freeze_tokenizer()
        self.recommender.module.train()
        losses = _Means()
        for rows in self._batches(number):
            users, output = self._read(rows)
            loss = code = cross_entropy(output)
            parts = {"code": code}
            if align:
                items = self.train.targets[rows]
                first = first_occurrences(items)
                with torch.no_grad():
                    given = tokenizer_pass(self.tokenizer.model, self._vectors(items[first]))
                chosen = users.rows(torch.from_numpy(first).to(users.sequence.device))
                total, ties = aligned(self.alignment, self.heads, self.tokenizer.model, chosen, given)
                loss, parts = loss + total, parts | ties
            self._recommender_learner.step(loss)
            losses.add(parts)
        self.progress.log("joint.recommender", number, losses.values())

    def retokenise(self, *, note: bool = False) -> EtegrecRecommender:
        """Give the recommender the tokenizer's present codes."""
        table = self.tokenizer.table()
        self.recommender = self.recommender.with_sids(table)
        if note:
            self.progress.note("joint.colliding_items", _colliding(table))
            self.progress.note("joint.codes_used", [len(np.unique(level)) for level in table.quantised_codes.T])
        return self.recommender

    def tokenizer_state(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.tokenizer.model.state_dict().items()}

    def freeze_tokenizer(self) -> None:
        """Train the recommender alone, as in the second stage."""
        self._recommender_learner.require_grad(True)
        self._tokenizer_learner.require_grad(False)

    def _batches(self, number: int) -> Iterator[IntArray]:
        lengths = self.train.history_lengths(self.recommender.history_limit)
        return bucketed_batches(lengths, self.config.batch_size, numpy_generator(self.seed, _STAGE, "epoch", number))

    def _vectors(self, items: IntArray) -> Tensor:
        return self.tokenizer.vectors[torch.from_numpy(items).to(self.tokenizer.vectors.device)]

    def _read(self, rows: IntArray) -> tuple[UserState, StepOutput]:
        """The recommender's states of these users, and its teacher-forced output."""
        recommender = self.recommender
        histories = self.train.histories(recommender.history_limit, rows)
        with self.accelerator.autocast():
            context = recommender.encode(histories)
            output = recommender.decode(context, recommender.codes_of(self.train.targets[rows]), hidden=True)
        return UserState.of(context, output), output


class _Means:
    """Means of losses over an epoch, summed on their device so that no step waits for them."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._count = 0

    def add(self, losses: dict[str, Tensor]) -> None:
        for name, loss in losses.items():
            value = loss.detach()
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._count += 1

    def values(self) -> dict[str, float]:
        return {name: float(total) / self._count for name, total in self._sums.items()}


def _colliding(table: SidTable) -> float:
    """Share of items whose codes another item has too."""
    _, place, sizes = np.unique(table.quantised_codes, axis=0, return_inverse=True, return_counts=True)
    return float((sizes[place.ravel()] > 1).mean())
