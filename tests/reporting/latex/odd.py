"""Names that have broken somebody's LaTeX, run as TeX, or cannot be printed by pdflatex."""

from __future__ import annotations

ODD = (
    "a_b",
    "50%",
    r"\input{/etc/hostname}",
    r"\write18{touch owned}",
    r"\immediate\openout5=owned",
    r"\end{tabular}\end{document}",
    r"\end{filecontents*}",
    "#$&{}~^",
    "<script>alert(1)</script>",
    "\U0001f600 emoji",
    "שלום עולם",
    "\u202eoverride",
    "nul\x00bell\x07esc\x1b[31m",
    "e\u0301 x\u0301 combining",
    "[x]* --- ,, ''",
    "ü ñ ł ß €",
    "漢字 Ω α →",
    "^^5cinput",
    '`q\' "x"',
    "%",
    "\\",
    "$$",
    "a\u200bb",
    "a\nb\n\nc",
    "very-" * 40 + "end",
    "very-" * 40 + "fin",
)
