"""Taking up an interrupted attack: weights, moments, generators and the hits so far, kept at every scored step.

Stored like an interrupted training (``backbones.snapshots``): an attack that was killed ends with the same bits on a
CPU as one that was not. Trainings keep their best weights beside the last ones; an attack ends with its last.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.snapshots import Snapshot, Snapshots, TrainingPosition

__all__ = ["Hits", "Keeper"]

_WEIGHT, _MOMENT, _HITS, _CPU_RNG, _CUDA_RNG = "weight.", "moment.", "hits.", "rng.cpu", "rng.cuda"

Hits = dict[str, Tensor]
"""By part, [S, n] bool: the hits at the steps scored so far."""


class Keeper:
    """Keeps an attack's state and puts it back; without a folder it does nothing.

    Args:
        learned: The parameters that are trained, in the optimizer's order.
    """

    def __init__(
        self, folder: Path | None, fingerprint: str, learned: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer
    ) -> None:
        self._kept = Snapshots(folder, fingerprint) if folder is not None else None
        self._learned, self._optimizer = learned, optimizer
        self._began, self._earlier = time.monotonic(), 0.0

    @property
    def earlier(self) -> float:
        """Seconds of the interrupted pieces."""
        return self._earlier

    def take_up(self) -> tuple[int, Hits] | None:
        """Restore the last state, and say after how many steps that is and what was hit until then."""
        found = self._kept.read() if self._kept else None
        if found is None:
            return None
        self._earlier = found.place.seconds
        tensors = found.current
        with torch.no_grad():
            for number, parameter in enumerate(self._learned):
                parameter.copy_(tensors[f"{_WEIGHT}{number}"])
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith(_MOMENT):
                place, _, kind = name.removeprefix(_MOMENT).partition(".")
                moments.setdefault(int(place), {})[kind] = tensor
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": moments, "param_groups": groups})
        torch.set_rng_state(tensors[_CPU_RNG])
        if _CUDA_RNG in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors[_CUDA_RNG])
        hits = {name.removeprefix(_HITS): tensor for name, tensor in tensors.items() if name.startswith(_HITS)}
        return found.place.step, hits

    def keep(self, step: int, hits: Hits) -> None:
        """Write the state after ``step`` steps over the last one. Raises StorageError."""
        if self._kept is None:
            return
        tensors = {f"{_WEIGHT}{number}": parameter.detach() for number, parameter in enumerate(self._learned)}
        for number, moments in self._optimizer.state_dict()["state"].items():
            tensors |= {f"{_MOMENT}{number}.{kind}": value for kind, value in moments.items()}
        tensors |= {f"{_HITS}{part}": found for part, found in hits.items()}
        tensors[_CPU_RNG] = torch.get_rng_state()
        if any(parameter.is_cuda for parameter in self._learned):
            tensors[_CUDA_RNG] = torch.cuda.get_rng_state()
        seconds = self._earlier + time.monotonic() - self._began
        self._kept.write(Snapshot(TrainingPosition(step=step, score=-1.0, stale=0, seconds=seconds), tensors, {}))
