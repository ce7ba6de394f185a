"""Columns and tables of the data block: numbers as base64, equal things once.

A float32 keeps the six significant digits that reports are written with, in 5.3 characters where text takes nine.
"""

from __future__ import annotations

import base64
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from genrec_unlearn_bench.reporting.wording import six

__all__ = ["Table", "packed", "uniform", "unpacked"]

T = TypeVar("T", bound=Hashable)
TINY = 1.2e-38
"""Smallest normal float32: a p-value is never 0, not even here."""


class Table(Generic[T]):
    """Things by number, each once, in the order in which they came."""

    def __init__(self, first: Iterable[T] = ()) -> None:
        self._places: dict[T, int] = {thing: number for number, thing in enumerate(first)}

    def number(self, thing: T) -> int:
        """Its number; a new one if it was not there."""
        return self._places.setdefault(thing, len(self._places))

    def __len__(self) -> int:
        return len(self._places)

    def cut(self, length: int) -> None:
        """Forget what came after the first ``length`` things."""
        self._places = {thing: number for thing, number in self._places.items() if number < length}

    @property
    def things(self) -> tuple[T, ...]:
        """All of them."""
        return tuple(self._places)


def uniform(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """The number that all of them are, or all of them."""
    return numbers[0] if numbers and len(set(numbers)) == 1 else tuple(numbers)


def packed(values: Iterable[float | None]) -> str:
    """Base64 of little-endian float32, each rounded to six significant digits first; None becomes NaN. Empty where no
    value is a number."""
    import numpy as np

    rounded = [_single(six(value)) for value in values]
    column = np.array(rounded, dtype="<f4")
    if not np.isfinite(column).any():
        return ""
    # One NaN, whatever machine made it.
    column[np.isnan(column)] = np.frombuffer(b"\x00\x00\xc0\x7f", dtype="<f4")[0]
    return base64.b64encode(column.tobytes()).decode("ascii").rstrip("=")


def unpacked(text: str) -> list[float | None]:
    """The numbers of ``packed``, with six significant digits."""
    import numpy as np

    column = np.frombuffer(base64.b64decode(text + "=" * (-len(text) % 4)), dtype="<f4")
    return [six(float(value)) for value in column]


def _single(value: float | None) -> float:
    if value is None:
        return float("nan")
    if value and abs(value) < TINY:
        return TINY if value > 0 else -TINY
    return max(-3.4e38, min(3.4e38, value))
