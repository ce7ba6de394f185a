"""What a method does besides its work: prints, global random state, settings of torch, files and the network.

A method is an ordinary Python function, so none of this can be forbidden; it can be seen. Reads are seen through
Python's audit events, which native readers do not raise: the rule about imports covers those.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

__all__ = ["Seen", "watched"]


@dataclass
class Seen:
    """What was seen, each part as sentences."""

    printed: str = ""
    randomness: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)


@contextlib.contextmanager
def watched(roots: Sequence[Path]) -> Iterator[Seen]:
    """Watch whatever runs in the block.

    Args:
        roots: Folders of the suite (cache, data) in which nothing is to be opened.
    """
    seen, said = Seen(), io.StringIO()
    listener = _Listener(tuple(str(root.resolve()) for root in roots), seen.reached)
    python, numpy = random.getstate(), _numpy_state()
    torch_seed, torch_state, settings = torch.initial_seed(), torch.get_rng_state(), _settings()
    dropped: list[bool] = []
    hook = register_module_forward_pre_hook(lambda part, inputs: _note_dropout(part, dropped))
    _listen(listener)
    try:
        with contextlib.redirect_stdout(said):
            yield seen
    finally:
        _LISTENERS.remove(listener)
        hook.remove()
        seen.printed = said.getvalue()
        if random.getstate() != python:
            seen.randomness.append("it draws from Python's global generator (random)")
        if _numpy_state() != numpy:
            seen.randomness.append("it draws from NumPy's global generator (np.random)")
        if torch.initial_seed() != torch_seed:
            seen.randomness.append("it sets torch's global seed (torch.manual_seed)")
        elif not torch.equal(torch.get_rng_state(), torch_state) and not dropped:
            seen.randomness.append("it draws from torch's global generator, without dropout being on")
        now = _settings()
        _put_back(settings)
        seen.settings += [
            f"{name} was {settings[name]} and is {now[name]}" for name in now if now[name] != settings[name]
        ]


def _note_dropout(part: torch.nn.Module, dropped: list[bool]) -> None:
    rate = getattr(part, "p", 0.0) if isinstance(part, torch.nn.modules.dropout._DropoutNd) else 0.0
    # Networks with dropout of their own call the function, which shows only as a part in training mode.
    functional = getattr(part, "dropout", 0.0)
    if part.training and (rate or (isinstance(functional, float) and functional)):
        dropped.append(True)


def _numpy_state() -> tuple[bytes, int]:
    state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002 - the global generator is what is meant
    return state["key"].tobytes(), int(state["pos"])


def _settings() -> dict[str, Any]:
    return {
        "torch's default type": torch.get_default_dtype(),
        "the number of threads": torch.get_num_threads(),
        "gradients (torch.set_grad_enabled)": torch.is_grad_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "the working folder": os.getcwd(),
    }


def _put_back(settings: dict[str, Any]) -> None:
    """So that one rule's fault is no other rule's."""
    torch.set_default_dtype(settings["torch's default type"])
    torch.set_num_threads(settings["the number of threads"])
    torch.set_grad_enabled(settings["gradients (torch.set_grad_enabled)"])
    torch.use_deterministic_algorithms(settings["deterministic algorithms"], warn_only=True)
    os.chdir(settings["the working folder"])


class _Listener:
    """Hears audit events while it is listed."""

    def __init__(self, roots: tuple[str, ...], reached: list[str]) -> None:
        self._roots, self._reached = roots, reached

    def hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "socket.connect":
            self._reached.append(f"it connects to {arguments[1]!r}")
        elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if any(path.startswith(f"{root}{os.sep}") for root in self._roots):
                self._reached.append(f"it opens {path}")


_LISTENERS: list[_Listener] = []
_HOOKED: list[bool] = []


def _listen(listener: _Listener) -> None:
    _LISTENERS.append(listener)
    if not _HOOKED:
        # An audit hook cannot be taken out again, so there is one, which hears nothing while nobody listens.
        _HOOKED.append(True)
        sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    for listener in tuple(_LISTENERS):
        listener.hear(event, arguments)
