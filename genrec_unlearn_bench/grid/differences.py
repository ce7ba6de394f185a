"""In which fields two contents of one stage differ, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.store.keys import canonical, differences

if TYPE_CHECKING:
    from genrec_unlearn_bench.store.keys import KeyContent

__all__ = ["differing", "plain"]

CODE = "code"
PACKAGE = "genrec_unlearn_bench."
_ABSENT = object()


def differing(then: Mapping[str, Any], now: KeyContent) -> tuple[str, ...]:
    """``config.training.lr: 0.001 then, 0.0005 now``, one line a field; the modules of changed code in one line.

    Args:
        then: As ``key.json`` holds it.
        now: As it would be asked for.
    """
    today = plain(now)
    lines: list[str] = []
    for field in sorted(then.keys() | today.keys()):
        one, other = then.get(field, _ABSENT), today.get(field, _ABSENT)
        if one == other:
            continue
        if field == CODE:
            lines += _of_code(then, today)
            continue
        left = {} if one is _ABSENT else {field: one}
        right = {} if other is _ABSENT else {field: other}
        lines += [_line(name, left, right) for name in differences(left, right)]
    return tuple(lines)


def plain(content: KeyContent) -> dict[str, Any]:
    """A content as ``key.json`` would hold it, with the listing of its code."""
    found: dict[str, Any] = json.loads(canonical(content))
    return found


def _of_code(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    one, other = then.get(CODE), now.get(CODE)
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return ["code: changed"]
    # Code that is known to do the same is no difference.
    if not differences({CODE: one}, {CODE: other}):
        return []
    told = []
    for word, names in (
        ("changed", [name for name in one.keys() & other.keys() if one[name] != other[name]]),
        ("added", other.keys() - one.keys()),
        ("gone", one.keys() - other.keys()),
    ):
        if names:
            told.append(f"{_listed(sorted(name.removeprefix(PACKAGE) for name in names))} {word}")
    return [f"code: {'; '.join(told)}"]


def _listed(names: list[str], most: int = 4) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _line(name: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    return f"{name}: {_value(then, name)} then, {_value(now, name)} now"


def _value(content: Mapping[str, Any], name: str) -> str:
    """The value of a dotted name; names may hold dots themselves (modules, files)."""
    if name in content:
        found = content[name]
        text = found if isinstance(found, str) else json.dumps(found)
        return text if len(text) <= 40 else f"{text[:37]}…"
    for head, inner in content.items():
        if name.startswith(f"{head}.") and isinstance(inner, Mapping):
            return _value(inner, name[len(head) + 1 :])
    return "absent"
