"""Temporary freezing of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def only(module: nn.Module, parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Let only ``parameters`` of ``module`` require gradients inside the block, so backward passes end at them."""
    chosen = {id(parameter) for parameter in parameters}
    before = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    try:
        for parameter, _ in before:
            parameter.requires_grad_(id(parameter) in chosen)
        yield
    finally:
        for parameter, required in before:
            parameter.requires_grad_(required)
