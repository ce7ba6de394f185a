"""A generated paragraph in its two forms: plain text, and LaTeX with citations."""

from __future__ import annotations

import re
from dataclasses import dataclass

from genrec_unlearn_bench.reporting.latex.escape import escape

__all__ = ["Cite", "Paragraph", "Piece", "Sentence"]

_T = re.compile(r"\bt(?=-test| interval)")


@dataclass(frozen=True)
class Cite:
    """A place for citations; plain text has none."""

    keys: tuple[str, ...]


Piece = str | Cite
Sentence = tuple[Piece, ...]


@dataclass(frozen=True)
class Paragraph:
    """Sentences under a heading."""

    title: str
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """Plain text, in one line; empty without sentences."""
        lines = ["".join(piece for piece in sentence if isinstance(piece, str)) for sentence in self.sentences]
        return " ".join([f"{self.title}.", *lines]) if lines else ""

    @property
    def latex(self) -> str:
        """LaTeX, one sentence a line; its citations are keys of ``bibliography(tables)``."""
        lines = ["".join(_tex(piece) for piece in sentence) for sentence in self.sentences]
        return "\n".join([rf"\paragraph{{{escape(self.title)}.}}", *lines, ""]) if lines else ""


def _tex(piece: Piece) -> str:
    if isinstance(piece, Cite):
        return rf"~\cite{{{','.join(piece.keys)}}}" if piece.keys else ""
    # Escaping trims, and spaces at the ends of pieces part them from citations.
    head, tail = " " * piece.startswith(" "), " " * (piece.endswith(" ") and len(piece) > 1)
    return head + _T.sub("$t$", escape(piece)) + tail
