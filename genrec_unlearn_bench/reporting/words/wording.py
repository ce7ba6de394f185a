"""Small grammar for generated sentences: one seed, two seeds; 16 to 18."""

from __future__ import annotations

__all__ = ["counted", "spanned", "verb"]

_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def counted(number: int, noun: str, plural: str = "", *, words: bool = False) -> str:
    """1 seed, 5 seeds; with ``words``, small numbers are written out.

    Args:
        plural: Where it is not the noun with an s.
    """
    shown = _SMALL[number] if words and number < len(_SMALL) else f"{number:,}"
    return f"{shown} {noun if number == 1 else plural or noun + 's'}"


def spanned(span: tuple[float, float], form: str = "g") -> str:
    """16, or 16 to 18; numbers in ``form``."""
    low, high = (format(value, form) for value in span)
    return low if low == high else f"{low} to {high}"


def verb(number: int, singular: str, plural: str) -> str:
    """is or are, was or were, has or have."""
    return singular if number == 1 else plural
