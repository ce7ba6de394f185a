"""Module outputs of a forward pass, with gradients, through hooks that a ``with`` block owns.

RepNoise's official code registers its hooks on every call and removes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


class _LastModuleReached(Exception):
    """Ends a forward pass after the last tapped module."""


@contextmanager
def tapped(modules: Sequence[nn.Module], *, stop: bool = False, inputs: bool = False) -> Iterator[list[Tensor]]:
    """Collect each module's latest output (its first element if it is a tuple).

    Args:
        stop: End the forward pass once the last of ``modules`` has run. This leaves the ``with`` block as well, so
            statements after the call are not executed.
        inputs: Collect the first input instead of the output.

    Yields:
        One tensor per module, in the order of ``modules``, filled in while the block runs.
    """
    caught: list[Tensor] = [Tensor()] * len(modules)
    last = len(modules) - 1

    def hook(place: int) -> Any:
        def catch(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
            value = given[0] if inputs else output
            caught[place] = value[0] if isinstance(value, tuple) else value
            if stop and place == last:
                raise _LastModuleReached

        return catch

    handles = [module.register_forward_hook(hook(place)) for place, module in enumerate(modules)]
    try:
        yield caught
    except _LastModuleReached:
        pass
    finally:
        for handle in handles:
            handle.remove()
