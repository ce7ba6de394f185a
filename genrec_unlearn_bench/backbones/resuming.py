"""Taking up an interrupted training: everything the loop's next step depends on, kept now and then and put back.

These are the weights, the optimizer's moments, torch's generators (dropout), the best weights with their score, and the
losses reported so far, which belong to the result. A training that was interrupted ends with the same bits on a CPU as
one that was not.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones import snapshots
from genrec_unlearn_bench.backbones.early_stopping import EarlyStopping
from genrec_unlearn_bench.backbones.processes import Processes
from genrec_unlearn_bench.backbones.sharding import alike, whole
from genrec_unlearn_bench.backbones.snapshots import Place, Reported, Snapshot, Snapshots
from genrec_unlearn_bench.progress import Progress

__all__ = ["Resumption"]

_WEIGHT, _OPTIMIZER, _CPU_RNG, _CUDA_RNG = "weight.", "optimizer.", "rng.cpu", "rng.cuda"


class Resumption:
    """Keeps a training's state and puts it back; without ``kept`` it does nothing but read the clock.

    Several processes call it together: what is split is kept whole, the first writes, and all of them read.
    """

    def __init__(
        self,
        kept: Snapshots | None,
        module: nn.Module,
        optimizer: Any,
        best: EarlyStopping,
        progress: Progress,
        processes: Processes,
    ) -> None:
        self._processes = processes
        self._kept, self._module, self._optimizer = kept, module, optimizer
        self._best, self._progress = best, progress
        self._first = len(progress.steps)
        self._began = self._last = time.monotonic()
        self._cost = self._earlier = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds of this piece."""
        return time.monotonic() - self._began

    @property
    def seconds(self) -> float:
        """Seconds of all pieces."""
        return self._earlier + self.elapsed

    @property
    def due(self) -> bool:
        """Whether enough work has been done since the last snapshot to write another."""
        return time.monotonic() - self._last >= max(snapshots.SECONDS_BETWEEN, 20 * self._cost)

    def take_up(self) -> Place | None:
        """Restore the last snapshot, if there is one, and say how far it was."""
        found = self._kept.read() if self._kept else None
        if found is None:
            return None
        place = found.place
        self._best.take_over(place.score, place.stale, found.best)
        for line in place.reported:
            self._progress.log(line.stage, line.step, line.losses)
        self._earlier = place.seconds
        self._progress.earlier_seconds += place.seconds
        if found.current:
            self._restore(dict(found.current))
        return place

    def keep(self, step: int, *, finished: bool) -> None:
        """Write a snapshot. A diverged training is not worth one."""
        if self._kept is None or self._progress.diverged:
            return
        began = time.monotonic()
        place = Place(
            step=step,
            score=self._best.score,
            stale=self._best.stale,
            seconds=self.seconds,
            finished=finished,
            reported=tuple(
                Reported(stage=line.stage, step=line.step, losses=dict(line.losses))
                for line in self._progress.steps[self._first :]
            ),
        )
        best = {name: whole(tensor) for name, tensor in self._best.weights.items()}
        snapshot = Snapshot(place, {} if finished else self._current(), best)
        if self._processes.first:
            self._kept.write(snapshot)
        self._last = time.monotonic()
        self._cost = self._last - began

    def _current(self) -> dict[str, Tensor]:
        tensors = {_WEIGHT + name: whole(tensor) for name, tensor in self._moving().items()}
        # What was read from a file is in no certain order, and the processes have to ask for the same tensor.
        for index, moments in sorted(self._optimizer.state_dict()["state"].items()):
            tensors |= {f"{_OPTIMIZER}{index}.{name}": whole(moments[name]) for name in sorted(moments)}
        tensors |= self._of_each(_CPU_RNG, torch.get_rng_state())
        if any(parameter.is_cuda for parameter in self._module.parameters()):
            tensors |= self._of_each(_CUDA_RNG, torch.cuda.get_rng_state())
        return tensors

    def _of_each(self, name: str, state: Tensor) -> dict[str, Tensor]:
        """Every process's own, by name."""
        return {self._own(name, index): other for index, other in enumerate(self._processes.collect(state))}

    @staticmethod
    def _own(name: str, index: int) -> str:
        return f"{name}.{index}" if index else name

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self._moving().items():
                tensor.copy_(alike(tensors[_WEIGHT + name], tensor))
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith(_OPTIMIZER):
                index, _, moment = name.removeprefix(_OPTIMIZER).partition(".")
                moments.setdefault(int(index), {})[moment] = tensor
        groups = self._optimizer.state_dict()["param_groups"]
        learned = [parameter for group in self._optimizer.param_groups for parameter in group["params"]]
        for number, of_one in moments.items():
            for kind, value in of_one.items():
                of_one[kind] = alike(value, learned[number]) if value.ndim else value
        self._optimizer.load_state_dict({"state": moments, "param_groups": groups})
        cpu, cuda = (self._own(name, self._processes.index) for name in (_CPU_RNG, _CUDA_RNG))
        torch.set_rng_state(tensors[cpu])
        if cuda in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors[cuda])

    def _moving(self) -> dict[str, Tensor]:
        """Parameters that learn, and buffers."""
        learned = {name: value for name, value in self._module.named_parameters() if value.requires_grad}
        stored = self._module.state_dict()
        return learned | {name: value for name, value in self._module.named_buffers() if name in stored}
