"""What an item is called where there is little room: its brand, and its title without the brand in front."""

from __future__ import annotations

import unicodedata

from genrec_unlearn_bench.data.fields import brand_key, plain
from genrec_unlearn_bench.data.items import ItemTable

__all__ = ["clipped", "item_name"]

LONGEST = 200
"""Characters of a title that are kept at all; some titles are whole descriptions."""
_JOINERS = "\u200d\ufe0e\ufe0f"
_SEPARATORS = " -–—:,|/·"


def item_name(items: ItemTable, row: int) -> tuple[str, str]:
    """(brand, title), each on one line; one of them may be empty, never both. Renderers escape them.

    Where there is no title, the description, the text or at last the item's id stands in for it.
    """
    brand = plain(items.brands[row])
    title = plain(items.titles[row])
    if not title:
        others = (items.descriptions[row], items.texts[row], items.ids[row], f"item {row}")
        title = next(text for text in map(plain, others) if text)
    elif brand and _begins(title, brand):
        title = title[len(brand) :].lstrip(_SEPARATORS)
    return brand, clipped(title, LONGEST)


def clipped(text: str, width: int) -> str:
    """The text in at most ``width`` characters: cut behind a word where one ends in the last third, with an ellipsis.

    A letter is not parted from its accents, nor an emoji from what it is joined to.
    """
    if len(text) <= width:
        return text
    end = max(width - 1, 0)
    while end > 0 and (_joined(text[end]) or text[end - 1] == "\u200d"):
        end -= 1
    head = text[:end]
    word = head.rfind(" ")
    if not text[end].isspace() and word >= 2 * width // 3:
        head = head[:word]
    return f"{head.rstrip(_SEPARATORS)}…"


def _joined(character: str) -> bool:
    return unicodedata.combining(character) > 0 or character in _JOINERS or "\U0001f3fb" <= character <= "\U0001f3ff"


def _begins(title: str, brand: str) -> bool:
    rest = title[len(brand) :]
    return brand_key(title[: len(brand)]) == brand_key(brand) and not rest[:1].isalnum()
