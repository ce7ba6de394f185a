"""Content keys: one hash over everything that can change the outcome of a stage, and nothing else.

A key is blake2b-256 over canonical JSON, so it is the same on every machine, operating system and Python version, and
the JSON itself (``key.json`` beside the artefact) explains it: two keys differ where their contents differ.
``KEY_VERSION`` is raised only when the recipe below changes; a test pins the keys of known contents. ``bench cache
migrate`` carries stages from one version to the next.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from genrec_unlearn_bench.store.equal_code import code_digest

__all__ = ["CODE", "KEY_VERSION", "KeyContent", "KeyValue", "canonical", "content_key", "differences", "envelope"]

KEY_VERSION = 2
"""Of contents that name code. Version 1 held its listing (modules and digests of their text), version 2 holds one
digest of what the modules mean (``sources``, ``equal_code``)."""

PLAIN_VERSION = 1
"""Of contents without code, whose recipe is the first."""

CODE = "code"
"""The field of a content that lists its code (``sources.code_digests``)."""

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
    """What is hashed: the content, its code as one digest, with the stage's name and the key version."""
    version = KEY_VERSION if CODE in content else PLAIN_VERSION
    return canonical({"key_version": version, "stage": stage, "content": hashed(content)})


def hashed(content: KeyContent) -> dict[str, KeyValue]:
    """A content with one digest in place of the listing of its code."""
    code = content.get(CODE)
    if not isinstance(code, Mapping):
        return dict(content)
    return {**content, CODE: code_digest({str(module): str(digest) for module, digest in code.items()})}


def differences(one: KeyContent, other: KeyContent) -> list[str]:
    """Dotted names of the fields in which two contents differ, sorted; modules as ``code.<module>``.

    Code that differs and is known to do the same is no difference.
    """
    if CODE in one and CODE in other and hashed(one)[CODE] == hashed(other)[CODE]:
        one, other = _without_code(one), _without_code(other)
    left, right = dict(_leaves(_plain(dict(one), ""))), dict(_leaves(_plain(dict(other), "")))
    missing = object()
    return sorted(
        name for name in left.keys() | right.keys() if repr(left.get(name, missing)) != repr(right.get(name, missing))
    )


def _without_code(content: KeyContent) -> KeyContent:
    return {name: value for name, value in content.items() if name != CODE}


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
