"""Events as lines of JSON: how their files end, and how they are read."""

from __future__ import annotations

from contextlib import suppress

from pydantic import TypeAdapter, ValidationError

from genrec_unlearn_bench.grid.event import Event

__all__ = ["SUFFIX", "parsed"]

SUFFIX = ".jsonl"

_EVENTS = TypeAdapter(list[Event])


def parsed(lines: bytes) -> list[Event]:
    """The events of whole lines; a line that is none (a crash, a later version's) is left out."""
    rows = lines.split(b"\n")
    rows = [row for row in rows if row]
    try:
        # All at once: a fifth of the time of one by one.
        return _EVENTS.validate_json(b"[" + b",".join(rows) + b"]")
    except ValidationError:
        found = []
        for row in rows:
            with suppress(ValidationError):
                found.append(Event.model_validate_json(row))
        return found
