"""Hidden states that are probed: which examples, the pass that reads one model, and the model that is the floor.

The examples are the same for every model of a seed. Positives are forget-train interactions, negatives retain-train
ones whose target has the same level-1 code. The control tasks find their pseudo-concepts among the negatives, so that
they need no states of their own.

Four sites. ``prompt``: the state from which the first token of the answer is predicted (T5: the decoder's first
position; causal models: the prompt's last). ``pooled``: mean over the input positions (of T5's encoder, of a causal
prompt). ``history``: mean over the positions of one item of the history. ``embedding``: mean of an item's token
embeddings. No site sees the target. For the numbers of layers see ``measurement.FIRST_LAYER``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.backbones.minionerec.recommender import (
    CausalRecommender,
    adapted,
    random_network,
    sid_vocabulary,
)
from genrec_unlearn_bench.backbones.recommender import Context, Recommender, length_batches
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import PAD, BoolArray, Histories, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.probing.splits import Rows, rank_within
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator
from genrec_unlearn_bench.unlearning.likelihood import resting

POSITIVES = MappingProxyType({"smoke": 500, "small": 2000, "paper": 4000, "official": 4000})
"""Most positives by scale, of interactions and of places in histories alike."""
MATCHES = 4
"""Most negatives for each positive of a level-1 code. Many cannot be used, because their item or user is in another
part of the split; and a control task splits them once more."""
_BATCH = 128
_CONSTANT = 1e-5
"""A feature that varies by less, as a share of the layer's size, is rounding."""


@dataclass(frozen=True, eq=False)
class ProbePool:
    """E interactions, H places of an item in one of their histories, and all N items.

    Attributes:
        histories: [E, T] as the model is given them, without the target.
        targets: E rows: positive where the interaction is to be forgotten.
        mentions: H rows, positive for concept items; a (user, item) pair is there once.
        owners: [H] the history of each mention.
        catalogue: The items whose level-1 code the concept has as well.
    """

    histories: Histories
    targets: Rows
    mentions: Rows
    owners: IntArray
    catalogue: Rows


def sample_pool(subject: Subject) -> ProbePool:
    """Draw the pool; it depends on the task, the seed, the scale and the model's history limit alone.

    Raises NotMeasurable where the train part has one class only.
    """
    split, most = subject.split, POSITIVES[subject.scale]
    codes = subject.original_sids.codes[:, 0]
    generator = numpy_generator(subject.seed, "probing", "examples")
    forget, retain = split.train.forget, split.train.retain
    if not len(forget) or not len(retain):
        raise NotMeasurable(
            f"a probe needs two classes: there are {len(forget)} forget and {len(retain)} retain examples"
        )
    forget = forget.subset(np.sort(generator.permutation(len(forget))[:most]))
    wanted = _matched(codes[forget.targets], codes[retain.targets], generator)
    retain = retain.subset(wanted)
    limit = subject.recommender.history_limit
    items = np.full((len(forget) + len(retain), limit), PAD, dtype=np.int64)
    for first, part in ((0, forget), (len(forget), retain)):
        given = part.histories(limit).items
        items[first : first + len(part), : given.shape[1]] = given
    users = np.concatenate([forget.users, retain.users])
    aims = np.concatenate([forget.targets, retain.targets])
    targets = Rows(np.arange(len(aims)), np.arange(len(aims)) < len(forget), aims, users, codes[aims])
    histories = Histories(items, users)
    owners, named = _mentions(histories, codes, split.items, most, generator)
    mentions = Rows(np.arange(len(named)), split.items[named], named, users[owners], codes[named])
    concept = split.items if split.kind is not ConceptKind.INTERACTION else np.zeros_like(split.items)
    every = np.flatnonzero(np.isin(codes, codes[concept]))
    catalogue = Rows(every, concept[every], every, every, codes[every])
    return ProbePool(histories, targets, mentions, owners, catalogue)


