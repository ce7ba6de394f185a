"""Text from outside (names, labels, notes) made harmless for markdown, spreadsheets and terminals.

Names come from other people's records: what would format, link, compute or steer there has to arrive as plain text.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["csv_text", "markdown_text", "visible"]

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_BACKSLASHED = frozenset("\\`*_{}[]|#~$")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the begin of a formula, full-width forms included (OWASP, CSV injection)."""
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))


def visible(text: str) -> str:
    """Control, format and private characters (ANSI escapes, text direction, zero width) shown by their number.

    Line breaks and tabs become spaces, as a name is one line. A joiner between two visible characters stays: emoji
    and several scripts need it.
    """
    if text.isascii() and text.isprintable():
        return text
    out = []
    for place, character in enumerate(text):
        if character in "\t\n\r":
            out.append(" ")
        elif unicodedata.category(character) in _INVISIBLE and not _joins(text, place):
            out.append(f"⟨U+{ord(character):04X}⟩")
        else:
            out.append(character)
    return "".join(out)


def markdown_text(text: str) -> str:
    """Text that markdown (GitHub's, tables included) shows as it is: no formatting, HTML, link, mention or formula."""
    out = "".join(
        _ENTITIES.get(character, f"\\{character}" if character in _BACKSLASHED else character)
        for character in visible(text)
    )
    # Bare addresses become links and names after a lone @ mentions, without any bracket; HR@10 is neither.
    out = re.sub(r"(?<!\w)@", "&#64;", out)
    return out.replace("://", ":&#47;/").replace("www.", "www&#46;").replace("WWW.", "WWW&#46;")


def csv_text(text: str) -> str:
    """Text that no spreadsheet computes: a leading apostrophe where it begins as a formula does.

    Not for our own numbers, which may begin with a minus.
    """
    shown = visible(text)
    return f"'{shown}" if text.lstrip(" \u00a0").startswith(_FORMULA) or text.startswith(_FORMULA) else shown


def _joins(text: str, place: int) -> bool:
    return text[place] in "\u200c\u200d" and 0 < place < len(text) - 1 and not text[place - 1].isascii()
