"""Whole numbers out of text and JSON, within the range a timestamp or an id may have."""

from __future__ import annotations

from array import array

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray

__all__ = ["as_int64", "by_number", "whole_number"]

_LARGEST = 2**62


def whole_number(value: object) -> int | None:
    """``value`` as an int, if it is one (``"12"``, ``12``, ``12.0``) and lies within ±2**62."""
    if isinstance(value, str):
        value = value.strip()
        # int() also takes "1_000" and digits of other scripts; a data file means neither.
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= 19:
            number = int(value)
            return number if -_LARGEST < number < _LARGEST else None
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not -_LARGEST < value < _LARGEST or value != int(value):
        return None
    return int(value)


def as_int64(values: array[int]) -> IntArray:
    """A typed array as a NumPy array of its own."""
    return np.frombuffer(values, dtype=np.int64).copy() if len(values) else np.zeros(0, dtype=np.int64)


def by_number(item_id: str) -> tuple[int, str]:
    """Sort key for item ids that are numbers written as text; others come first."""
    number = whole_number(item_id)
    return (-1 if number is None else number, item_id)