def pseudo_concept(rows: Rows, generator: np.random.Generator, *, single: bool) -> Rows:
    """A control task (Hewitt & Liang 2019, arXiv 1909.03368): the negatives, a random part of them called positive.

    As many random items as the positives have, at most half of the negatives' items, so that a match is left for each.
    A probe can only tell such a set by memorising its items. ``single``: interactions are drawn, not items.
    """
    rest = rows.subset(~rows.labels)
    if single:
        count = min(int(rows.labels.sum()), len(rest) // 2)
        labels = generator.permutation(len(rest)) < count
    else:
        known = np.unique(rest.items)
        count = min(len(np.unique(rows.items[rows.labels])), len(known) // 2)
        labels = np.isin(rest.items, generator.choice(known, size=count, replace=False))
    return Rows(rest.places, np.asarray(labels, dtype=np.bool_), rest.items, rest.users, rest.codes)


def _matched(positives: IntArray, candidates: IntArray, generator: np.random.Generator) -> BoolArray:
    """[len(candidates)] at most ``MATCHES`` for each positive of the same code, at random."""
    quota = MATCHES * np.bincount(positives, minlength=int(candidates.max(initial=0)) + 1)
    rank = rank_within(candidates, generator.random(len(candidates)))
    return np.asarray(rank < quota[candidates], dtype=np.bool_)


def _mentions(
    histories: Histories, codes: IntArray, concept: BoolArray, most: int, generator: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """History and item of concept items mentioned, and of as many times ``MATCHES`` others of the same codes."""
    owners, places = np.nonzero(histories.items != PAD)
    named = histories.items[owners, places]
    order = generator.permutation(len(named))
    pairs = histories.users[owners[order]] * len(concept) + named[order]
    first = np.sort(order[np.unique(pairs, return_index=True)[1]])
    owners, named = owners[first], named[first]
    hit = np.flatnonzero(concept[named])
    hit = np.sort(generator.permutation(hit)[:most])
    rest = np.flatnonzero(~concept[named])
    rest = rest[_matched(codes[named[hit]], codes[named[rest]], generator)]
    chosen = np.concatenate([hit, rest])
    return owners[chosen], named[chosen]


def read_states(subject: Subject, progress: Progress) -> Mapping[str, NDArray[np.generic]]:
    """The states by site: prompt and pooled [E, layers, D], history [H, layers, D], embedding [N, 1, D].

    Each feature is shifted and scaled to mean 0 and deviation 1 over its site, which changes no probe (they standardise
    themselves) and lets half precision hold states of any size. A mention that the model never reads (it is served
    without the item) is NaN.
    """
    recommender = subject.recommender
    pool = sample_pool(subject)
    with resting(recommender):
        states = _contextual(recommender, pool, progress)
        states["embedding"] = _embeddings(recommender)[:, None]
    return {site: _scaled(values) for site, values in states.items()}


def _contextual(recommender: Recommender, pool: ProbePool, progress: Progress) -> dict[str, NDArray[np.float32]]:
    counts = np.bincount(pool.owners, minlength=len(pool.targets))
    mentions = np.split(np.argsort(pool.owners, kind="stable"), np.cumsum(counts)[:-1])
    sizes = {"prompt": len(pool.targets), "pooled": len(pool.targets), "history": len(pool.mentions)}
    states: dict[str, NDArray[np.float32]] = {}
    batches = list(length_batches(pool.histories.lengths, _BATCH))
    for rows in progress.track("hidden states", batches, total=len(batches)):
        context = recommender.encode(pool.histories.rows(rows), hidden=True)
        own = [mentions[row] for row in rows]
        found = {
            "prompt": (rows, _prompt(recommender, context)),
            "pooled": (rows, _means(context, context.mask[:, None])[:, 0]),
            "history": (np.concatenate(own), _mentioned(context, pool.mentions.items, own)),
        }
        for site, (places, values) in found.items():
            if site not in states:
                states[site] = np.full((sizes[site], *values.shape[1:]), np.nan, dtype=np.float32)
            states[site][places] = values.float().cpu().numpy()
    return states


def _prompt(recommender: Recommender, context: Context) -> Tensor:
    """[B, layers, D] without layer 0."""
    if isinstance(recommender, CausalRecommender):
        # Padding is on the left; the prompt is the whole input, so that nothing has to be run again.
        return torch.stack([layer[:, -1] for layer in context.hidden[1:]], 1)
    # The first position attends to itself alone: which codes stand behind it does not matter.
    codes = torch.zeros(len(context.mask), recommender.sids.levels, dtype=torch.long, device=recommender.device)
    return torch.stack([layer[:, 0] for layer in recommender.decode(context, codes, hidden=True).hidden[1:]], 1)


def _mentioned(context: Context, items: IntArray, mentions: list[IntArray]) -> Tensor:
    """[H', layers, D] means over the positions of each mentioned item [H] in its history, one history after another."""
    counts = np.array([len(own) for own in mentions])
    wanted = torch.full((len(counts), max(int(counts.max(initial=0)), 1)), -2, dtype=torch.long)
    filled = torch.arange(wanted.shape[1])[None] < torch.from_numpy(counts)[:, None]
    wanted[filled] = torch.from_numpy(items[np.concatenate(mentions)])
    device = context.mask.device
    places = context.position_items[:, None] == wanted.to(device)[..., None]
    return _means(context, places & context.mask[:, None])[filled.to(device)]


def _means(context: Context, places: Tensor) -> Tensor:
    """[B, R, layers, D] means of all layers over the places [B, R, S]; NaN where there are none."""
    weights = places.float() / places.sum(2, keepdim=True)
    return torch.stack([torch.bmm(weights, layer.float()) for layer in context.hidden], 2)


def _embeddings(recommender: Recommender) -> NDArray[np.float32]:
    """[N, D] mean of each item's token embeddings, over the tokens it has."""
    module: Any = recommender.module
    table: Tensor = module.get_input_embeddings().weight
    tokens = torch.from_numpy(recommender.vocabulary.tokens(recommender.sids)).to(table.device)
    real = torch.from_numpy(recommender.sids.codes >= 0).to(table.device).float()
    total = torch.zeros(len(tokens), table.shape[1], device=table.device)
    for level in range(tokens.shape[1]):
        total += table[tokens[:, level]].float() * real[:, level, None]
    values: NDArray[np.float32] = (total / real.sum(1, keepdim=True)).cpu().numpy()
    return values


def _scaled(values: NDArray[np.float32]) -> NDArray[np.float16]:
    known = ~np.isnan(values).any(axis=(1, 2))
    if not known.any():
        return values.astype(np.float16)
    mean, deviation = (of(values[known], axis=0, dtype=np.float64) for of in (np.mean, np.std))
    size = np.sqrt(mean**2 + deviation**2).mean(axis=1, keepdims=True)
    scale = np.where(deviation > _CONSTANT * size, deviation, np.inf)
    return np.asarray((values - mean) / scale, dtype=np.float16)


def untrained(recommender: Recommender, seed: int) -> Recommender:
    """A model of the same family, shape, table, prompts and serving rules, with the family's initial weights.

    Buffers of the network (P5's words of the users) are kept: they are data, not learned. A model that started from a
    pretrained one starts from random weights here as well. Deviation: ETEGRec's initial weights are of the deviation
    that its code fixes; a preset that rescales them does not leave that in the shape. Raises NotMeasurable for other
    families.
    """
    drawn = derive(seed, "untrained")
    fresh: Recommender
    if isinstance(recommender, CausalRecommender):
        shape = recommender.shape
        tokens = sid_vocabulary(shape, recommender.sids).size
        model = adapted(random_network(shape, tokens, seed=drawn), shape, seed=drawn)
        model = model.to(recommender.device)  # type: ignore[arg-type]
        fresh = type(recommender)(model, shape, recommender.sids, recommender.serving, recommender.text)
    elif isinstance(recommender, T5Recommender):
        fresh = type(recommender).fresh(recommender.shape, recommender.sids, seed=drawn, device=str(recommender.device))
        fresh = fresh.with_serving(recommender.serving)
    else:
        raise NotMeasurable(f"nobody has said how a {type(recommender).__name__} starts without training")
    kept = dict(recommender.module.named_buffers())
    for name, buffer in fresh.module.named_buffers():
        buffer.copy_(kept[name])
    return fresh
