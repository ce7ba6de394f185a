"""Training of dictionaries for a recommender's blocks, and the tests that an autoencoder must pass to be used.

One test ranks with a layer's output replaced by its reconstruction. ``Recommender.recommend`` decodes with copies of
the weights and bypasses hooks, so beam search here replays every beam through ``decode``: slower, same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.recommender import Context, Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.decoding.beam import beam_search, rank_items
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.dictionaries.sae import SaeConfig, activation_rows, train_sae, unexplained
from genrec_unlearn_bench.unlearning.dictionaries.value_vectors import Dictionary, NeuronDictionary, value_vectors
from genrec_unlearn_bench.unlearning.reference import resting
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import all_examples, example_batches


class DictionaryConfig(SaeConfig):
    """Training and acceptance of autoencoders."""

    fvu_ceiling: float = Field(default=0.2, gt=0)
    """Largest fraction of held-out variance that may stay unexplained."""
    splice_floor: float = Field(default=0.95, ge=0)
    """Smallest share of the original's NDCG@10 with a layer's output replaced by its reconstruction."""


def sae_dictionaries(
    recommender: Recommender, request: ForgetRequest, retain: Examples, config: DictionaryConfig, progress: Progress
) -> Mapping[str, Dictionary]:
    """Train an SAE per block and return the accepted ones by block name.

    Trained on all train data, forget examples included, because concept features are what is looked for. Notes
    ``sae.fvu`` and ``sae.spliced`` per layer (share of NDCG@10 kept, 1 if the original has none; -1 if not measured).

    Args:
        retain: Validation examples to rank with reconstructions.
    """
    blocks = anatomy(recommender).blocks
    train, test = activation_rows(
        recommender, all_examples(request.train), blocks, count=config.sae_rows, seed=request.seed
    )
    before = replayed_ndcg(recommender, retain)
    accepted: dict[str, Dictionary] = {}
    fvus, kept = [], []
    for block, rows, held_out in zip(progress.track("sae", blocks, total=len(blocks)), train, test, strict=True):
        sae = train_sae(rows, config, seed=request.seed, stage=block.name, progress=progress)
        fvus.append(unexplained(held_out, sae.reconstruct(held_out)))
        if not fvus[-1] <= config.fvu_ceiling:
            kept.append(-1.0)
            continue
        with spliced(block.mlp, sae.reconstruct):
            now = replayed_ndcg(recommender, retain)
        kept.append(now / before if before else 1.0)
        if kept[-1] >= config.splice_floor:
            accepted[block.name] = sae
    progress.note("sae.layers", [block.name for block in blocks])
    progress.note("sae.fvu", fvus)
    progress.note("sae.spliced", kept)
    return accepted


def neuron_dictionaries(recommender: Recommender) -> Mapping[str, Dictionary]:
    """Every block's value vectors as its dictionary, by block name."""
    return {block.name: NeuronDictionary.of(value_vectors(block.down)) for block in anatomy(recommender).blocks}


class ReplaySession:
    """A ``DecoderSession`` that decodes the whole prefix of every beam at each step."""

    def __init__(self, recommender: Recommender, context: Context) -> None:
        self._recommender, self._context = recommender, context
        self._offsets = recommender.vocabulary.offsets
        self._codes = torch.zeros(len(context.mask), 1, 0, dtype=torch.long, device=context.mask.device)

    def start_window(self, window: slice) -> Tensor:
        self._codes = self._codes.new_zeros(len(self._context.mask), 1, 0)
        return self._log_probs(window)[:, 0]

    def step_window(self, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
        depth = self._codes.shape[2]
        past = self._codes.gather(1, parents[..., None].expand(-1, -1, depth))
        self._codes = torch.cat([past, (tokens - self._offsets[depth])[..., None]], 2)
        return self._log_probs(window)

    def _log_probs(self, window: slice) -> Tensor:
        batch, beams, depth = self._codes.shape
        # Causal attention hides what follows the prefix; code 0 exists on every level.
        codes = torch.nn.functional.pad(self._codes, (0, len(self._offsets) - depth)).flatten(0, 1)
        rows = torch.arange(batch, device=codes.device).repeat_interleave(beams)
        logits = self._recommender.decode(self._context, codes, rows=rows).logits[:, depth]
        return logits.view(batch, beams, -1).float().log_softmax(-1)[..., window]


@contextmanager
def spliced(module: nn.Module, replace: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Replace ``module``'s output by ``replace`` of it inside the block."""

    def hook(module: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        return replace(output.float()).to(output.dtype)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def replayed_ndcg(recommender: Recommender, examples: Examples) -> float:
    """NDCG@10 of constrained beam search (beam 10) through the modules; 0 without examples."""
    table, blocked = recommender.sids, recommender.serving.blocked
    trie = Trie.build(table.codes, table.level_sizes, blocked=blocked)
    gains = []
    with resting(recommender):
        for part in example_batches(examples, 64):
            session = ReplaySession(recommender, recommender.encode(part.histories(recommender.history_limit)))
            found = beam_search(session, trie, recommender.vocabulary.offsets, beam=10)
            ranks = rank_items(found, trie, 10).ranks(part.targets)
            gains.append(np.where(ranks > 0, 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0))
    return float(np.concatenate(gains).mean()) if gains else 0.0
