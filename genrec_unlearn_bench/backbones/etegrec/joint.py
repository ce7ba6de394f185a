"""Alternating training of tokenizer and recommender (Liu et al. 2025, arXiv 2409.05546, sec. 3.4), and their alignment.

In every cycle the tokenizer trains for one epoch with the recommender frozen; then all items get their new codes, and
with them histories and labels; then the recommender trains with the tokenizer frozen. The best cycle by validation
NDCG@10 is restored, both networks together.

Two losses tie them (sec. 3.3). Sequence-item alignment (SIA, eq. 15) asks the tokenizer to give a user's encoded
history and the item chosen next the same distribution over codes; preference-semantic alignment (PSA, eq. 16) draws the
decoder's first state to the reconstruction of that item, and away from the others of the batch. SIA is a mean over
levels and items, added as in the official code, whose weights belong to it; PSA sums both directions.

Terms of the official loss without a gradient are left out. In tokenizer epochs the recommender runs without dropout,
and only for the rows that the alignment losses use. As officially, the recommender's schedule spans the steps of all
epochs, though it takes only its own: at cycle 2 its rate ends at half the peak."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.config import Schedule, TrainingConfig
from genrec_unlearn_bench.backbones.distributed import Processes
from genrec_unlearn_bench.backbones.early_stopping import EarlyStopping, validation_sample
from genrec_unlearn_bench.backbones.etegrec.backbone import AlignmentConfig, EtegrecConfig, JointConfig
from genrec_unlearn_bench.backbones.etegrec.recommender import DEVIATION, EtegrecRecommender
from genrec_unlearn_bench.backbones.etegrec.tokenizer import LiveTokenizer, TokenizerPass, tokenizer_pass
from genrec_unlearn_bench.backbones.recommender import Context, StepOutput
from genrec_unlearn_bench.backbones.training import bucketed_batches, check_training, cross_entropy
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress import Progress, launched
from genrec_unlearn_bench.seeding import derive, numpy_generator, torch_generator, torch_seeded
from genrec_unlearn_bench.sids.rqvae import RqVae, code_distances, linear
from genrec_unlearn_bench.sids.table import SidTable, colliding_groups

_STAGE = "joint"


def train_jointly(
    recommender: EtegrecRecommender,
    config: EtegrecConfig,
    data: TrainingData,
    sids: SidTable,
    *,
    seed: int,
    device: str,
    progress: Progress,
) -> tuple[EtegrecRecommender, TrainingConfig, str]:
    """Train the recommender and the tokenizer that ``sids`` carries in turns.

    Returns the recommender of the best cycle on that cycle's (frozen) codes, and how the second stage trains it. On a
    frozen table the recommender is trained alone, from scratch.

    Raises:
        DataFault: As ``train_recommender``.
        UsageError: There are several processes.
        BenchError: The tokenizer diverged or collapsed (``LiveTokenizer.table``).
    """
    if sids.frozen:
        return recommender, config.alone, "train"
    if launched() > 1:
        # The alignment losses are means over a batch's distinct items; means over shares of it would differ.
        raise UsageError(
            f"ETEGRec's alternating training runs in one process, not in {launched()}",
            where="accelerate launch",
            hint="start `bench run` without a launcher",
        )
    check_training(recommender, data.train, data.valid)
    joint, tokenizer = config.joint, LiveTokenizer.of(sids, device=device)
    training = JointTraining(recommender, tokenizer, config, data.train, seed, device, progress)
    held = validation_sample(data.valid, joint.valid_rows, numpy_generator(seed, "valid-sample"))
    best = EarlyStopping(recommender, held, joint.patience, _STAGE, progress, training.processes)
    kept, epoch = copy.deepcopy(tokenizer.model.state_dict()), 0
    with torch_seeded(derive(seed, "dropout", _STAGE), device):
        for epoch in progress.track(_STAGE, range(joint.epochs), total=joint.epochs):
            training.epoch(epoch, tokenizer=epoch % joint.cycle == 0, align=epoch >= joint.warm_epoch)
            if progress.diverged:
                break
            if (epoch + 1) % joint.cycle == 0:
                best.recommender = training.recommender
                stop = best.stop_after(epoch + 1)
                if best.stale == 0:
                    kept = copy.deepcopy(tokenizer.model.state_dict())
                over = not stop and epoch + 1 < joint.epochs and progress.late
                if over:
                    progress.end_early(_STAGE, f"after epoch {epoch + 1} of {joint.epochs}")
                if stop or over:
                    break
    training.freeze(tokenizer=True)
    best.restore(epoch + 1)
    tokenizer.model.load_state_dict(kept)
    table = tokenizer.table()
    progress.note("joint.colliding_items", _colliding(table))
    progress.note("joint.codes_used", [len(np.unique(level)) for level in table.quantised_codes.T])
    return training.recommender.with_sids(table), config.second, "second"


class _Learner:
    """Networks with their optimizer and learning-rate schedule."""

    def __init__(self, modules: list[nn.Module], rate: float, schedule: Schedule, config: JointConfig) -> None:
        self.modules, self._rate, self._schedule, self._clip, self._steps = modules, rate, schedule, config.clip, 0
        self._parameters = [parameter for module in modules for parameter in module.parameters()]
        self._optimiser = torch.optim.AdamW(self._parameters, lr=rate, weight_decay=config.weight_decay)

    def step(self, losses: Iterable[Tensor], accelerator: Any) -> None:
        """One step down the sum of ``losses``, which are differentiated one by one."""
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate * self._schedule.factor(self._steps)
        self._optimiser.zero_grad()
        for loss in losses:
            accelerator.backward(loss)
        accelerator.clip_grad_norm_(self._parameters, self._clip)
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
        width, dim = recommender.shape.d_model, tokenizer.model.config.dim
        self.heads = AlignmentHeads(width, dim, tokenizer.vectors.shape[1], seed=seed).to(recommender.device)
        self.recommender = recommender.with_sids(tokenizer.table())
        self.tokenizer, self.config, self.alignment = tokenizer, config.joint, config.alignment
        self.train, self.seed, self.progress, self.processes = train, seed, progress, Processes(device)
        joint, (schedule, own) = config.joint, config.joint.rates(len(train))
        self._recommender_learner = _Learner([recommender.module, self.heads], joint.lr_recommender, schedule, joint)
        self._tokenizer_learner = _Learner([tokenizer.model], joint.lr_tokenizer, own, joint)

    def epoch(self, number: int, *, tokenizer: bool, align: bool) -> None:
        """One of both learns while the other is frozen; ``align``: with the alignment losses.

        The tokenizer learns to reconstruct the epoch's targets, whose codes are then worked out anew; the recommender
        learns these codes.
        """
        self.freeze(tokenizer=not tokenizer)
        self.recommender.module.train(not tokenizer)
        learner = self._tokenizer_learner if tokenizer else self._recommender_learner
        lengths = self.train.history_lengths(self.recommender.history_limit)
        generator = numpy_generator(self.seed, _STAGE, "epoch", number)
        batches = list(bucketed_batches(lengths, self.config.batch_size, generator))[: self.config.epoch_steps]
        # Summed on their device, so that no step waits for them.
        sums: dict[str, Any] = {}

        def losses(rows: IntArray) -> Iterator[Tensor]:
            parts = np.array_split(rows, min(self.config.parts, len(rows)))
            for part in parts:
                loss, found = (self._tokenizer_losses if tokenizer else self._recommender_losses)(part, align=align)
                for name, value in found.items():
                    sums[name] = sums.get(name, 0) + value.detach() / len(parts)
                yield loss / len(parts)

        for rows in batches:
            learner.step(losses(rows), self.processes.accelerator)
        means = {name: float(total) / len(batches) for name, total in sums.items()}
        if tokenizer:
            before, now = self.recommender.sids, self.tokenizer.table()
            self.recommender = self.recommender.with_sids(now)
            moved = (before.quantised_codes != now.quantised_codes).any(axis=1).mean()
            means |= {"moved": float(moved), "colliding": _colliding(now)}
        self.progress.log(f"joint.{'tokenizer' if tokenizer else 'recommender'}", number, means)

    def freeze(self, *, tokenizer: bool) -> None:
        """Freeze the tokenizer, or else the recommender, and train the other."""
        for learner, learns in ((self._recommender_learner, tokenizer), (self._tokenizer_learner, not tokenizer)):
            for module in learner.modules:
                module.requires_grad_(learns)

    def _tokenizer_losses(self, rows: IntArray, *, align: bool) -> tuple[Tensor, dict[str, Tensor]]:
        first = first_occurrences(self.train.targets[rows])
        given = self._tokenised(rows[first])
        loss, parts = given.loss.total, {"vq": given.loss.total, "reconstruction": given.loss.reconstruction}
        if not align:
            return loss, parts
        with torch.no_grad():
            users, _ = self._read(rows[first])
        total, ties = aligned(self.alignment, self.heads, self.tokenizer.model, users, given)
        return loss + total, parts | ties

    def _recommender_losses(self, rows: IntArray, *, align: bool) -> tuple[Tensor, dict[str, Tensor]]:
        users, output = self._read(rows)
        loss = cross_entropy(output)
        if not align:
            return loss, {"code": loss}
        first = first_occurrences(self.train.targets[rows])
        with torch.no_grad():
            given = self._tokenised(rows[first])
        index = torch.from_numpy(first).to(self.recommender.device)
        chosen = (users[0][index], users[1][index])
        total, ties = aligned(self.alignment, self.heads, self.tokenizer.model, chosen, given)
        return loss + total, {"code": loss} | ties

    def _tokenised(self, rows: IntArray) -> TokenizerPass:
        """The targets of these examples through the tokenizer."""
        vectors = self.tokenizer.vectors
        return tokenizer_pass(
            self.tokenizer.model, vectors[torch.from_numpy(self.train.targets[rows]).to(vectors.device)]
        )

    def _read(self, rows: IntArray) -> tuple[tuple[Tensor, Tensor], StepOutput]:
        """The recommender's states of these users (``user_states``), and its teacher-forced output."""
        recommender = self.recommender
        histories = self.train.histories(recommender.history_limit, rows)
        with self.processes.accelerator.autocast():
            context = recommender.encode(histories)
            output = recommender.decode(context, recommender.codes_of(self.train.targets[rows]), hidden=True)
        return user_states(context, output), output


