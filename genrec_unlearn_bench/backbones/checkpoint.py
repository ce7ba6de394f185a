"""Saving a recommender as one folder: weights, SID table and serving rules. Safetensors and JSON only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_numpy
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import load_file, save_file
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import ServingRules
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.sids.storage import load_table, save_table
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["Checkpoint", "read_checkpoint", "write_checkpoint"]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Everything about a saved recommender but its weights."""

    family: str
    shape: dict[str, Any]
    sids: SidTable
    serving: ServingRules


def write_checkpoint(folder: Path, checkpoint: Checkpoint, weights: Mapping[str, Tensor]) -> None:
    """Write ``recommender.json``, ``model.safetensors``, ``sids/`` and ``serving.safetensors``.

    Tied tensors are written once, under their first name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    seen: dict[int, str] = {}
    tied: dict[str, str] = {}
    unique: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        first = seen.setdefault(tensor.data_ptr(), name)
        if first == name:
            unique[name] = tensor.detach().cpu().contiguous()
        else:
            tied[name] = first
    save_file(unique, folder / "model.safetensors")
    masks = {
        name: mask.astype(np.uint8)
        for name, mask in (("blocked", checkpoint.serving.blocked), ("ignored", checkpoint.serving.ignored))
        if mask is not None
    }
    save_numpy(masks, folder / "serving.safetensors")
    save_table(checkpoint.sids, folder / "sids")
    content = {"family": checkpoint.family, "shape": checkpoint.shape, "tied": tied}
    (folder / "recommender.json").write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_checkpoint(folder: Path, *, device: str = "cpu") -> tuple[Checkpoint, dict[str, Tensor]]:
    """The inverse of ``write_checkpoint``.

    Raises:
        CorruptArtefact: A file is missing or does not parse.
    """
    try:
        content = json.loads((folder / "recommender.json").read_text(encoding="utf-8"))
        weights = load_file(folder / "model.safetensors", device=str(torch.device(device)))
        masks = load_numpy(folder / "serving.safetensors")
    except (OSError, ValueError, SafetensorError) as fault:
        raise CorruptArtefact(
            f"a saved recommender cannot be read: {fault}", where=str(folder), hint="delete the folder and run again"
        ) from fault
    weights.update({name: weights[first] for name, first in content["tied"].items()})
    serving = ServingRules(
        **{name: masks[name].astype(np.bool_) if name in masks else None for name in ("blocked", "ignored")}
    )
    return Checkpoint(content["family"], content["shape"], load_table(folder / "sids"), serving), weights
