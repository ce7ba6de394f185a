"""Resuming an interrupted training: its whole state in one folder, as safetensors and JSON.

The state is everything that the loop's next step depends on: the weights, the optimizer's moments, torch's generators
(dropout), the best weights with their score, and the losses logged so far, which belong to the result. A training that
was interrupted ends with the same bits on a CPU as one that was not.

``state.json`` names the two tensor files that belong to it. These are written first, under names of their own, and the
record is replaced last: whenever the process dies, the record on disk and its files fit together.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from genrec_unlearn_bench.backbones.distributed import Processes, alike, whole
from genrec_unlearn_bench.backbones.early_stopping import EarlyStopping
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.progress import StepLog

SECONDS_BETWEEN = 60.0
"""At most this much work is lost to a kill; more where writing takes long, which may take a twentieth of the time."""

RECORD = "state.json"

_WEIGHT, _OPTIMIZER, _CPU_RNG, _CUDA_RNG = "weight.", "optimizer.", "rng.cpu", "rng.cuda"


class TrainingPosition(StrictModel):
    """How far a training is."""

    step: int
    score: float
    """Best validation NDCG@10 so far; -1 before the first."""
    stale: int
    """Evaluations since then."""
    seconds: float
    """Wall-clock spent, over all processes that worked on it."""
    finished: bool = False
    reported: tuple[StepLog, ...] = ()
    """Losses logged so far."""


class _Record(StrictModel):
    format: int = 1
    fingerprint: str
    """See ``fingerprint``; a snapshot of another training is not read."""
    place: TrainingPosition
    files: dict[str, tuple[str, str]]
    """Name of a file and blake2b-256 of its content, by role."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state after ``place.step`` steps."""

    place: TrainingPosition
    current: Mapping[str, Tensor]
    """Weights, buffers, optimizer and generators by name; empty once the training has finished."""
    best: Mapping[str, Tensor]
    """The weights with the best validation value."""


class Snapshots:
    """Reads and writes the snapshots of one training. The folder appears with the first one."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder / fingerprint[:32]
        self._fingerprint = fingerprint
        self._best_of: float | None = None
        self._best_file: tuple[str, str] | None = None

    def read(self) -> Snapshot | None:
        """The last snapshot written; None where there is none, or none that is whole."""
        parts: dict[str, dict[str, Tensor]] = {}
        try:
            record = _Record.model_validate_json((self.folder / RECORD).read_bytes())
            for role, (name, digest) in record.files.items():
                content = (self.folder / name).read_bytes()
                if _digest(content) == digest:
                    parts[role] = load(content)
        except (OSError, ValidationError, SafetensorError):
            return None
        needed = {"best", *record.files} | (set() if record.place.finished else {"current"})
        if record.fingerprint != self._fingerprint or parts.keys() != needed:
            return None
        self._best_of = record.place.score
        self._best_file = record.files["best"]
        return Snapshot(record.place, parts.get("current", {}), parts["best"])

    def write(self, snapshot: Snapshot) -> None:
        """Write a snapshot over the last one.

        Raises:
            StorageError: The file system refused; the last snapshot is still there.
        """
        with guarded(self.folder, "--cache-dir"):
            self.folder.mkdir(parents=True, exist_ok=True)
            place = snapshot.place
            if self._best_file is None or self._best_of != place.score:
                name = f"best-{place.step}.safetensors"
                self._best_file = (name, _put(self.folder / name, save(_on_cpu(snapshot.best))))
                self._best_of = place.score
            files = {"best": self._best_file}
            if snapshot.current:
                name = f"current-{place.step}.safetensors"
                files["current"] = (name, _put(self.folder / name, save(_on_cpu(snapshot.current))))
            record = _Record(fingerprint=self._fingerprint, place=place, files=files)
            draft = self.folder / f"{RECORD}.new"
            _put(draft, record.model_dump_json(indent=1).encode())
            os.replace(draft, self.folder / RECORD)
            for path in self.folder.glob("*.safetensors"):
                if path.name not in {name for name, _ in files.values()}:
                    path.unlink(missing_ok=True)


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _put(path: Path, content: bytes) -> str:
    """Write and fsync; returns the digest. A record must never reach the disk before the files it names."""
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    return _digest(content)


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
        place = found.place
        self._best.resume(place.score, place.stale, found.best)
        for line in place.reported:
            self._progress.log(line.stage, line.step, line.losses)
        self._earlier = place.seconds
        self._progress.earlier_seconds += place.seconds
        if found.current:
            self._restore(dict(found.current))
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
        best = {name: whole(tensor) for name, tensor in self._best.weights.items()}
        current = {} if finished else self._current()
        if self._processes.first:
            self._snapshots.write(Snapshot(place, current, best))
        # The others wait: one that began the next call at once would read the snapshot before this one.
        self._processes.agree(True)
        self._last = time.monotonic()
        self._cost = self._last - began

    def _current(self) -> dict[str, Tensor]:
        tensors = {_WEIGHT + name: whole(tensor) for name, tensor in self._moving().items()}
        tensors |= optimizer_state(self._optimizer, _OPTIMIZER)
        on_cuda = any(parameter.is_cuda for parameter in self._module.parameters())
        for name, state in generator_states(on_cuda=on_cuda).items():
            tensors |= {_of_process(name, index): one for index, one in enumerate(self._processes.collect(state))}
        return tensors

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self._moving().items():
                tensor.copy_(alike(tensors[_WEIGHT + name], tensor))
        restore_optimizer(self._optimizer, tensors, _OPTIMIZER)
        restore_generators(tensors, self._processes.index)

    def _moving(self) -> dict[str, Tensor]:
        learned = {name: value for name, value in self._module.named_parameters() if value.requires_grad}
        stored = self._module.state_dict()
        return learned | {name: value for name, value in self._module.named_buffers() if name in stored}


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
    learned = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith(prefix):
            index, _, moment = name.removeprefix(prefix).partition(".")
            state.setdefault(int(index), {})[moment] = alike(value, learned[int(index)]) if value.ndim else value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def generator_states(*, on_cuda: bool) -> dict[str, Tensor]:
    """torch's global generators of this process."""
    return {_CPU_RNG: torch.get_rng_state()} | ({_CUDA_RNG: torch.cuda.get_rng_state()} if on_cuda else {})


def restore_generators(tensors: Mapping[str, Tensor], process: int = 0) -> None:
    cpu, cuda = (_of_process(name, process) for name in (_CPU_RNG, _CUDA_RNG))
    torch.set_rng_state(tensors[cpu])
    if cuda in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors[cuda])


def _of_process(name: str, index: int) -> str:
    return f"{name}.{index}" if index else name
