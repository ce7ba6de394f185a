"""Plain text out of scraped text: entities, tags, cut-off tags, style sheets and control characters.

Product metadata was scraped from web pages. Titles hold the start of a ``<span …`` tag and nothing else, descriptions
hold markup that was escaped twice, and price and brand fields hold style sheets. Every step here is linear in the text.
"""

from __future__ import annotations

import html
import re
import unicodedata

__all__ = ["looks_like_code", "plain"]

# Only entities with their semicolon: "AT&T" and "Black&notable" are not markup.
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_CUT_TAG = re.compile(r"<[A-Za-z][\w-]*\s+[\w-]+\s*=[^<>]*$")
_CUT_END = re.compile(r"[\"']\s*/?>\s*$")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x9f]")
_CODE = re.compile(
    r"\{[^{}:;]*[:;][^{}]*\}|\bfunction\s*\(|^\s*[.#][\w-]+(\s*[.#>][\w-]+)*\s*\{|\bvar\s+\w+\s*=|\ba-section\b"
)
_BLOCKS = (("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>"))
_MAX_ESCAPES = 3


def plain(text: str) -> str:
    """``text`` without markup, entities decoded, white space collapsed; ``""`` where nothing readable is left."""
    text = _encodable(text)
    if "&" in text:
        text = _decoded(text)
    if "<" in text:
        for opening, closing in _BLOCKS:
            text = _without_blocks(text, opening, closing)
        text = _CUT_TAG.sub(" ", _TAG.sub(" ", text))
    if text.rstrip().endswith(">"):
        text = _CUT_END.sub("", text)
    return " ".join(_CONTROL.sub(" ", text).split())


def looks_like_code(text: str) -> bool:
    """Whether a field that should hold a name holds a style sheet or a script."""
    return _CODE.search(text) is not None


def _encodable(text: str) -> str:
    if text.isascii():
        return text
    # JSON may escape half a surrogate pair, which no file could store afterwards.
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFC", text)


def _decoded(text: str) -> str:
    for _ in range(_MAX_ESCAPES):
        decoded = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
        if decoded == text:
            break
        text = decoded
    return text


def _without_blocks(text: str, opening: str, closing: str) -> str:
    folded = text.lower()
    # Lower-casing can change a text's length; positions would no longer fit.
    if opening not in folded or len(folded) != len(text):
        return text
    kept = []
    position = 0
    while (start := folded.find(opening, position)) >= 0:
        kept.append(text[position:start])
        end = folded.find(closing, start)
        position = len(text) if end < 0 else end + len(closing)
    kept.append(text[position:])
    return " ".join(kept)
