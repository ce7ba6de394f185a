"""Memory that runs out, on the device or the host, as an error that names the stage and what to lower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import OutOfMemory

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["enough_memory", "is_out_of_memory", "smaller"]

_SIGNS = ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate memory", "alloc_failed")
"""How torch's allocators, cuBLAS and the system say it where they raise a plain RuntimeError or OSError."""

_HALVED = ("rows_at_once", "batch_size", "micro_batch_size", "history_limit")
_SWITCHED_ON = ("gradient_checkpointing", "checkpointing")


def is_out_of_memory(fault: BaseException) -> bool:
    """Whether a fault says that memory ran out."""
    if isinstance(fault, MemoryError):
        return True
    return isinstance(fault, RuntimeError | OSError) and any(sign in str(fault).lower() for sign in _SIGNS)


@contextmanager
def enough_memory(work: str, *, device: str, configs: Mapping[str, BaseModel]) -> Iterator[None]:
    """Turn exhausted memory inside the block into OutOfMemory; other faults pass.

    Args:
        work: What the block does, as the message names it.
        configs: Option of the command line -> configuration that it changes.
    """
    try:
        yield
    except Exception as fault:
        if not is_out_of_memory(fault):
            raise
        _release(device)
        advice = [f"{option} {change}" for option, config in configs.items() for change in smaller(config)]
        advice += ["a smaller --scale", "another --device"]
        raise OutOfMemory(
            f"memory is exhausted on {device} during {work}: {(str(fault).strip() or 'no details').splitlines()[0]}",
            hint="finished stages are kept; run it again with one of: " + ", ".join(advice),
        ) from fault


def smaller(config: BaseModel) -> list[str]:
    """``name=value`` changes that take less memory, those that leave the result as it is first."""
    fields = dict(_leaves(config.model_dump()))
    found = []
    batch = next((value for name, value in fields.items() if name.rpartition(".")[2] == "batch_size"), None)
    for name in sorted(fields, key=_order):
        value, last = fields[name], name.rpartition(".")[2]
        if last == "rows_at_once" and value is None and isinstance(batch, int):
            found.append(f"{name}={max(1, batch // 8)}")
        elif last in _HALVED and isinstance(value, int) and value > 1:
            found.append(f"{name}={value // 2}")
        elif last in _SWITCHED_ON and value is False:
            found.append(f"{name}=true")
    return found


def _order(name: str) -> tuple[int, str]:
    ranks = (_HALVED[0], *_SWITCHED_ON, *_HALVED[1:])
    last = name.rpartition(".")[2]
    return (ranks.index(last) if last in ranks else len(ranks), name)


def _leaves(content: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _release(device: str) -> None:
    """Give what the failed work had cached back to the device, for the cells that follow."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
