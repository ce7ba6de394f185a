"""A stored recommender without its weights: what a measurement looks at to say which parts it has for a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.popularity import Popularity
from genrec_unlearn_bench.backbones.recommender import Ranker, Recommender, ServingRules
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.sids.storage import load_table

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.examples import BoolArray

__all__ = ["stand_in"]

CONTENT = "recommender.json"


def stand_in(folder: Path) -> Ranker:
    """The recommender of a folder with its table, its serving rules and the shapes of its parameters; a ranker that
    generates nothing for one.

    Nothing of it may be called that needs a network. Raises OSError, ValueError or CorruptArtefact where the folder
    does not hold what it should.
    """
    if not (folder / CONTENT).is_file():
        return Popularity(np.zeros(0, dtype=np.int64))
    family = json.loads((folder / CONTENT).read_text(encoding="utf-8"))["family"]
    kind = CausalRecommender if family == CausalRecommender.name else T5Recommender
    found: Recommender = kind.__new__(kind)
    found.sids = load_table(folder / "sids")
    found.serving = _serving(folder / "serving.safetensors")
    # Both families keep their network under this name.
    vars(found)["model"] = _shapes(folder / "model.safetensors")
    return found


def _shapes(path: Path) -> nn.Module:
    """Parameters without values, of the sizes that the file's header tells (buffers are counted among them)."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 - it is no dictionary
    except SafetensorError as fault:
        raise ValueError(f"{path}: {fault}") from None
    return nn.ParameterList(nn.Parameter(torch.empty(shape, device="meta"), requires_grad=False) for shape in shapes)


def _serving(path: Path) -> ServingRules:
    from safetensors.numpy import load_file

    masks = load_file(path)

    def mask(name: str) -> BoolArray | None:
        return masks[name].astype(np.bool_) if name in masks else None

    return ServingRules(mask("blocked"), mask("ignored"))
