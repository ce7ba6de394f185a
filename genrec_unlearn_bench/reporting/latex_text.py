"""Text from outside made harmless and printable for pdflatex with T1 fonts and UTF-8 input.

Names come from files that strangers wrote. Nothing of them may run as TeX or stop it, and what pdflatex has no letter
for has to stay readable: it becomes its code, ``[U+1F600]``.
"""

from __future__ import annotations

import unicodedata
from itertools import groupby, pairwise

_NAMES = "backslash asciicircum asciitilde less greater bar quotedbl asciigrave"
_SPECIAL = {character: rf"\text{name}{{}}" for character, name in zip('\\^~<>|"`', _NAMES.split(), strict=True)}
_SPECIAL |= {character: f"\\{character}" for character in "{}$&#%_"}
# After the \\ of the line before, these would be read as its arguments.
_SPECIAL |= {character: f"{{{character}}}" for character in "[]*"}
_LIGATURES = "-,'"
"""Two of a kind in a row would be printed as another character."""

_SYMBOLS = "↓↑→±×≤≥≈†αβγδεηθλμπρστφχωΓΔΘΛΣΦΩ"
_COMMANDS = (
    "downarrow uparrow rightarrow pm times leq geq approx dagger "
    "alpha beta gamma delta varepsilon eta theta lambda mu pi rho sigma tau varphi chi omega "
    "Gamma Delta Theta Lambda Sigma Phi Omega"
)
_MATHS = {letter: f"\\{name}" for letter, name in zip(_SYMBOLS, _COMMANDS.split(), strict=True)}
_MATHS |= {"−": "-", "⁺": "^{+}", "⁻": "^{-}"}

_LETTERS = frozenset(
    # Latin-1 without its controls, the no-break space and the soft hyphen.
    [chr(code) for code in range(0xA1, 0x100) if code != 0xAD]
    # Latin Extended-A and what else T1 and TS1 declare; found by setting every character (tests/reporting/latex).
    + [chr(c) for c in range(0x100, 0x180) if c not in (0x126, 0x127, 0x138, 0x13F, 0x140, 0x149, 0x166, 0x167, 0x17F)]
    + list("–—‘’‚“”„‡•…‰‹›€™ȘșȚțẞƒ")
)

SHOWN = 12
"""Codes shown of a run of characters without a letter."""


def escape(text: str) -> str:
    """TeX that prints ``text`` and does nothing else, on one line."""
    out: list[str] = []
    for known, run in groupby(unicodedata.normalize("NFC", " ".join(text.split())), lambda c: _one(c) is not None):
        if known:
            pairs = pairwise(["", *run])
            out += [("{}" if one == before and one in _LIGATURES else "") + (_one(one) or "") for before, one in pairs]
        else:
            codes = [f"{ord(character):04X}" for character in run]
            more = f" … {len(codes) - SHOWN} more" if len(codes) > SHOWN else ""
            out.append(f"{{[}}U+{' '.join(codes[:SHOWN])}{more}{{]}}")
    return "".join(out)


def shorten(text: str, width: int = 40) -> str:
    """The text in at most ``width`` characters, cut in its middle: the ends are what tells names apart."""
    text = " ".join(text.split())
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - width :]}"


def label(text: str) -> str:
    """A name for ``\\label`` and ``\\ref``: letters, digits, hyphens and colons."""
    kept = "".join(character if character.isascii() and character.isalnum() else "-" for character in text)
    return "-".join(part for part in kept.split("-") if part) or "unnamed"


def _one(character: str) -> str | None:
    """TeX for one character; None where pdflatex has no letter for it."""
    if character in _SPECIAL:
        return _SPECIAL[character]
    if character in _MATHS:
        return rf"\ensuremath{{{_MATHS[character]}}}"
    return character if " " <= character <= "~" or character in _LETTERS else None
