"""Golden files: what a format gave when somebody last read it.

``GENREC_UPDATE_GOLDEN=1 pytest tests/reporting`` renews them; the diff is then to be read before it is kept.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

__all__ = ["golden"]

GOLDEN = Path(__file__).parent / "golden"


def golden(text: str, name: str) -> str:
    """What the golden file says, to the byte; where goldens are renewed, the text becomes it."""
    file = GOLDEN / name
    if os.environ.get("GENREC_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text.encode("utf-8"))
    assert file.is_file(), f"there is no golden file {name}: GENREC_UPDATE_GOLDEN=1 makes it"
    return file.read_bytes().decode("utf-8")


def rendered(draw: Callable[..., None], *shown: Any, **options: Any) -> str:
    """What a terminal of 120 columns without colour shows."""
    out = io.StringIO()
    console = Console(
        file=out, width=120, color_system=None, force_terminal=False, highlight=False, markup=False, _environ={}
    )
    draw(console, *shown, **options)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
