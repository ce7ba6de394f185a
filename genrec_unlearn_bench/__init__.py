"""A benchmark suite for unlearning in generative recommendation.

The package answers one question with numbers a reviewer can check: can a generative recommender
forget a brand, a price band, an item or a set of interactions, and what does it cost?

The names in ``__all__`` are its Python API (``api``). They are imported when they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genrec_unlearn_bench.api import (
        available,
        compare,
        leaderboard,
        load_results,
        load_task,
        plot,
        register_method,
        run,
    )
    from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod

__all__ = [
    "MethodConfig",
    "UnlearningMethod",
    "available",
    "compare",
    "leaderboard",
    "load_results",
    "load_task",
    "plot",
    "register_method",
    "run",
]

__version__ = "0.2.0"

PROTOCOL_VERSION = 2
"""Version of the measurement protocol (docs/protocol.md). Results of different versions never share a table."""


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        # The import of the folder leaderboard must not hide the function of that name.
        if name != "leaderboard" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "unlearning.method" if name in ("MethodConfig", "UnlearningMethod") else "api"
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
