"""ETEGRec's tokenizer: an RQ-VAE over item vectors, pre-trained alone and then trained with the recommender.

Between the two trainings it is stored in ``SidTable.network``: its weights, and the item vectors they are applied to,
so that joint training starts from exactly the tokenizer that gave the codes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.etegrec.backbone import EtegrecSidConfig
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.quantise import check_features
from genrec_unlearn_bench.sids.rqvae import Quantised, RqVae, RqVaeLoss, fit_rqvae, rqvae_loss
from genrec_unlearn_bench.sids.table import SidTable, nearest_codes, ordinals

FloatArray = NDArray[np.float32]

_VECTORS, _BETA = "vectors", "beta"
"""Entries of ``SidTable.network`` beside the RQ-VAE's weights."""


def item_vectors(config: EtegrecSidConfig, data: TrainingData) -> FloatArray:
    """[N, D] item vectors of the kind ``config.item_features``; raises DataFault where SASRec's are missing."""
    found = data.features if config.item_features == "text" else data.sasrec_vectors
    return np.ascontiguousarray(found, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class TokenizerPass:
    """n item vectors through the tokenizer."""

    loss: RqVaeLoss
    quantised: Quantised
    reconstruction: Tensor
    """[n, D_in] decoded from the codewords, in the units of the item vectors."""


def tokenizer_pass(model: RqVae, vectors: Tensor) -> TokenizerPass:
    """Item vectors [n, D_in] through encoder, codebooks and decoder, with gradients (straight-through codewords)."""
    inputs = model.standardise(vectors)
    latents = model.encoder(inputs)
    quantised = model.quantise(latents)
    # As ``Quantised.straight_through``, whose gradients are added up in another order.
    output = model.decoder(latents + (quantised.words.sum(1) - latents).detach())
    return TokenizerPass(
        loss=rqvae_loss(inputs, output, quantised, model.config.beta),
        quantised=quantised,
        reconstruction=output * model.scale + model.shift,
    )


@dataclass(frozen=True, eq=False)
class LiveTokenizer:
    """A trainable RQ-VAE and the item vectors that it quantises."""

    model: RqVae
    vectors: Tensor
    """[N, D_in], where the model is."""
    ordinals: int
    """Size of the collision token's level."""

    @classmethod
    def of(cls, table: SidTable, *, device: str = "cpu") -> Self:
        """The tokenizer that ``table.network`` carries, as ``pretrain`` made it."""
        network = table.network or {}
        layers = [name for name in network if name.startswith("encoder.") and name.endswith(".weight")]
        widths = [len(network[name]) for name in sorted(layers, key=lambda name: int(name.split(".")[1]))]
        codes, dim = network["codebooks.0"].shape
        levels, beta = sum(name.startswith("codebooks.") for name in network), float(network[_BETA].item())
        shape: dict[str, Any] = {"levels": levels, "codes": codes, "dim": dim, "hidden": tuple(widths[:-1])}
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in network.items()}
        model = RqVae(tensors["shift"], 1.0, SidConfig(quantiser="rqvae", beta=beta, **shape), seed=0)
        # A stored table has arrays of one element in place of scalars.
        model.load_state_dict({name: tensors[name].reshape(value.shape) for name, value in model.state_dict().items()})
        return cls(model.to(device).eval(), tensors[_VECTORS].to(device), table.level_sizes[-1])

    def table(self) -> SidTable:
        """The items' present codes, as a frozen table of version 0: nearest codewords, then the collision ordinal.

        Raises:
            BenchError: The tokenizer diverged, or collapsed so far that the ordinals do not tell items apart.
        """
        latents, books = self.model.outcome(self.vectors)
        codes = nearest_codes(latents, books)
        places = ordinals(codes)
        largest = int(places.max(initial=0)) + 1
        if largest > self.ordinals:
            raise BenchError(
                f"ETEGRec's tokenizer collapsed: {largest} items share their codes, and there are {self.ordinals} "
                "ordinals to tell them apart",
                where="sids",
                hint="lower joint.lr_tokenizer, train the tokenizer longer (`epochs`), or raise `ordinals`",
            )
        return SidTable(
            codes=np.concatenate([codes, places[:, None]], axis=1),
            level_sizes=(*(len(book) for book in books), self.ordinals),
            quantised_levels=len(books),
            codebooks=books,
            latents=latents,
        )


def pretrain(data: TrainingData, config: EtegrecSidConfig, *, seed: int, device: str, progress: Progress) -> SidTable:
    """The tokenizer trained alone on the vectors of the known items: the table of all N, with the tokenizer in it.

    Raises:
        DataFault: Vectors that are missing or not finite, or fewer than two known items.
        BenchError: As ``LiveTokenizer.table``.
    """
    vectors = item_vectors(config, data)
    check_features(vectors, data.known)
    model = fit_rqvae(vectors, config, fit=data.known, seed=seed, device=device, progress=progress)
    live = LiveTokenizer(model, torch.from_numpy(vectors).to(device), config.ordinals)
    tensors = {**model.state_dict(), _VECTORS: live.vectors, _BETA: torch.tensor([model.config.beta])}
    return replace(live.table(), network={name: one.float().cpu().numpy() for name, one in tensors.items()})
