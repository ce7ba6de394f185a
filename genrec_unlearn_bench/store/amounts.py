"""Times and sizes as people write them: 30d, 20G."""

from __future__ import annotations

import re

from genrec_unlearn_bench.errors import UsageError

__all__ = ["format_bytes", "format_seconds", "parse_bytes", "parse_seconds"]

_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_seconds(text: str, *, where: str) -> float:
    """``12h``, ``30d``, ``8w`` in seconds. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no time", where=where, hint="write a number and m, h, d or w: 12h, 30d")
    return float(found.group(1)) * _SECONDS[found.group(2)]


def parse_bytes(text: str, *, where: str) -> int:
    """``500M``, ``20G`` in bytes, by powers of 1024. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no size", where=where, hint="write a number and K, M, G or T: 500M, 20G")
    return int(float(found.group(1)) * _BYTES[found.group(2)])


def format_bytes(number: float) -> str:
    """Bytes with a unit: ``12.3 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def format_seconds(number: float) -> str:
    """Seconds with the unit that suits them: ``90 s``, ``5 min``, ``3.5 h``, ``2.0 d``."""
    if number < 120:
        return f"{number:.0f} s"
    if number < 7200:
        return f"{number / 60:.0f} min"
    return f"{number / 3600:.1f} h" if number < 48 * 3600 else f"{number / 86400:.1f} d"
