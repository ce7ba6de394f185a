"""Frees room in a store: what nobody needs first, then what was read longest ago. Says what going back would cost."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from genrec_unlearn_bench.files import draft_prefix
from genrec_unlearn_bench.store.inventory import Entry
from genrec_unlearn_bench.store.locks import lock_path, try_lock
from genrec_unlearn_bench.store.wanted import is_asked_for

__all__ = ["Policy", "Reason", "Selected", "remove_stage", "select"]

Reason = Literal["older", "not asked for", "not kept", "renamed", "over size"]
"""``renamed``: a key of version 1 whose stage lies under its new key as well, in the same files."""


@dataclass(frozen=True)
class Policy:
    """What may go. Whatever is named in ``keep``, or was read within ``spare`` seconds, never goes.

    Attributes:
        older_than: Seconds since a stage was last read.
        max_size: Bytes that the store may have; stages read longest ago go first.
        keep: Keys that results stand on; if nothing else is asked for, all other stages go.
        unreachable: What today's code asks for no more.
    """

    older_than: float | None = None
    max_size: int | None = None
    keep: frozenset[str] | None = None
    unreachable: bool = False
    spare: float = 24 * 3600.0

    @property
    def is_given(self) -> bool:
        """Whether any stage may go at all."""
        return self.others_go or self.older_than is not None or self.max_size is not None or self.unreachable

    @property
    def others_go(self) -> bool:
        """Whether ``keep`` stands alone."""
        return self.keep is not None and self.older_than is None and self.max_size is None and not self.unreachable


@dataclass(frozen=True)
class Selected:
    """A stage that may go, and why."""

    entry: Entry
    reason: Reason
    frees: int
    """Bytes; 0 where another key holds the same files."""


def select(found: Iterable[Entry], policy: Policy, now: float | None = None) -> tuple[Selected, ...]:
    """The stages that a policy gives up, those read longest ago first."""
    moment = time.time() if now is None else now
    stages = sorted(found, key=lambda entry: (entry.read, entry.key))
    renamed = {entry.manifest.was for entry in stages if entry.manifest is not None and entry.manifest.was}
    chosen: dict[str, Selected] = {}
    for entry in stages:
        reason = None if _is_spared(entry, policy, moment) else _reason(entry, policy, moment, renamed)
        if reason is not None:
            chosen[entry.key] = Selected(entry, reason, 0 if entry.key in renamed else entry.size)
    if policy.max_size is not None:
        total = sum(entry.size for entry in stages if entry.key not in renamed)
        total -= sum(one.frees for one in chosen.values())
        for entry in stages:
            if total <= policy.max_size:
                break
            if entry.key in chosen or entry.key in renamed or _is_spared(entry, policy, moment):
                continue
            chosen[entry.key] = Selected(entry, "over size", entry.size)
            total -= entry.size
    return tuple(sorted(chosen.values(), key=lambda one: one.entry.read))


def remove_stage(entry: Entry) -> bool:
    """Remove a stage at once or not at all; returns whether it is gone. One that is locked stays."""
    try:
        release = try_lock(entry.path)
    except OSError:
        return False
    if release is None:
        return False
    try:
        aside = entry.path.parent / f"{draft_prefix(entry.path)}gc-{uuid.uuid4().hex[:8]}"
        try:
            entry.path.rename(aside)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        shutil.rmtree(aside, ignore_errors=True)
        lock_path(entry.path).unlink(missing_ok=True)
    finally:
        release()
    return True


def cost(selected: Sequence[Selected]) -> dict[str, float]:
    """Seconds that computing them again would take, by kind of stage, the dearest first."""
    seconds: dict[str, float] = {}
    for one in selected:
        if one.reason != "renamed":
            seconds[one.entry.name] = seconds.get(one.entry.name, 0.0) + one.entry.seconds
    return dict(sorted(seconds.items(), key=lambda pair: -pair[1]))


def _is_spared(entry: Entry, policy: Policy, moment: float) -> bool:
    names = {entry.key, entry.manifest.was if entry.manifest is not None else ""}
    return bool(policy.keep is not None and names & policy.keep) or moment - entry.read < policy.spare


def _reason(entry: Entry, policy: Policy, moment: float, renamed: set[str]) -> Reason | None:
    if policy.unreachable and entry.key in renamed:
        return "renamed"
    # A stage of version 1 that was not carried over may still be: that is for `bench cache migrate` to say.
    if policy.unreachable and not entry.is_old and not is_asked_for(entry):
        return "not asked for"
    if policy.older_than is not None and moment - entry.read > policy.older_than:
        return "older"
    return "not kept" if policy.others_go else None
