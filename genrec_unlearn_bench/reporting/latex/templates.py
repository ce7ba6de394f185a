"""What LaTeX templates are filled with and how they are read: delimiters that LaTeX does not use, nothing escaped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["TexFloat", "template"]


@dataclass(frozen=True)
class TexFloat:
    """One float as the template fills it in; all strings are TeX."""

    environment: str
    caption: str
    short: str
    label: str
    again: bool
    columns: str
    head: tuple[str, ...]
    body: tuple[str, ...]
    notes: str


@cache
def template(name: str) -> Template:
    """A template with delimiters that LaTeX does not use: ``((* block *))``, ``((( value )))``, ``((= comment =))``."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(  # noqa: S701 - values are TeX, escaped where they are made; HTML's escapes would break it
        block_start_string="((*",
        block_end_string="*))",
        variable_start_string="(((",
        variable_end_string=")))",
        comment_start_string="((=",
        comment_end_string="=))",
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    folder = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / "latex"
    return environment.from_string((folder / name).read_text(encoding="utf-8"))
