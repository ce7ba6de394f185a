"""How numbers are written: six significant digits in files, a column's decimals in tables.

One place, so that two formats never disagree about the same number.
"""

from __future__ import annotations

import math
import re

__all__ = ["bare", "finite", "fixed", "p_text", "six"]

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
