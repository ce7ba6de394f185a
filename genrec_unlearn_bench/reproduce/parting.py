"""Where two runs of one cell part: the first stage that came out differently, and whether it was asked for alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.record import RunRecord

__all__ = ["Parted", "first_parted", "moved", "told_parted"]


@dataclass(frozen=True)
class Parted:
    """The first stage that came out differently.

    Attributes:
        same_key: Whether it was made from the same inputs, settings and code; None where it is no longer made.
    """

    name: str
    same_key: bool | None


def moved(then: RunRecord, now: RunRecord) -> bool:
    """Whether any stage was asked for under another key: then its code, configuration or input is another."""
    keys = {stage.name: stage.key for stage in now.stages}
    return any(keys.get(stage.name) != stage.key for stage in then.stages)


def first_parted(then: RunRecord, now: RunRecord) -> Parted | None:
    """The first stage, upstream first, whose content is another; None where all are the same."""
    after = {stage.name: stage for stage in now.stages}
    for stage in then.stages:
        other = after.get(stage.name)
        if other is None:
            return Parted(stage.name, None)
        if other.digest != stage.digest:
            return Parted(stage.name, other.key == stage.key)
    return None


def told_parted(then: RunRecord, now: RunRecord) -> str:
    """The same in a sentence; empty where all are the same."""
    first = first_parted(then, now)
    if first is None:
        return ""
    if first.same_key is None:
        return f"the stage {first.name!r} is no longer made"
    why = "from the same inputs and code" if first.same_key else "from other inputs, settings or code"
    return f"the stage {first.name!r} came out differently, {why}"
