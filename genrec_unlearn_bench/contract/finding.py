"""What one rule of the contract found: kept, broken, or not judged, with reasons an author can act on."""

from __future__ import annotations

from typing import Literal

from genrec_unlearn_bench.config import StrictModel

__all__ = ["Checked", "Finding", "broken", "judged", "kept", "left_out"]

Status = Literal["kept", "broken", "left out"]


class Finding(StrictModel):
    """One rule."""

    rule: str
    """Short name, stable for scripts."""
    title: str
    """The rule in words."""
    status: Status
    reasons: tuple[str, ...] = ()
    """What is wrong, or why it was not judged; for a kept rule what was seen."""
    hint: str = ""
    """What to do about it, where it is broken."""


class Checked(StrictModel):
    """A method held against the whole contract."""

    method: str
    file: str
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether no rule is broken."""
        return not any(finding.status == "broken" for finding in self.findings)


def kept(rule: str, title: str, *seen: str) -> Finding:
    """A rule that holds; ``seen`` is what it rests on."""
    return Finding(rule=rule, title=title, status="kept", reasons=seen)


def broken(rule: str, title: str, *reasons: str, hint: str) -> Finding:
    """A rule that does not hold."""
    return Finding(rule=rule, title=title, status="broken", reasons=reasons, hint=hint)


def left_out(rule: str, title: str, why: str) -> Finding:
    """A rule that could not be judged, or does not apply."""
    return Finding(rule=rule, title=title, status="left out", reasons=(why,))


def judged(rule: str, title: str, faults: tuple[str, ...] | list[str], *, hint: str, seen: str = "") -> Finding:
    """Broken where there are faults, kept otherwise."""
    if faults:
        return broken(rule, title, *faults, hint=hint)
    return kept(rule, title, *([seen] if seen else []))
