"""Reading what a stranger wrote: faults to report, texts, JSON and YAML.

Control characters, text that hides or reverses its neighbours and machine paths are refused; renderers escape all other
text. The usual readers take the last of two equal keys, expand aliases without end and read NaN as a number; each of
these would let a file say one thing to a reviewer and another to a program, so they are refused here.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn

import yaml
from pydantic import AfterValidator

from genrec_unlearn_bench.config import StrictModel, plain_yaml
from genrec_unlearn_bench.errors import BenchError, printable

DEPTH = 24
"""Nesting of YAML and JSON; a record needs seven levels."""
NODES = 50_000
"""Values in one YAML file."""
TEXT_LENGTH = 20_000
"""Characters of one text field."""
MESSAGE_LENGTH = 1000

_JOINERS = "\u200c\u200d"
"""The only invisible characters that scripts need inside words (Persian, Indic scripts)."""
_PATH = re.compile(
    r"""(?:^|(?<=[\s"'=,;(\[]))(?:/[A-Za-z_.][^\s"',;)\]]*|~/[^\s"',;)\]]*|[A-Za-z]:[\\/][^\s"']*|\\\\[^\s"']+)"""
    r"""|file://[^\s"']*"""
)


Printable = Annotated[str, AfterValidator(lambda text: printable(text[:MESSAGE_LENGTH]))]
"""A message may quote what a stranger wrote, and must not do to a terminal what that was meant to do."""


class Fault(StrictModel):
    """One thing that is wrong: what, where (path inside the submission, and field), and how to fix it."""

    what: Printable
    where: Printable
    hint: Printable

    def text(self) -> str:
        return f"{self.what}\n  where: {self.where}\n  hint:  {self.hint}"


class Refused(BenchError):
    """Something of a submission cannot be read at all, or is not safe to read."""

    @property
    def fault(self) -> Fault:
        return Fault(what=self.what, where=self.where or "", hint=self.hint or "")


def odd_text(text: str, *, lines: bool = False) -> str | None:
    """The fault of a text, as the end of a sentence, or None. ``lines`` allows line breaks and tabs."""
    if len(text) > TEXT_LENGTH:
        return f"is longer than {TEXT_LENGTH} characters"
    allowed = f"{_JOINERS}\n\t" if lines else _JOINERS
    for character in "" if text.isascii() and text.isprintable() else text:
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in allowed:
            return f"holds the invisible character U+{ord(character):04X}"
    return None


def machine_path(text: str) -> str | None:
    """The first absolute path in a text (``/home/me/x``, ``~/x``, ``C:\\x``), or None. Web addresses are none."""
    found = _PATH.search(text)
    return found.group() if found else None


def values_of(content: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """(place, value) of every plain value in nested dicts and lists, keys included as values of their own."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield f"{place}.{key}"[:200].lstrip("."), str(key)
            yield from values_of(value, f"{place}.{key}".lstrip("."))
    elif isinstance(content, list | tuple):
        for index, value in enumerate(content):
            yield from values_of(value, f"{place}.{index}".lstrip("."))
    else:
        yield place, content


def plain_json(content: bytes, where: str) -> Any:
    """The one JSON value in ``content``. Raises Refused."""
    try:
        text = content.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite)
        _check_writable(value)
    except (ValueError, RecursionError) as fault:
        what = "it is nested too deep" if isinstance(fault, RecursionError) else str(fault)
        hint = "write it with `bench submission new` again, and leave it as it is"
        raise Refused(f"not plain JSON: {what}", where=where, hint=hint) from None
    return value


def strict_yaml(content: bytes, where: str) -> Any:
    """The one YAML document in ``content``, as plain values. Raises Refused."""
    try:
        text = content.decode("utf-8")
        _StrictComposer(text).get_single_node()
        value = plain_yaml(text)
        _check_writable(value)
    except (yaml.YAMLError, ValueError, RecursionError) as fault:
        mark: Any = getattr(fault, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(fault, "problem", None) or "it cannot be parsed"
        hint = "fix the line: plain values, every key once, indentation, quotes"
        raise Refused(f"not plain YAML: {problem}", where=f"{where}{line}", hint=hint) from None
    return value


def _once(found: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in found:
        if name in content:
            raise ValueError(f"the key {name!r} is there twice")
        content[name] = value
    return content


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no finite number")
    return value


def _check_writable(content: Any) -> None:
    """Raises ValueError for deep nesting, and for half a surrogate pair, which an escape may spell."""
    json.dumps(content, ensure_ascii=False, default=str).encode()
    if _is_deep(content, DEPTH):
        raise ValueError(f"it is nested deeper than {DEPTH} levels")


def _is_deep(content: Any, levels: int) -> bool:
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else None
    return parts is not None and (levels == 0 or any(_is_deep(part, levels - 1) for part in parts))


class _StrictComposer(yaml.SafeLoader):
    """Composes a document, refusing what a plain file does not need before it can expand or nest."""

    nodes = level = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor or event.tag:
            self._refuse("anchors, aliases and tags are not read", event)
        self.nodes, self.level = self.nodes + 1, self.level + 1
        if self.nodes > NODES or self.level > DEPTH:
            self._refuse(f"it has more than {NODES} values, or is nested deeper than {DEPTH} levels", event)
        node = super().compose_node(parent, index)
        self.level -= 1
        if isinstance(node, yaml.MappingNode):
            keys = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
            if len(keys) < len(node.value):
                self._refuse("a key is there twice, or is no plain word", event)
        return node

    def _refuse(self, problem: str, event: Any) -> NoReturn:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
