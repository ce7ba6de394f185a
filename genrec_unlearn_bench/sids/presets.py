"""TIGER's tokenizer at each scale."""

from __future__ import annotations

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.sids.config import SidConfig

__all__ = ["sid_preset"]

_PRESETS = {
    # A few hundred items: 32 codes give about a dozen items a first code, and 32^3 leaves room to move them.
    "smoke": SidConfig(quantiser="rkmeans", levels=3, codes=32, dim=16, kmeans_iterations=20, resolve_rounds=0),
    # The paper's grid, 3 x 256 x 64, so that overlap means the same, from residual k-means: GRID finds it about as
    # good as an RQ-VAE, and it takes seconds.
    "small": SidConfig(quantiser="rkmeans", levels=3, codes=256, dim=64, resolve_rounds=0),
    # The paper names the grid alone. 1000 epochs: on 3,686 items the reconstruction error falls from 0.37 (300 epochs)
    # to 0.26 (900) in three CPU minutes, ever more slowly.
    "paper": SidConfig(quantiser="rqvae", levels=3, codes=256, dim=64, epochs=1000, resolve_rounds=0),
    # TIGER (Rajput et al. 2023): 3 x 256 x 32, hidden 512-256-128, beta 0.25, batches of 1024, 20,000 epochs.
    # Deviation: AdamW at 1e-3 as in the public codes built on it, for Adagrad at 0.4; meant for a GPU.
    "official": SidConfig(
        quantiser="rqvae",
        levels=3,
        codes=256,
        dim=32,
        hidden=(512, 256, 128),
        beta=0.25,
        batch_size=1024,
        epochs=20_000,
        resolve_rounds=0,
    ),
}


def sid_preset(scale: str) -> SidConfig:
    """The tokenizer of TIGER at ``smoke``, ``small``, ``paper`` or ``official``; raises UnknownName otherwise.

    All of them tell colliding items apart by TIGER's ordinal level and none re-encodes them first, so codes are plain
    nearest codewords on every quantised level, which methods that reassign codes start from.
    """
    try:
        return _PRESETS[str(scale)]
    except KeyError:
        raise UnknownName("scale", str(scale), _PRESETS) from None
