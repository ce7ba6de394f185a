"""The processes that train one recommender together, as ``accelerate launch`` or ``torchrun`` started them.

Each holds the whole network, or its share of the blocks (``sharding``), and takes its share of every step's samples.
What they do next must be the same everywhere, or they wait for each other for ever: whatever depends on a clock, a file
or a measurement is decided by the first and told to the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.backbones.batches import in_parts
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.launch import launched

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Part", "Processes", "shares"]

T = TypeVar("T")

PATIENCE = timedelta(days=30)
"""How long the others wait while the first prepares data or measures. A process that dies ends them all: the launcher
sees to it."""


@dataclass(frozen=True, eq=False)
class Part:
    """Samples that one process computes at once.

    Attributes:
        rows: Their indices; never empty.
        weight: Factor of their mean loss in the step's, with the factor for averaging over processes in it.
    """

    rows: IntArray
    weight: float


def shares(
    rows: IntArray,
    *,
    terms: NDArray[np.float64],
    kinds: IntArray,
    size: int,
    index: int = 0,
    processes: int = 1,
) -> list[Part]:
    """What process ``index`` computes of a step, in parts of at most ``size`` samples.

    The mean over processes of their weighted losses is the mean over all terms of ``rows``, however they are split.
    Processes get equally many parts of each kind, since a sharded block waits in every pass for the others; where there
    is nothing left for one, it computes a sample that counts nothing.

    Args:
        terms: [M] terms that each sample has in the loss's mean.
        kinds: [M] which samples take one pass over the network together.
    """
    whole = float(terms[rows].sum())
    if processes == 1:
        return [Part(part, float(terms[part].sum()) / whole) for part in in_parts(rows, size)]
    parts: list[Part] = []
    for kind in np.unique(kinds[rows]):
        of_kind = rows[kinds[rows] == kind]
        largest = -(-len(of_kind) // processes)
        for part in np.array_split(of_kind[index::processes], -(-largest // size)):
            weight = processes * float(terms[part].sum()) / whole if len(part) else 0.0
            parts.append(Part(part if len(part) else of_kind[:1], weight))
    return parts


class Processes:
    """This process among those of the launch; one alone where there was none."""

    def __init__(self, device: str) -> None:
        from accelerate import Accelerator, InitProcessGroupKwargs

        on_cuda = torch.device(device).type == "cuda"
        waiting = [InitProcessGroupKwargs(timeout=PATIENCE)] if launched() > 1 else []
        self.accelerator: Accelerator = Accelerator(
            cpu=not on_cuda, mixed_precision="bf16" if on_cuda else "no", kwargs_handlers=waiting
        )

    @property
    def number(self) -> int:
        return int(self.accelerator.num_processes)

    @property
    def index(self) -> int:
        return int(self.accelerator.process_index)

    @property
    def first(self) -> bool:
        return self.index == 0

    def agree(self, value: T) -> T:
        """The first process's value, everywhere."""
        if self.number > 1:
            held = [value]
            torch.distributed.broadcast_object_list(held, src=0)
            return held[0]
        return value

    def collect(self, value: T) -> list[T]:
        """Every process's value, in their order, everywhere."""
        if self.number == 1:
            return [value]
        held: list[T] = [value] * self.number
        torch.distributed.all_gather_object(held, value)
        return held

    def mean(self, value: Tensor) -> Tensor:
        """Mean over the processes."""
        if self.number == 1:
            return value
        total = value.detach().clone()
        torch.distributed.all_reduce(total)
        return total / self.number

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """The adapters call parts of the network, so a DDP wrapper's own hooks would not run."""
        if self.number == 1:
            return
        for parameter in parameters:
            if parameter.grad is not None:
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad /= self.number
