"""Training SASRec: Adam over whole sequences, a loss at every position, the best epoch on validation kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from genrec_unlearn_bench.backbones.batches import bucketed_batches
from genrec_unlearn_bench.backbones.sasrec.catalogue_softmax import softmax_loss
from genrec_unlearn_bench.backbones.sasrec.config import SasRecConfig
from genrec_unlearn_bench.backbones.sasrec.network import SasRecNetwork
from genrec_unlearn_bench.backbones.sasrec.sequences import TrainSequences
from genrec_unlearn_bench.data.examples import PAD
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator, torch_generator

__all__ = ["binary_loss", "sampled_negatives", "train_network"]

_CLIP = 5.0
_REDRAWS = 20
_BETAS = (0.9, 0.98)
"""Adam's, as in the paper's own code."""


def binary_loss(states: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """Mean of -log s(h·v+) - log(1 - s(h·v-)) over P positions; all [P, D] (the paper's eq. 6)."""
    right, wrong = (states * positives).sum(-1), (states * negatives).sum(-1)
    return (functional.softplus(-right) + functional.softplus(wrong)).mean()


def sampled_negatives(own: Tensor, candidates: Tensor, generator: torch.Generator) -> Tensor:
    """One of ``candidates`` [n] for each of P positions, uniform over those not in the position's sequence.

    Draws that hit the sequence ``own`` [P, T + 1] are drawn again, up to twenty times; where a sequence holds nearly
    the whole catalogue, what was drawn last stays.
    """
    out = candidates[torch.randint(len(candidates), (len(own),), generator=generator)]
    for _ in range(_REDRAWS):
        bad = torch.nonzero((own == out[:, None]).any(1)).flatten()
        if not len(bad):
            break
        out[bad] = candidates[torch.randint(len(candidates), (len(bad),), generator=generator)]
    return out


def train_network(
    network: SasRecNetwork,
    config: SasRecConfig,
    sequences: TrainSequences,
    *,
    seen: Tensor,
    validate: Callable[[], float],
    seed: int,
    device: str,
    progress: Progress,
) -> None:
    """Train in place and leave the weights of the epoch with the best validation value.

    Args:
        seen: [n] long, items that occur in ``sequences``. The others are in no loss: they are neither input nor
            target, and must not be pushed away as negatives either, so their vectors stay as they began.
        validate: NDCG@10 of the network as it is.
    """
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.lr, weight_decay=config.weight_decay, betas=_BETAS)
    loss_of = _Loss(network, config, seen, torch_generator(seed, "sasrec", "negatives"))
    lengths = sequences.lengths
    best, stale, kept = -1.0, 0, _copy(network)
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if torch.device(device).type == "cuda" else []):
        torch.manual_seed(derive(seed, "sasrec", "dropout"))
        for epoch in progress.track("sasrec", range(1, config.epochs + 1), total=config.epochs):
            network.train()
            total = 0.0
            for rows in bucketed_batches(lengths, config.batch_size, numpy_generator(seed, "sasrec", "epoch", epoch)):
                width = int(lengths[rows].max())
                loss = loss_of(sequences.inputs[rows, :width], sequences.targets[rows, :width], device)
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
                optimiser.step()
                total += float(loss.detach()) * len(rows)
            score = validate()
            progress.log("sasrec", epoch, {"loss": total / len(sequences), "ndcg@10": score})
            if progress.diverged:
                break
            if score > best:
                best, stale, kept = score, 0, _copy(network)
                progress.note("sasrec.best_epoch", epoch)
            else:
                stale += 1
                if stale >= config.patience:
                    break
    network.load_state_dict(kept)
    network.eval()
    progress.note("sasrec.best_valid_ndcg@10", best)


class _Loss:
    """The loss of one batch, by the configuration's kind."""

    def __init__(self, network: SasRecNetwork, config: SasRecConfig, seen: Tensor, generator: torch.Generator) -> None:
        self.network, self.kind, self.generator = network, config.loss, generator
        self.seen = seen
        self.place = torch.full((network.items.num_embeddings,), PAD, dtype=torch.int64)
        self.place[seen] = torch.arange(len(seen))

    def __call__(self, inputs: np.ndarray, targets: np.ndarray, device: str) -> Tensor:
        items, wanted = torch.from_numpy(inputs), torch.from_numpy(targets)
        learned = wanted != PAD
        states = self.network(items.to(device))[learned.to(device)]
        if self.kind == "ce":
            vectors = self.network.items(self.seen.to(device))
            return softmax_loss(states, self.place[wanted[learned]].to(device), vectors)
        sequence, _ = torch.nonzero(learned, as_tuple=True)
        own = torch.cat([items[sequence], wanted[learned][:, None]], 1)
        negatives = sampled_negatives(own, self.seen, self.generator)
        return binary_loss(
            states, self.network.items(wanted[learned].to(device)), self.network.items(negatives.to(device))
        )


def _copy(network: SasRecNetwork) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}
