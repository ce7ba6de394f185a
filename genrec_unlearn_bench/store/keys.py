"""Content keys: one hash over everything that can change the outcome of a stage, and nothing else.

A key is blake2b-256 over canonical JSON, so it is the same on every machine, operating system and Python version.
``key.json`` beside an artefact holds the recipe itself: two keys differ where their recipes differ.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

__all__ = ["KEY_VERSION", "canonical", "content_key", "differences", "plain"]

KEY_VERSION = 3
"""Raised only when the way keys are made changes: every stored stage is then computed again. A test pins the keys of
known recipes."""


def plain(value: object, place: str = "value") -> Any:
    """The JSON value that stands for a value: models by their fields, tuples as lists.

    Args:
        place: Name of the value in errors.

    Raises ValueError for what has no canonical form: NaN, infinities, names that are no strings, NumPy scalars, other
    types.
    """
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"), place)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise ValueError(f"{place}: names must be strings")
        return {str(name): plain(part, f"{place}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part, f"{place}[{index}]") for index, part in enumerate(value)]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place}: {value!r} has no canonical form")
    # Exact types: a NumPy scalar is a float by inheritance, and its repr is not a float's.
    if value is None or type(value) in (bool, int, float):
        return value
    raise ValueError(f"{place}: {type(value).__name__} has no canonical form")


def canonical(value: object) -> str:
    """Sorted, compact, ASCII JSON of ``plain(value)``; floats by ``repr``. Raises ValueError as ``plain`` does."""
    return _text(plain(value))


def content_key(recipe: Mapping[str, Any]) -> str:
    """The key of a recipe, 64 hex digits. The recipe's values are plain already: keys are made by the thousand."""
    text = _text({"key_version": KEY_VERSION, **recipe})
    return hashlib.blake2b(text.encode("ascii"), digest_size=32).hexdigest()


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Dotted names of the fields in which two recipes differ, sorted: ``config.lr``, ``inputs.original``."""
    left, right = dict(_leaves(plain(one))), dict(_leaves(plain(other)))
    missing = object()
    # By repr: 1, 1.0 and True are equal, and their keys differ.
    return sorted(
        name for name in left.keys() | right.keys() if repr(left.get(name, missing)) != repr(right.get(name, missing))
    )


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for part, inner in value.items():
            yield from _leaves(inner, f"{name}.{part}" if name else part)
    else:
        yield name, value
