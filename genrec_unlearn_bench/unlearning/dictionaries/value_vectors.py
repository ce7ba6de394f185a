"""Edits of value vectors against dictionary features (PISCES, sec. 3).

A value vector v_j, column j of W_out, belongs to feature f if e_jf = v_j · W_enc[f] is large:
|e_jf| > τ max_j |e_jf|. In its code a = encode(v_j) the feature is set to ±μ M, M the largest |e| of the layer's
features, and v_j becomes decode(a) + (v_j - decode(encode(v_j))), which keeps the reconstruction error. This is not an
ablation but a strong push in the opposite direction. Features that share a v_j are set in one code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.unlearning.anatomy import Block, anatomy


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
        body = anatomy(model)
        self._copies = {block.name: block for block in body.blocks}
        self._layers = len(body.decoder)
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
