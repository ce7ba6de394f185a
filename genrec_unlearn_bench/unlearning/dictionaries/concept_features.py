"""Selection of the dictionary features of a concept.

PISCES keeps the features whose top tokens name the concept. Semantic IDs are shared by items in and outside the
concept, so two scores replace the words: whether the feature fires on forget examples and not on retain examples *of
the same category and history length* (otherwise the best features are those of the category), and whether its direction
moves the output towards the concept's tokens, against retain items of the same category.

The brands of a request are scored one by one, and share what is found: a feature of one brand among dozens is silent on
almost all forget examples, so that its AUROC over all of them is barely above 0.5 however well it knows its brand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender, eval_mode
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.anatomy import Block, Stack, activations_at, anatomy, mlp_activations, tapped
from genrec_unlearn_bench.unlearning.dictionaries.sae import TopKSae
from genrec_unlearn_bench.unlearning.dictionaries.value_vectors import Dictionary, Feature
from genrec_unlearn_bench.unlearning.sampling import example_batches

FIRES = 0.01
"""Smallest share of a brand's forget examples on which a feature must fire."""
FEWEST = 16
"""Smallest number of matched pairs of a brand that is scored by itself; brands with fewer are scored together."""


def matched_pairs(groups: Groups, level_one: IntArray, limit: int, *, count: int, seed: int) -> Groups:
    """Pair at most ``count`` forget examples with retain examples of the same level-1 target code (``level_one`` [N])
    and history length (at most ``limit``).

    If no retain example has the length, one with the nearest is taken; if none has the code, one of any code.
    """
    generator = numpy_generator(seed, "matched")
    forget, retain = groups.forget, groups.retain
    codes, lengths = level_one[retain.targets], retain.history_lengths(limit)
    rows, partners = [], []
    own = forget.history_lengths(limit)
    for row in generator.permutation(len(forget))[:count]:
        pool = np.flatnonzero(codes == level_one[forget.targets[row]])
        pool = pool if len(pool) else np.arange(len(retain))
        if not len(pool):
            break
        gaps = np.abs(lengths[pool] - own[row])
        rows.append(row)
        partners.append(generator.choice(pool[gaps == gaps.min()]))
    one, two = (np.asarray(part, dtype=np.int64) for part in (rows, partners))
    return Groups(forget.subset(one), retain.subset(two))


def concept_parts(brands: IntArray, targets: IntArray) -> IntArray:
    """[N] part of the concept that each item belongs to, from 0; -1 for retain items.

    ``brands`` [N] are those of ``ForgetRequest.brand_numbers``; the forget ``targets`` [n] decide whether a brand is a
    part of its own (``FEWEST``).
    """
    counts = np.bincount(brands[targets], minlength=int(brands.max(initial=0)) + 1)
    own = np.flatnonzero(counts >= FEWEST)
    part = np.full(len(counts), len(own), dtype=np.int64)
    part[own] = np.arange(len(own))
    return np.where(brands >= 0, part[brands], -1)


def find_features(
    recommender: Recommender,
    pairs: Groups,
    blocks: Sequence[Block],
    dictionaries: Mapping[str, Dictionary],
    parts: IntArray,
    *,
    least: float,
    most: int,
) -> list[Feature]:
    """Features that separate a part of the concept from its matched retain examples, by descending AUROC.

    An example's activation is the largest over its positions: a feature for one token of a SID fires at one position
    of L. The output score of decoder blocks is the logit lens. An encoder's stream is the input of cross-attention
    instead, so its score is the network's gradient (``output_pull``).

    Args:
        parts: [N] part of the concept that each item belongs to (``concept_parts``).
        least, most: Smallest AUROC, and largest number of features per part and block. A feature that several parts
            find is that of the part which it tells best.
    """
    if not len(pairs.forget):
        return []
    scores = [_activations(recommender, part, blocks, dictionaries) for part in (pairs.forget, pairs.retain)]
    encoder_blocks = [block for block in blocks if block.stack is Stack.ENCODER]
    of_row = parts[pairs.forget.targets]
    pulls = output_pull(recommender, pairs, encoder_blocks, of_row) if encoder_blocks else []
    found: dict[tuple[str, int], Feature] = {}
    for number, block in enumerate(blocks):
        for part in np.unique(of_row):
            positive, negative = (side[number][of_row == part] for side in scores)
            index, values = _separating(positive, negative, least, most)
            if not len(index):
                continue
            directions = dictionaries[block.name].directions[torch.from_numpy(index).to(recommender.device)]
            if block.stack is Stack.ENCODER:
                outputs = directions @ pulls[encoder_blocks.index(block)][part]
            else:
                outputs = _lens_scores(recommender, directions, parts == part, parts < 0)
            for feature, value, output in zip(index.tolist(), values.tolist(), outputs.tolist(), strict=True):
                new = Feature(block.name, feature, value, output, int(part))
                old = found.setdefault((block.name, feature), new)
                found[block.name, feature] = max(old, new, key=lambda one: one.auroc)
    return sorted(found.values(), key=lambda feature: -feature.auroc)


def _separating(
    positive: NDArray[np.float32], negative: NDArray[np.float32], least: float, most: int
) -> tuple[IntArray, NDArray[np.float64]]:
    """Columns of [n, W] and [m, W] scores that fire on the positives and separate the two, and their AUROCs."""
    firing = np.flatnonzero((positive > 0).mean(0) >= FIRES)
    values = aurocs(positive[:, firing], negative[:, firing])
    order = np.argsort(-values, kind="stable")
    chosen = order[values[order] >= least][:most]
    return firing[chosen], values[chosen]


