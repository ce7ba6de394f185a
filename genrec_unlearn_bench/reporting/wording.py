"""How numbers and lists are written: six significant digits in files, a column's decimals in tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

__all__ = ["bare", "counted", "finite", "fixed", "listed", "p_text", "six", "spanned", "verb"]

DIGITS = 6


def finite(value: float) -> float | None:
    """The number, None where it is not finite."""
    return float(value) if math.isfinite(value) else None


def six(value: float | None) -> float | None:
    """The number with six significant digits; None for what is not a finite number, which neither JSON nor CSV has."""
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    # -0.0 is no number that a reader expects.
    return rounded if rounded else 0.0


def fixed(value: float, decimals: int) -> str:
    """The number with a column's decimals, never ``-0.0000``."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def bare(number: str) -> str:
    """Without the zero before the point, for narrow columns: ``.0790``, ``-.0012``."""
    return re.sub(r"(?<![0-9])0(?=\.[0-9])", "", number)


def p_text(p: float | None) -> str:
    """A p-value for reading: three decimals, ``< .001`` below, never 0."""
    if p is None:
        return "–"
    return "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 0.9995 else "1"


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


def listed(parts: Iterable[str]) -> str:
    """a, b and c."""
    names: Sequence[str] = list(parts)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
