"""How a number is cut into pieces where there is no pretrained tokenizer to do it."""

from __future__ import annotations

__all__ = ["digit_pieces"]


def digit_pieces(number: int, width: int = 2) -> list[str]:
    """Runs of ``width`` digits from the left, the last one shorter where they do not come out even.

    1001 is 10-01 and 1002 is 10-02: neighbours share their leading pieces, as they do in T5's own sub-words.

    Raises:
        ValueError: A negative number, or a width below 1.
    """
    if number < 0 or width < 1:
        raise ValueError(f"cannot cut {number} into pieces of {width} digits")
    digits = str(number)
    return [digits[first : first + width] for first in range(0, len(digits), width)]
