"""Resuming an interrupted training: its whole state in one safetensors file, replaced atomically.

The state is everything that the next step depends on: the tensors that move, the optimizer's moments, torch's
generators (dropout), and what the caller adds. What was interrupted ends with the same bits on a CPU as what was not.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.files import atomic_bytes
from genrec_unlearn_bench.progress import StepLog

_PLACE, _MOVING, _OPTIMIZER, _RNG, _EXTRA = "place", "moving.", "optimizer.", "rng.", "extra."


class TrainingPosition(StrictModel):
    """How far a training is."""

    step: int = 0
    score: float = -1.0
    """Best validation NDCG@10 so far; -1 before the first."""
    stale: int = 0
    """Evaluations since then."""
    seconds: float = 0.0
    """Wall-clock spent, over all calls that worked on it."""
    finished: bool = False
    reported: tuple[StepLog, ...] = ()
    """Losses logged so far."""


class Snapshots:
    """The state of the work that ``settings``, ``arrays`` and the first values of ``moving`` determine, in ``folder``,
    which appears with the first snapshot."""

    def __init__(
        self,
        folder: Path,
        settings: str,
        arrays: Iterable[NDArray[np.int64]],
        moving: Mapping[str, Tensor],
        optimizer: Any,
    ) -> None:
        state = hashlib.blake2b(settings.encode(), digest_size=16)
        for array in arrays:
            state.update(f"{array.shape}".encode())
            state.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        for name, tensor in moving.items():
            state.update(save(_on_cpu({name: tensor})))
        self._path, self._moving, self._optimizer = folder / f"{state.hexdigest()}.snapshot", moving, optimizer
        self._began, self._earlier = time.monotonic(), 0.0

    @property
    def seconds(self) -> float:
        """Seconds of all calls together."""
        return self._earlier + (time.monotonic() - self._began)

    def restore(self) -> tuple[TrainingPosition, dict[str, Tensor]] | None:
        """Restore the last state; returns how far it was and what the caller had added. None without a whole file."""
        content = self._path.read_bytes() if self._path.is_file() else b""
        if not content or content[:32] != hashlib.blake2b(content[32:], digest_size=32).digest():
            return None
        tensors = load(content[32:])
        place = TrainingPosition.model_validate_json(bytes(tensors[_PLACE].tolist()))
        self._earlier = place.seconds
        with torch.no_grad():
            for name, tensor in self._moving.items():
                tensor.copy_(tensors[_MOVING + name])
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in _without(_OPTIMIZER, tensors).items():
            index, _, moment = name.partition(".")
            state.setdefault(int(index), {})[moment] = value
        self._optimizer.load_state_dict({"state": state, "param_groups": self._optimizer.state_dict()["param_groups"]})
        torch.set_rng_state(tensors[_RNG + "cpu"])
        if _RNG + "cuda" in tensors:
            torch.cuda.set_rng_state(tensors[_RNG + "cuda"])
        return place, _without(_EXTRA, tensors)

    def write(self, place: TrainingPosition, extra: Mapping[str, Tensor]) -> None:
        """Replace the last state. Raises StorageError, and the last one is still there."""
        place = place.model_copy(update={"seconds": self.seconds})
        tensors = {_PLACE: torch.tensor(list(place.model_dump_json().encode()), dtype=torch.uint8)}
        tensors |= {_MOVING + name: tensor for name, tensor in self._moving.items()}
        for index, moments in self._optimizer.state_dict()["state"].items():
            tensors |= {f"{_OPTIMIZER}{index}.{name}": value for name, value in moments.items()}
        tensors[_RNG + "cpu"] = torch.get_rng_state()
        if any(tensor.is_cuda for tensor in self._moving.values()):
            tensors[_RNG + "cuda"] = torch.cuda.get_rng_state()
        content = save(_on_cpu(tensors | {_EXTRA + name: tensor for name, tensor in extra.items()}))
        atomic_bytes(self._path, hashlib.blake2b(content, digest_size=32).digest() + content, "--cache-dir")


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _without(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with ``prefix``, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
