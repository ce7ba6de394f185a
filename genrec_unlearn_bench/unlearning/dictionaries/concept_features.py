"""Selection of the dictionary features of a concept.

PISCES keeps the features whose top tokens name the concept. Semantic IDs are shared by items in and outside the
concept, so two scores replace the words: whether the feature fires on forget examples and not on retain examples *of
the same category and history length* (otherwise the best features are those of the category), and whether its direction
moves the output towards the concept's tokens, against retain items of the same category.
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
"""Smallest share of the forget examples on which a feature must fire."""


def matched_pairs(groups: Groups, level_one: IntArray, limit: int, *, count: int, seed: int) -> Groups:
    """Pair at most ``count`` forget examples with retain examples of the same level-1 target code and history length.

    If no retain example has the length, one with the nearest is taken; if none has the code, the pair is omitted.

    Args:
        level_one: [N] level-1 code of every item.
        limit: Largest history length.
    """
    generator = numpy_generator(seed, "matched")
    forget, retain = groups.forget, groups.retain
    codes, lengths = level_one[retain.targets], retain.history_lengths(limit)
    rows, partners = [], []
    own = forget.history_lengths(limit)
    for row in generator.permutation(len(forget))[:count]:
        pool = np.flatnonzero(codes == level_one[forget.targets[row]])
        if not len(pool):
            continue
        gaps = np.abs(lengths[pool] - own[row])
        rows.append(row)
        partners.append(generator.choice(pool[gaps == gaps.min()]))
    one, two = (np.asarray(part, dtype=np.int64) for part in (rows, partners))
    return Groups(forget.subset(one), retain.subset(two))


def find_features(
    recommender: Recommender,
    pairs: Groups,
    blocks: Sequence[Block],
    dictionaries: Mapping[str, Dictionary],
    concept: BoolArray,
    *,
    least: float,
    most: int,
) -> list[Feature]:
    """Features that separate forget from matched retain examples, by descending AUROC.

    An example's activation is the largest over its positions: a feature for one token of a SID fires at one position
    of L. The output score of decoder blocks is the logit lens. An encoder's stream is the input of cross-attention
    instead, so its score is the network's gradient (``output_pull``).

    Args:
        concept: [N] items of the concept.
        least, most: Smallest AUROC, and largest number of features per block.
    """
    if not len(pairs.forget):
        return []
    scores = [_activations(recommender, part, blocks, dictionaries) for part in (pairs.forget, pairs.retain)]
    encoder_blocks = [block for block in blocks if block.stack is Stack.ENCODER]
    pulls = output_pull(recommender, pairs, encoder_blocks) if encoder_blocks else []
    found = []
    for number, block in enumerate(blocks):
        one, two = scores[0][number], scores[1][number]
        firing = np.flatnonzero((one > 0).mean(0) >= FIRES)
        values = aurocs(one[:, firing], two[:, firing])
        order = np.argsort(-values, kind="stable")
        chosen = [place for place in order if values[place] >= least][:most]
        if not chosen:
            continue
        index = firing[chosen]
        directions = dictionaries[block.name].directions[torch.from_numpy(index).to(recommender.device)]
        if block.stack is Stack.ENCODER:
            outputs = directions @ pulls[encoder_blocks.index(block)]
        else:
            outputs = _lens_scores(recommender, directions, concept)
        found += [
            Feature(block.name, int(feature), float(values[place]), float(output))
            for feature, place, output in zip(index, chosen, outputs.tolist(), strict=True)
        ]
    return sorted(found, key=lambda feature: -feature.auroc)


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


def _lens_scores(recommender: Recommender, directions: Tensor, concept: BoolArray) -> Tensor:
    """[n] mean lens logit of the concept items' tokens minus that of retain items with the same level-1 code.

    The final norm divides all unit directions by one number, so only its gain can change a sign or an order.
    """
    table = recommender.sids
    codes, offsets = table.quantised_codes, np.asarray(recommender.vocabulary.offsets[: table.quantised_levels])
    weights = torch.zeros(recommender.vocabulary.size, dtype=torch.float64)
    first = codes[:, 0]
    shared = [code for code in np.unique(first[concept]) if (first[~concept] == code).any()]
    wanted = concept & np.isin(first, shared)
    for code in shared:
        here = first == code
        for side, sign in ((concept, 1.0), (~concept, -1.0)):
            items = codes[here & side]
            tokens = (items + offsets)[items >= 0]
            share = sign * (here & concept).sum() / wanted.sum() / len(tokens)
            weights.index_add_(0, torch.from_numpy(tokens), torch.full((len(tokens),), share, dtype=torch.float64))
    lens = anatomy(recommender).lens
    with torch.no_grad():
        dtype = next(recommender.module.parameters()).dtype
        return lens(directions.to(dtype)).float() @ weights.float().to(directions.device)


def output_pull(recommender: Recommender, pairs: Groups, blocks: Sequence[Block]) -> list[Tensor]:
    """[D] per block: mean gradient of the forget targets' log-likelihood by the feed-forward output, summed over
    positions, minus that of the matched retain targets."""
    totals = [torch.zeros(block.down.out_features, device=recommender.device) for block in blocks]
    body, levels = anatomy(recommender), recommender.sids.quantised_levels
    with eval_mode(recommender.module):
        for examples, sign in ((pairs.forget, 1.0), (pairs.retain, -1.0)):
            for part in example_batches(examples, 128):
                codes = recommender.codes_of(part.targets)
                with tapped([block.mlp for block in blocks]) as caught:
                    context = recommender.encode(part.histories(recommender.history_limit))
                    output = recommender.decode(context, codes)
                likelihood = output.token_log_probs()[:, :levels].sum()
                for number, gradient in enumerate(torch.autograd.grad(likelihood, caught)):
                    values, real = activations_at(body, blocks[number], gradient, context, codes, prompts=False)
                    totals[number] += sign / len(examples) * (values * real[..., None]).sum((0, 1))
    return totals


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
