"""How probes are trained and tested."""

from __future__ import annotations

from types import MappingProxyType

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel

__all__ = ["ProbingConfig", "probing_preset"]


class ProbingConfig(StrictModel):
    """Settings of the probes; what is read of the model is fixed by the scale (``examples.POSITIVES``)."""

    examples: int = Field(default=2000, ge=1)
    """Most positive examples a site is probed with; never more than the scale reads."""
    splits: int = Field(default=5, ge=1)
    """Random divisions into train, validation and test that are averaged; each has a control task of its own."""
    train: float = Field(default=0.5, gt=0, lt=1)
    """Share of the items whose examples probes are trained on."""
    validation: float = Field(default=0.2, gt=0, lt=1)
    """Share of the items that choose the L2 strength and the layer; the rest is tested on."""
    inverse_l2: tuple[float, ...] = Field(default=(1e-4, 1e-3, 1e-2, 1e-1, 1.0), min_length=1)
    """Grid of scikit-learn's C on standardised features, strongest regularisation first."""
    minimum: int = Field(default=5, ge=2)
    """Fewest examples of each class in each part of each split; with fewer the site is not measurable."""
    layers: tuple[int, ...] | None = None
    """Layers that are probed (0: input embeddings, l: behind block l); None for all."""


_PRESETS = MappingProxyType(
    {
        "smoke": ProbingConfig(examples=500, splits=3, minimum=3),
        "small": ProbingConfig(),
        "paper": ProbingConfig(examples=4000),
        "official": ProbingConfig(examples=4000),
    }
)


def probing_preset(scale: str) -> ProbingConfig:
    """The settings of a scale."""
    return _PRESETS[scale]
