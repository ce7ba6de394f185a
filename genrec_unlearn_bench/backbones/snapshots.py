"""Resuming an interrupted training: its whole state in one safetensors file.

The state is everything that the loop's next step depends on: the weights, the optimizer's moments, torch's generators
(dropout), the best weights with their score, and the losses logged so far, which belong to the result. A training that
was interrupted ends with the same bits on a CPU as one that was not.

A file is named after its step and the digest of its content, and gets that name once it is whole on the disk: whenever
the process dies, the last snapshot is there or the one before.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load, save
from torch import Tensor

from genrec_unlearn_bench.backbones.distributed import Processes, alike, whole
from genrec_unlearn_bench.backbones.early_stopping import EarlyStopping, learned
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.progress import StepLog

SECONDS_BETWEEN = 60.0
"""At most this much work is lost to a kill; more where writing takes long, which may take a twentieth of the time."""

_PLACE, _BEST, _WEIGHT, _OPTIMIZER, _RNG = "place", "best.", "weight.", "optimizer.", "rng."


class TrainingPosition(StrictModel):
    """How far a training is."""

    step: int
    score: float = -1.0
    """Best validation NDCG@10 so far; -1 before the first."""
    stale: int = 0
    """Evaluations since then."""
    seconds: float
    """Wall-clock spent, over all processes that worked on it."""
    finished: bool = False
    reported: tuple[StepLog, ...] = ()
    """Losses logged so far."""


class Snapshots:
    """Reads and writes the snapshots of one training. The folder appears with the first one."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder / fingerprint[:32]

    def read(self) -> tuple[TrainingPosition, dict[str, Tensor]] | None:
        """The last snapshot that is whole; None where there is none."""
        for path in sorted(self.folder.glob("*.safetensors"), reverse=True):
            content = path.read_bytes()
            if path.stem.endswith(_digest(content)):
                with safe_open(path, "pt") as source:
                    return TrainingPosition.model_validate_json(source.metadata()[_PLACE]), load(content)
        return None

    def write(self, place: TrainingPosition, tensors: Mapping[str, Tensor]) -> None:
        """Write a snapshot over the last one, which is still there if the file system refuses (StorageError)."""
        with guarded(self.folder, "--cache-dir"):
            self.folder.mkdir(parents=True, exist_ok=True)
            content = save(_on_cpu(tensors), {_PLACE: place.model_dump_json()})
            path = self.folder / f"{place.step:010d}-{_digest(content)}.safetensors"
            draft = self.folder / "draft"
            _put(draft, content)
            os.replace(draft, path)
            for other in self.folder.glob("*.safetensors"):
                if other != path:
                    other.unlink(missing_ok=True)


def _put(path: Path, content: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def fingerprint(text: str, arrays: Iterable[NDArray[np.int64]], weights: Mapping[str, Tensor]) -> str:
    """Digest of a training: its settings as text, its examples, and the weights it starts from."""
    state = hashlib.blake2b(text.encode(), digest_size=32)
    for array in arrays:
        state.update(f"{array.shape}".encode())
        state.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    for name, tensor in weights.items():
        # By safetensors, because NumPy has no bfloat16.
        state.update(save(_on_cpu({name: tensor})))
    return state.hexdigest()


class Resumption:
    """Saves and restores a training's state; without ``snapshots`` it only reads the clock.

    Several processes call it together: split tensors are saved whole, the first process writes, all of them read.
    """

    def __init__(self, snapshots: Snapshots | None, optimizer: Any, best: EarlyStopping, processes: Processes) -> None:
        self._processes, self._snapshots, self._optimizer, self._best = processes, snapshots, optimizer, best
        self._module, self._progress = best.recommender.module, best.progress
        self._first = len(self._progress.steps)
        self._began = self._last = time.monotonic()
        self._cost = self._earlier = 0.0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def seconds(self) -> float:
        """Seconds of all calls together."""
        return self._earlier + self.elapsed

    @property
    def due(self) -> bool:
        """Whether enough work has been done since the last snapshot to write another."""
        return time.monotonic() - self._last >= max(SECONDS_BETWEEN, 20 * self._cost)

    def restore(self) -> TrainingPosition | None:
        """Restore the last snapshot, if there is one; returns how far it was."""
        found = self._snapshots.read() if self._snapshots else None
        if found is None:
            return None
        place, tensors = found
        self._best.resume(place.score, place.stale, _without(_BEST, tensors))
        for line in place.reported:
            self._progress.log(line.stage, line.step, line.losses)
        self._earlier = place.seconds
        self._progress.earlier_seconds += place.seconds
        with torch.no_grad():
            for name, tensor in self._moving().items():
                tensor.copy_(alike(tensors[_WEIGHT + name], tensor))
        restore_optimizer(self._optimizer, tensors, _OPTIMIZER)
        restore_generators(_without(f"{_RNG}{self._processes.index}.", tensors))
        return place

    def keep(self, step: int, *, finished: bool) -> None:
        """Write a snapshot, unless the training has diverged."""
        if self._snapshots is None or self._progress.diverged:
            return
        began = time.monotonic()
        place = TrainingPosition(
            step=step,
            score=self._best.score,
            stale=self._best.stale,
            seconds=self.seconds,
            finished=finished,
            reported=tuple(self._progress.steps[self._first :]),
        )
        tensors = {_BEST + name: whole(tensor) for name, tensor in self._best.weights.items()}
        tensors |= {_WEIGHT + name: whole(tensor) for name, tensor in self._moving().items()}
        tensors |= optimizer_state(self._optimizer, _OPTIMIZER)
        on_cuda = any(parameter.is_cuda for parameter in self._module.parameters())
        for index, states in enumerate(self._processes.collect(generator_states(on_cuda=on_cuda))):
            tensors |= {f"{_RNG}{index}.{name}": state for name, state in states.items()}
        if self._processes.first:
            self._snapshots.write(place, tensors)
        # The others wait: one that began the next call at once would read the snapshot before this one.
        self._processes.agree(True)
        self._last = time.monotonic()
        self._cost = self._last - began

    def _moving(self) -> dict[str, Tensor]:
        stored = self._module.state_dict()
        buffers = {name: value for name, value in self._module.named_buffers() if name in stored}
        return {**learned(self._module), **buffers}


def _without(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with ``prefix``, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def optimizer_state(optimizer: Any, prefix: str) -> dict[str, Tensor]:
    """Moments of an optimizer by ``<prefix><parameter>.<moment>``; all processes call it together."""
    # Sorted: a state read from a file has no fixed order, and all processes have to gather the same tensor.
    return {
        f"{prefix}{index}.{name}": whole(moments[name])
        for index, moments in sorted(optimizer.state_dict()["state"].items())
        for name in sorted(moments)
    }


def restore_optimizer(optimizer: Any, tensors: Mapping[str, Tensor], prefix: str) -> None:
    """The inverse of ``optimizer_state``."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in _without(prefix, tensors).items():
        index, _, moment = name.partition(".")
        state.setdefault(int(index), {})[moment] = alike(value, parameters[int(index)]) if value.ndim else value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def generator_states(*, on_cuda: bool) -> dict[str, Tensor]:
    """torch's global generators of this process."""
    return {"cpu": torch.get_rng_state()} | ({"cuda": torch.cuda.get_rng_state()} if on_cuda else {})


def restore_generators(states: Mapping[str, Tensor]) -> None:
    """The inverse of ``generator_states``."""
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