def _colliding(table: SidTable) -> float:
    """Share of items whose codes another item has too."""
    return sum(map(len, colliding_groups(table.quantised_codes))) / len(table)


def code_log_probs(residuals: Tensor, codebooks: Iterable[Tensor], *, compat_sign: bool) -> Tensor:
    """[n, Q, K] log-probability of every code at every level (eq. 6): softmax over -||r^l - c_k^l||^2.

    ``residuals`` [n, Q, D], Q ``codebooks`` [K, D]; ``compat_sign``: over +||r^l - c_k^l||^2, as in the official code.
    """
    levels = []
    for level, book in enumerate(codebooks):
        squared = code_distances(residuals[:, level], book)
        levels.append((squared if compat_sign else -squared).log_softmax(-1))
    return torch.stack(levels, dim=1)


def symmetric_kl(a: Tensor, b: Tensor) -> Tensor:
    """KL(a || b) + KL(b || a) of log-probabilities [n, Q, K], in nats: the mean over n and Q."""
    return ((a.exp() - b.exp()) * (a - b)).sum(-1).mean()


def info_nce(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """InfoNCE of n pairs [n, D] by cosine similarity, in nats: a among all b plus b among all a, each a mean."""
    similarity = functional.normalize(a, dim=-1) @ functional.normalize(b, dim=-1).T / temperature
    own = torch.arange(len(a), device=a.device)
    return functional.cross_entropy(similarity, own) + functional.cross_entropy(similarity.T, own)


def first_occurrences(targets: IntArray) -> IntArray:
    """First row of each distinct target of a batch [B], by ascending target: no item is its own negative."""
    return np.unique(targets, return_index=True)[1].astype(np.int64)


def user_states(context: Context, output: StepOutput) -> tuple[Tensor, Tensor]:
    """Final states of n users, [n, D] each: the mean of the encoder's over real positions, and the decoder's at the
    start token, which the output layer reads (``output``: one target each, decoded with its hidden states)."""
    states, weights = context.state.float(), context.mask[..., None].float()
    return (states * weights).sum(1) / weights.sum(1).clamp_min(1), output.hidden[-1][:, 0].float()


class AlignmentHeads(nn.Module):
    """Linear maps from the recommender's width to the codewords' and to the item vectors', never saved."""

    def __init__(self, width: int, latent: int, vector: int, *, seed: int) -> None:
        super().__init__()
        generator = torch_generator(seed, "etegrec", "heads")
        normal = partial(nn.init.normal_, std=DEVIATION)
        self.sequence = linear(width, latent, generator, normal)
        self.preference = linear(width, vector, generator, normal)


def aligned(
    config: AlignmentConfig, heads: AlignmentHeads, tokenizer: RqVae, users: tuple[Tensor, Tensor], items: TokenizerPass
) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum of both losses and each by name, for n users and their n distinct next items.

    Differentiable in both networks.
    """
    sequence = tokenizer.quantise(heads.sequence(users[0]))
    books = list(tokenizer.codebooks)
    sia = symmetric_kl(
        code_log_probs(sequence.residuals, books, compat_sign=config.compat_sign),
        code_log_probs(items.quantised.residuals, books, compat_sign=config.compat_sign),
    )
    psa = info_nce(heads.preference(users[1]), items.reconstruction, config.temperature)
    return config.sia * sia + config.psa * psa, {"sia": sia, "psa": psa}
