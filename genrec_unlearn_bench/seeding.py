"""Seeds derived by name, so that no generator is global and data seeds are shared by all methods.

``derive(0, "task", "demo-brand")`` is the same number on every machine and in every version of Python,
and independent (in the sense of a cryptographic hash) of ``derive(0, "task", "demo-price")``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(seed: int, *names: str | int) -> int:
    """A seed in [0, 2**63) that depends on ``seed`` and every name, in order."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    """A fresh NumPy generator for the derived seed."""
    return np.random.default_rng(derive(seed, *names))


def torch_generator(seed: int, *names: str | int) -> torch.Generator:
    """A fresh CPU torch generator for the derived seed."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *names))


@contextmanager
def generators_kept(device: str = "cpu") -> Iterator[None]:
    """Put torch's global generators back after the block: the CPU's, and that of ``device`` where it is a GPU.

    Other GPUs are left alone; on a CPU, CUDA is not started.
    """
    import torch

    place = torch.device(device)
    gpus = [torch.cuda.current_device() if place.index is None else place.index] if place.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        yield


@contextmanager
def torch_seeded(seed: int, device: str = "cpu") -> Iterator[None]:
    """torch's global generator started from ``seed`` inside the block (on CUDA that device's too), then put back."""
    import torch

    with generators_kept(device):
        torch.manual_seed(seed)
        yield
