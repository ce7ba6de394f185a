"""Strict reading of a stranger's JSON and YAML: bounded in size and depth, no aliases, no key twice, no NaN.

The usual readers take the last of two equal keys, expand aliases without end and read NaN as a number; each of these
would let a file say one thing to a reviewer and another to a program.
"""

from __future__ import annotations

import json
import math
from typing import Any

import yaml

from genrec_unlearn_bench.config import plain_yaml
from genrec_unlearn_bench.submissions.faults import DEPTH, NODES, Refused


def decoded(content: bytes, where: str) -> str:
    """UTF-8 text. Raises Refused."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("the file is not UTF-8 text", where=where, hint="save it as UTF-8") from None


def plain_json(content: bytes, where: str) -> Any:
    """The one JSON value in ``content``. Raises Refused."""
    text = decoded(content, where)
    again = "write it with `bench submission new` again, and leave it as it is"
    deep = Refused(f"the JSON is nested deeper than {DEPTH} levels", where=where, hint=again)

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for name, value in found:
            if name in content:
                raise Refused(f"the JSON has the key {name!r} twice in one object", where=where, hint=again)
            content[name] = value
        return content

    def number(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise Refused(f"the JSON holds {text[:20]}, which is no finite number", where=where, hint=again)
        return value

    try:
        content = json.loads(text, object_pairs_hook=pairs, parse_constant=number, parse_float=number)
        _encoded(content)
    except RecursionError:
        raise deep from None
    except ValueError as fault:
        raise Refused(f"the file is not valid JSON: {fault}", where=where, hint=again) from None
    if _is_deep(content, DEPTH):
        raise deep
    return content


def strict_yaml(content: bytes, where: str) -> Any:
    """The one YAML document in ``content``, as plain values. Raises Refused."""
    text = decoded(content, where)
    try:
        _Scan(text, where).get_single_node()
        content = plain_yaml(text)
        _encoded(content)
    except (yaml.YAMLError, ValueError, RecursionError) as fault:
        mark: Any = getattr(fault, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(fault, "problem", None) or "it cannot be parsed"
        hint = "fix the line (indentation, quotes)"
        raise Refused(f"not valid YAML: {problem}", where=f"{where}{line}", hint=hint) from None
    return content


def _encoded(content: Any) -> None:
    """Raises ValueError for half a character, which an escape may spell and nothing can write."""
    json.dumps(content, ensure_ascii=False, default=str).encode()


def _is_deep(content: Any, levels: int) -> bool:
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else None
    return parts is not None and (levels == 0 or any(_is_deep(part, levels - 1) for part in parts))


class _Scan(yaml.SafeLoader):
    """Composes a document, refusing what a plain file does not need before it can expand or nest."""

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text)
        self._where = where
        self._nodes = self._level = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = f"{self._where}, line {event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent) or event.anchor:
            raise Refused("YAML anchors and aliases are not read", where=line, hint="write the value out")
        if event.tag:
            raise Refused(f"the YAML tag {event.tag[:60]!r} is not read", where=line, hint="write a plain value")
        self._nodes, self._level = self._nodes + 1, self._level + 1
        if self._nodes > NODES:
            raise Refused(f"the YAML holds more than {NODES} values", where=self._where, hint="shorten the file")
        if self._level > DEPTH:
            raise Refused(f"the YAML is nested deeper than {DEPTH} levels", where=line, hint="flatten the file")
        node = super().compose_node(parent, index)
        self._level -= 1
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            line = f"{self._where}, line {key.start_mark.line + 1}"
            if not isinstance(key, yaml.ScalarNode):
                raise Refused("a YAML key is not a plain word", where=line, hint="use a word as the key")
            if key.value in seen:
                raise Refused(f"the key {key.value[:60]!r} stands there twice", where=line, hint="keep one of the two")
            seen.add(key.value)
        return node
