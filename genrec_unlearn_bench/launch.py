"""How many processes were started for one run, and which one this is.

``accelerate launch`` and ``torchrun`` say so in the environment. The first process owns files, results and the
terminal; the others compute along.
"""

from __future__ import annotations

import os


def launched() -> int:
    """Processes of this launch; 1 without a launcher."""
    return _number("WORLD_SIZE", 1)


def place() -> int:
    """Which of them this is, from 0."""
    return _number("RANK", 0)


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else otherwise
