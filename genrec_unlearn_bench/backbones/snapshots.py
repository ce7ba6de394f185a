"""Where an interrupted training goes on: its whole state in one folder, as safetensors and JSON.

``state.json`` names the two tensor files that belong to it. These are written first, under names of their own, and the
record is replaced last, in one move: whenever the process dies, the record on disk and its files fit together. What an
earlier record named is removed afterwards.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import StorageError

__all__ = ["SECONDS_BETWEEN", "Place", "Reported", "Snapshot", "Snapshots", "fingerprint"]

SECONDS_BETWEEN = 60.0
"""At most this much work is lost to a kill (more where writing takes long: it never takes above a twentieth)."""

RECORD = "state.json"


class Reported(StrictModel):
    """One step's losses, as they were logged."""

    stage: str
    step: int
    losses: dict[str, float]


class Place(StrictModel):
    """How far a training is."""

    step: int
    score: float
    """Best validation NDCG@10 so far; -1 before the first."""
    stale: int
    """Evaluations since then."""
    seconds: float
    """Wall-clock spent, over all processes that worked on it."""
    finished: bool = False
    reported: tuple[Reported, ...] = ()


class _Record(StrictModel):
    format: int = 1
    fingerprint: str
    """Of everything the training depends on; another training's state is left alone."""
    place: Place
    files: dict[str, str] = Field(default_factory=dict)
    """File name -> blake2b-256 of its content, by role."""
    digests: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state after ``place.step`` steps.

    Attributes:
        current: Weights, buffers, optimizer and generators by name; empty once the training has finished.
        best: The weights with the best validation value.
    """

    place: Place
    current: Mapping[str, Tensor]
    best: Mapping[str, Tensor]


class Snapshots:
    """Reads and writes the snapshots of one training. The folder appears with the first one."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder / fingerprint[:32]
        self._fingerprint = fingerprint
        self._best_of: float | None = None
        self._best_file: tuple[str, str] | None = None

    def read(self) -> Snapshot | None:
        """The last snapshot written; None where there is none, or none that is whole."""
        try:
            record = _Record.model_validate_json((self.folder / RECORD).read_bytes())
        except (OSError, ValidationError):
            return None
        if record.fingerprint != self._fingerprint:
            return None
        parts: dict[str, dict[str, Tensor]] = {}
        for role, name in record.files.items():
            tensors = _tensors(self.folder / name, record.digests.get(role))
            if tensors is None:
                return None
            parts[role] = tensors
        if "best" not in parts or ("current" not in parts and not record.place.finished):
            return None
        self._best_of = record.place.score
        self._best_file = (record.files["best"], record.digests["best"])
        return Snapshot(record.place, parts.get("current", {}), parts["best"])

    def write(self, snapshot: Snapshot) -> None:
        """Write a snapshot over the last one.

        Raises:
            StorageError: The file system refused; the last snapshot is still there.
        """
        try:
            self._write(snapshot)
        except (OSError, SafetensorError) as fault:
            reason = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
            raise StorageError(
                f"the training's state could not be written: {reason}",
                where=str(self.folder),
                hint="make room or choose another place (--cache-dir); the same command then goes on where it stopped",
            ) from fault

    def _write(self, snapshot: Snapshot) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        place = snapshot.place
        if self._best_file is None or self._best_of != place.score:
            name = f"best-{place.step}.safetensors"
            self._best_file = (name, _put(self.folder / name, save(_on_cpu(snapshot.best))))
            self._best_of = place.score
        files, digests = {"best": self._best_file[0]}, {"best": self._best_file[1]}
        if snapshot.current:
            files["current"] = f"current-{place.step}.safetensors"
            digests["current"] = _put(self.folder / files["current"], save(_on_cpu(snapshot.current)))
        record = _Record(fingerprint=self._fingerprint, place=place, files=files, digests=digests)
        draft = self.folder / f"{RECORD}.new"
        _put(draft, record.model_dump_json(indent=1).encode())
        os.replace(draft, self.folder / RECORD)
        for path in self.folder.glob("*.safetensors"):
            if path.name not in files.values():
                path.unlink(missing_ok=True)


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _put(path: Path, content: bytes) -> str:
    """Write and wait for the disk; returns the digest. A record must never reach the disk before what it names."""
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def _tensors(path: Path, digest: str | None) -> dict[str, Tensor] | None:
    try:
        content = path.read_bytes()
        if hashlib.blake2b(content, digest_size=32).hexdigest() != digest:
            return None
        tensors: dict[str, torch.Tensor] = load(content)
    except (OSError, SafetensorError):
        return None
    return tensors


def fingerprint(text: str, arrays: Iterable[NDArray[np.int64]], weights: Mapping[str, Tensor]) -> str:
    """What tells one training from another: its settings as text, its examples, and the weights it starts from."""
    state = hashlib.blake2b(text.encode(), digest_size=32)
    for array in arrays:
        state.update(f"{array.shape}".encode())
        state.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    for name, tensor in weights.items():
        # safetensors writes every kind of number alike, bf16 included, which NumPy does not know.
        state.update(save(_on_cpu({name: tensor})))
    return state.hexdigest()
