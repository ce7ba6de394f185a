"""Content keys: one hash over everything that can change the outcome of a stage, and nothing else.

A key is blake2b-256 over canonical JSON, so it is the same on every machine, operating system and Python version, and
the JSON itself (``key.json`` beside the artefact) explains it: two keys differ where their contents differ.
``KEY_VERSION`` is raised only when the recipe below changes; a test pins the key of a known content.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

__all__ = ["KEY_VERSION", "KeyContent", "KeyValue", "canonical", "content_key", "differences"]

KEY_VERSION = 1

KeyValue = None | bool | int | float | str | Sequence["KeyValue"] | Mapping[str, "KeyValue"] | BaseModel
KeyContent = Mapping[str, KeyValue]


def canonical(content: KeyContent) -> str:
    """Sorted, compact, ASCII JSON. Floats by ``repr``, tuples as lists, models by their fields.

    Raises ValueError for what has no canonical form: NaN, infinities, names that are no strings, other types.
    """
    return json.dumps(_plain(dict(content), "content"), sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_key(stage: str, content: KeyContent) -> str:
    """The key of a stage's content, 64 hex digits."""
    return hashlib.blake2b(envelope(stage, content).encode("ascii"), digest_size=32).hexdigest()


def envelope(stage: str, content: KeyContent) -> str:
    """What is hashed, and what ``key.json`` holds: the content with the stage's name and the key version."""
    return canonical({"key_version": KEY_VERSION, "stage": stage, "content": dict(content)})


def differences(one: KeyContent, other: KeyContent) -> list[str]:
    """Dotted names of the fields in which two contents differ, sorted."""
    left, right = dict(_leaves(_plain(dict(one), ""))), dict(_leaves(_plain(dict(other), "")))
    missing = object()
    return sorted(
        name for name in left.keys() | right.keys() if repr(left.get(name, missing)) != repr(right.get(name, missing))
    )


def _plain(value: object, place: str) -> object:
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(mode="json"), place)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise ValueError(f"{place}: names must be strings")
        return {str(name): _plain(part, f"{place}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{place}[{index}]") for index, part in enumerate(value)]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place}: {value!r} has no canonical form")
    # Exact types: a NumPy scalar is a float by inheritance, and its repr is not a float's.
    if value is None or type(value) in (bool, int, float):
        return value
    raise ValueError(f"{place}: {type(value).__name__} has no canonical form")


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for part, inner in value.items():
            yield from _leaves(inner, f"{name}.{part}" if name else part)
    else:
        yield name, value
