"""Golden files: what a format gave when somebody last read it.

``GENREC_UPDATE_GOLDEN=1 pytest tests/reporting`` renews them; the diff is then to be read before it is kept.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["hold"]

GOLDEN = Path(__file__).parent / "golden"


def hold(text: str, name: str) -> None:
    """Fail unless the text is the golden file's, to the byte."""
    file = GOLDEN / name
    if os.environ.get("GENREC_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text.encode("utf-8"))
    assert file.is_file(), f"there is no golden file {name}: GENREC_UPDATE_GOLDEN=1 makes it"
    assert text.encode("utf-8") == file.read_bytes()