def aurocs(positive: NDArray[np.float32], negative: NDArray[np.float32]) -> NDArray[np.float64]:
    """[W] probability that a positive's score [n, W] exceeds a negative's [m, W], ties counted half."""
    n, m = len(positive), len(negative)
    if not n or not m or not positive.shape[1]:
        return np.full(positive.shape[1], 0.5)
    ranks = np.asarray(rankdata(np.concatenate([positive, negative]), axis=0), dtype=np.float64)
    return np.asarray((ranks[:n].sum(0) - n * (n + 1) / 2) / (n * m), dtype=np.float64)


def _activations(
    recommender: Recommender, examples: Examples, blocks: Sequence[Block], dictionaries: Mapping[str, Dictionary]
) -> list[NDArray[np.float32]]:
    """[n, W] per block: each feature's largest activation over the real positions of each example."""
    sparse = all(isinstance(dictionaries[block.name], TopKSae) for block in blocks)
    kept: list[list[NDArray[np.float32]]] = [[] for _ in blocks]
    for caught in mlp_activations(recommender, examples, blocks, inputs=not sparse):
        for block, (values, real), rows in zip(blocks, caught, kept, strict=True):
            dictionary = dictionaries[block.name]
            codes = dictionary.codes(values.flatten(0, 1)) if isinstance(dictionary, TopKSae) else values.flatten(0, 1)
            codes = codes.view(*real.shape, -1).masked_fill(~real[..., None], -torch.inf)
            rows.append(codes.amax(1).cpu().numpy())
    empty = [np.zeros((0, len(dictionaries[block.name].directions)), dtype=np.float32) for block in blocks]
    return [np.concatenate(rows) if rows else nothing for rows, nothing in zip(kept, empty, strict=True)]


def _lens_scores(recommender: Recommender, directions: Tensor, concept: BoolArray, retain: BoolArray) -> Tensor:
    """[n] mean lens logit of the concept items' tokens minus that of retain items with the same level-1 code (of all
    retain items, for concept items whose code none has).

    The final norm divides all unit directions by one number, so only its gain can change a sign or an order.
    """
    table = recommender.sids
    codes, offsets = table.quantised_codes, np.asarray(recommender.vocabulary.offsets[: table.quantised_levels])
    weights = torch.zeros(recommender.vocabulary.size, dtype=torch.float64)
    first = codes[:, 0]
    for code in np.unique(first[concept]):
        own, others = concept & (first == code), retain & (first == code)
        for side, sign in ((own, 1.0), (others if others.any() else retain, -1.0)):
            items = codes[side]
            tokens = (items + offsets)[items >= 0]
            share = sign * own.sum() / concept.sum() / max(len(tokens), 1)
            weights.index_add_(0, torch.from_numpy(tokens), torch.full((len(tokens),), share, dtype=torch.float64))
    lens = anatomy(recommender).lens
    with torch.no_grad():
        dtype = next(recommender.module.parameters()).dtype
        return lens(directions.to(dtype)).float() @ weights.float().to(directions.device)


def output_pull(recommender: Recommender, pairs: Groups, blocks: Sequence[Block], parts: IntArray) -> list[Tensor]:
    """[P, D] per block: mean gradient, over the pairs of each of P ``parts`` [n], of the forget targets' log-likelihood
    by the feed-forward output, summed over positions, minus that of the matched retain targets."""
    of_row = torch.from_numpy(parts).to(recommender.device)
    sizes = torch.bincount(of_row)
    totals = [torch.zeros(len(sizes), block.down.out_features, device=recommender.device) for block in blocks]
    body, levels = anatomy(recommender), recommender.sids.quantised_levels
    with eval_mode(recommender.module):
        for examples, sign in ((pairs.forget, 1.0), (pairs.retain, -1.0)):
            for number, part in enumerate(example_batches(examples, 128)):
                own = of_row[number * 128 : number * 128 + 128]
                codes = recommender.codes_of(part.targets)
                with tapped([block.mlp for block in blocks]) as caught:
                    context = recommender.encode(part.histories(recommender.history_limit))
                    output = recommender.decode(context, codes)
                likelihood = output.token_log_probs()[:, :levels].sum()
                for block, total, gradient in zip(blocks, totals, torch.autograd.grad(likelihood, caught), strict=True):
                    values, real = activations_at(body, block, gradient, context, codes, prompts=False)
                    total.index_add_(0, own, sign * (values * real[..., None]).sum(1))
    return [total / sizes.clamp_min(1)[:, None] for total in totals]


def majority_signs(recommender: Recommender, examples: Examples, blocks: Sequence[Block]) -> list[Tensor]:
    """[F] per block: 1 or -1, the majority sign of each neuron's activation at the examples' real positions.

    ReLU neurons are positive without measurement; so are neurons without a majority.
    """
    counts = [torch.zeros(block.down.in_features, device=recommender.device) for block in blocks]
    gated = [number for number, block in enumerate(blocks) if block.gated]
    if gated:
        for caught in mlp_activations(recommender, examples, [blocks[number] for number in gated], inputs=True):
            for number, (values, real) in zip(gated, caught, strict=True):
                counts[number] += values[real].sign().sum(0)
    return [torch.where(count < 0, -1.0, 1.0) for count in counts]
