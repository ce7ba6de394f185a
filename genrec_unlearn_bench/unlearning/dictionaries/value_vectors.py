"""Edits of value vectors against dictionary features, and the search for their strength (PISCES, sec. 3 and find_hps).

A value vector v_j, column j of W_out, belongs to feature f if e_jf = v_j · W_enc[f] is large:
|e_jf| > τ max_j |e_jf|. In its code a = encode(v_j) the feature is set to ±μ M, M the largest |e| of the layer's
features, and v_j becomes decode(a) + (v_j - decode(encode(v_j))), which keeps the reconstruction error. This is not an
ablation but a strong push in the opposite direction. Features that share a v_j are set in one code.

Thresholds τ and strengths μ are tried in random order. Both axes of the grid go from weak to strong: a point that
changes too little excludes all weaker ones, and one that costs too much all stronger ones, without evaluating them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.unlearning.anatomy import Block, anatomy
from genrec_unlearn_bench.unlearning.likelihood import resting
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import example_batches, positive_set
from genrec_unlearn_bench.unlearning.validation import validate

TAUS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.5, 0.4, 0.3, 0.2)
MUS = (4.0, 7.0, 10.0, 13.0, 18.0, 24.0, 30.0, 36.0, 42.0, 50.0)
"""The official grid, from weak to strong."""
NEIGHBOURS = 5
"""Size of P(i), the items used as the similar domain (TRACER's size)."""


class Dictionary(Protocol):
    """W features by which value vectors [n, D] are encoded and decoded."""

    @property
    def encoder_rows(self) -> Tensor:
        """[W, D] W_enc: codes of a vector are ``vector @ encoder_rows.T``, up to a constant and a ReLU."""

    @property
    def directions(self) -> Tensor:
        """[W, D] unit vectors that a code adds to the residual stream."""

    def weight_codes(self, vectors: Tensor) -> Tensor:
        """[n, W] codes of value vectors."""

    def decode(self, codes: Tensor) -> Tensor:
        """[n, D] reconstruction from codes [n, W]."""


class NeuronDictionary:
    """Dictionary in which every value vector [F, D] is its own feature, so that an edit acts on whole value vectors."""

    def __init__(self, vectors: Tensor) -> None:
        self.directions = self.encoder_rows = F.normalize(vectors)

    def weight_codes(self, vectors: Tensor) -> Tensor:
        return (vectors @ self.directions.T).relu()

    def decode(self, codes: Tensor) -> Tensor:
        return codes @ self.directions


@dataclass(frozen=True)
class Feature:
    """A concept feature, by the name of its block and its index in that block's dictionary.

    Attributes:
        auroc: AUROC of its activation for forget against matched retain examples.
        output: How much its direction promotes the concept's tokens over those of matched retain items.
        part: The part of the concept (a brand, or several) that both scores are about.
    """

    block: str
    index: int
    auroc: float
    output: float
    part: int = 0

    @property
    def sign(self) -> int:
        """Sign of the code it is set to: negative (the official ``neg``) if the direction promotes the concept."""
        return -1 if self.output > 0 else 1


def value_vectors(linear: nn.Linear) -> Tensor:
    """[F, D] float32 columns of the effective W_out, active low-rank adapters included."""
    part: Any = linear
    weight: Tensor = part.weight.detach().float()
    if hasattr(part, "get_delta_weight") and not part.disable_adapters and not part.merged:
        for name in part.active_adapters:
            weight = weight + part.get_delta_weight(name).detach().float()
    return weight.T


def neuron_dictionaries(recommender: Recommender) -> Mapping[str, Dictionary]:
    """Every block's value vectors as its dictionary, by block name."""
    return {block.name: NeuronDictionary(value_vectors(block.down)) for block in anatomy(recommender).blocks}


def steered(
    vectors: Tensor, dictionary: Dictionary, features: Sequence[Feature], signs: Tensor, tau: float, mu: float
) -> tuple[Tensor, Tensor]:
    """Indices [n] of the value ``vectors`` [F, D] that belong to one layer's features, and their edited values [n, D].

    ``signs`` [F]: majority sign of each neuron's activation on the concept; a negative activation flips the edit.
    """
    index = torch.tensor([feature.index for feature in features], device=vectors.device)
    wanted = torch.tensor([feature.sign for feature in features], device=vectors.device, dtype=vectors.dtype)
    strengths = (vectors @ dictionary.encoder_rows[index].T).abs()  # [F, features]
    highest = strengths.max(0).values
    reached = strengths > tau * highest
    places = reached.any(1).nonzero().squeeze(1)
    chosen, own = vectors[places], reached[places]
    codes = dictionary.weight_codes(chosen)
    error = chosen - dictionary.decode(codes)
    pushed = highest.max() * mu * wanted[None] * signs[places][:, None]
    codes[:, index] = torch.where(own, pushed, codes[:, index])
    return places, dictionary.decode(codes) + error


def early_scale(index: int, layers: int) -> float:
    """Factor on μ in block ``index``: 0.1 to 1.0 over the first third of a stack (``linscale``), then 1."""
    ramp = round(layers / 3)
    return 0.1 + 0.9 * index / max(ramp - 1, 1) if index < ramp else 1.0


class Editor:
    """Repeatable edits of the clone ``model``, each applied to the weights of the original's ``blocks``.

    With a low-rank adapter on W_out the dictionary encodes the effective matrix, and the difference is added to the
    base weight; the adapter is unchanged. ``signs`` [F] of each block: see ``steered``.
    """

    def __init__(
        self,
        model: Recommender,
        blocks: Sequence[Block],
        dictionaries: Mapping[str, Dictionary],
        signs: Sequence[Tensor],
    ) -> None:
        self._copies = {block.name: block for block in anatomy(model).blocks}
        self._layers = len(anatomy(model).decoder)
        self._blocks, self._dictionaries, self._signs = blocks, dictionaries, signs

    @torch.no_grad()
    def apply(self, features: Sequence[Feature], tau: float, mu: float) -> int:
        """Set the weights to the original's with ``features`` edited jointly; returns the number of edited vectors."""
        edited = 0
        for block, signs in zip(self._blocks, self._signs, strict=True):
            source, target = _base(block.down), _base(self._copies[block.name].down)
            target.copy_(source)
            own = [feature for feature in features if feature.block == block.name]
            if not own:
                continue
            vectors = value_vectors(block.down)
            scaled = mu * early_scale(block.index, self._layers)
            places, fresh = steered(vectors, self._dictionaries[block.name], own, signs, tau, scaled)
            target[:, places] = (source[:, places].float() + (fresh - vectors[places]).T).to(target.dtype)
            edited += len(places)
        return edited


def _base(linear: nn.Linear) -> Tensor:
    """[D, F] the weight without adapters, for writing."""
    part: Any = getattr(linear, "base_layer", linear)
    weight: Tensor = part.weight.data
    return weight


@dataclass(frozen=True)
class Effect:
    """Scores of an edited model as ratios to the original's, 1 if unchanged.

    Attributes:
        forget: HR@10 on forget examples (mean probability of their targets' tokens if the original has no hit).
        retain: NDCG@10 on retain examples.
        similar: Mean probability of the tokens of the forget targets' nearest retain items P(i).
    """

    forget: float
    retain: float
    similar: float

    @property
    def harmonic(self) -> float:
        """Harmonic mean of efficacy, specificity and coherence, each in [0, 1]; 0 if one of them is 0.

        Deviation: the official mean omits zeros, so that an edit without any effect could win.
        """
        parts = (1 - self.forget, min(1.0, self.retain), min(1.0, self.similar))
        return 0.0 if min(parts) <= 0 else len(parts) / sum(1 / part for part in parts)


class GridPoint(NamedTuple):
    tau: float
    mu: float
    effect: Effect


class Gauge:
    """Measures edited models against the original on fixed examples."""

    def __init__(self, original: Recommender, request: ForgetRequest, groups: Groups) -> None:
        self._groups = groups
        self._near = positive_set(
            request.features, original.sids, groups.forget.targets, request.affected_items, NEIGHBOURS
        )
        self._before = validate(original, groups)
        self._probabilities = self.probabilities(original)

    def effect(self, model: Recommender) -> Effect:
        now, before = validate(model, self._groups), self._before
        pairs = zip(self.probabilities(model), self._probabilities, strict=True)
        probability, similar = (_ratio(after, first, 1.0) for after, first in pairs)
        hits = _ratio(now.forget_hr, before.forget_hr, probability)
        return Effect(hits, _ratio(now.retain_ndcg, before.retain_ndcg, 1.0), similar)

    def probabilities(self, model: Recommender) -> tuple[float, float]:
        """Mean token probability, over quantised levels, of forget targets and of their P(i)."""
        sums, counts = np.zeros(2), np.zeros(2)
        levels = model.sids.quantised_levels
        with resting(model):
            for number, part in enumerate(example_batches(self._groups.forget, 128)):
                items = np.concatenate([part.targets[:, None], self._near[number * 128 : number * 128 + 128]], 1)
                rows, places = np.nonzero(items >= 0)
                context = model.encode(part.histories(model.history_limit))
                codes = model.codes_of(items[rows, places])
                output = model.decode(context, codes, rows=torch.from_numpy(rows).to(codes.device))
                real = np.asarray((codes[:, :levels] >= 0).cpu())
                values = output.token_log_probs()[:, :levels].exp().float().cpu().numpy() * real
                for side, here in enumerate((places == 0, places > 0)):
                    sums[side] += values[here].sum()
                    counts[side] += real[here].sum()
        forget, similar = sums / np.maximum(counts, 1)
        return float(forget), float(similar)


def target_probability(model: Recommender, examples: Examples) -> float:
    """Mean probability of the targets' content codes."""
    total, count = 0.0, 0
    with resting(model):
        for part in example_batches(examples, 128):
            real = model.sids.quantised_codes[part.targets] >= 0
            values = model.target_log_probs(part.histories(model.history_limit), part.targets)
            total += float((values[:, : real.shape[1]].exp().double().cpu().numpy() * real).sum())
            count += int(real.sum())
    return total / max(count, 1)


def search_cells(
    effect: Callable[[float, float], Effect],
    generator: np.random.Generator,
    *,
    evaluations: int,
    too_weak: float,
    too_strong: float,
) -> GridPoint | None:
    """The grid point with the highest harmonic mean among at most ``evaluations``; None if none qualifies or all are 0.

    ``effect`` applies the edit with (τ, μ) and measures it. A point whose forget ratio exceeds ``too_weak`` excludes
    itself and all weaker ones; one whose retain ratio is below ``too_strong`` itself and all stronger ones.
    """
    gone = np.zeros((len(MUS), len(TAUS)), dtype=np.bool_)
    best: GridPoint | None = None
    for place in generator.permutation(gone.size):
        i, j = divmod(int(place), len(TAUS))
        if evaluations == 0:
            break
        if gone[i, j]:
            continue
        evaluations -= 1
        point = GridPoint(TAUS[j], MUS[i], effect(TAUS[j], MUS[i]))
        gone[i, j] = True
        weak, strong = point.effect.forget > too_weak, not point.effect.retain >= too_strong
        if weak:
            gone[: i + 1, : j + 1] = True
        if strong:
            gone[i:, j:] = True
        if weak or strong:
            continue
        if point.effect.harmonic > (0.0 if best is None else best.effect.harmonic):
            best = point
    return best


def _ratio(now: float, before: float, otherwise: float) -> float:
    """now / before; ``otherwise`` if ``before`` is 0 or not finite."""
    return now / before if before > 0 and math.isfinite(before) else otherwise
