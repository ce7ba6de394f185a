"""The terminal: tables on stdout, JSON, and the first of many lines; progress is ``progress_display``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import printable
from genrec_unlearn_bench.progress_display import duration, open_store, print_line, progressing

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["duration", "first_lines", "open_store", "print_json", "print_line", "progressing", "stdout"]

PIPED_WIDTH = 120
"""Columns assumed where output is piped and nothing says otherwise; rich would take 80 and wrap tables."""

MOST_LINES = 10


def stdout() -> Console:
    """A console on stdout, wide enough for tables when piped.

    Brackets are text, not markup: titles and paths may hold them. Control characters in texts are shown escaped.
    """
    from rich.console import Console
    from rich.segment import Segment

    class EscapingConsole(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
            for segment in super().render(*arguments, **options):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(printable(segment.text, keep="\n"), segment.style)

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return EscapingConsole(width=PIPED_WIDTH if piped else None, highlight=False, soft_wrap=False, markup=False)


def print_json(content: Any) -> None:
    """Machine-readable output: JSON on stdout, nothing else there. In ASCII, so that no terminal acts on a name."""
    print(json.dumps(content, indent=2, allow_nan=False))


def first_lines(texts: Sequence[str], *, most: int = MOST_LINES, more: str = "") -> list[str]:
    """The first of many lines, and how many are left out; ``more`` says where they are."""
    left = len(texts) - most
    return [*texts[:most], *([f"  … and {left} more{more and f' ({more})'}"] if left > 0 else [])]
