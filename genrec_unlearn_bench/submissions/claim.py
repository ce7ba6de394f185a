"""Holds a verification.json that came with a submission against what was found: a badge is earned, not written."""

from __future__ import annotations

from collections.abc import Iterable

from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions.bundle import Bundle
from genrec_unlearn_bench.submissions.fault import Fault
from genrec_unlearn_bench.submissions.inventory import VERIFICATION
from genrec_unlearn_bench.submissions.verification import Verification, read_verification

__all__ = ["check_claim"]

_MEND = "make it anew with `bench verify PATH --write`, or remove it"


def check_claim(bundle: Bundle, found: Verification) -> Iterable[Fault]:
    """The claim may say no more than was found. ``reproduced`` cannot be seen without running the demo; it passes here
    where everything else fits, and the caller that runs the demo compares it again."""
    if VERIFICATION not in bundle.inventory.digests:
        return
    claimed = read_verification(bundle.root)
    if claimed is None:
        yield Fault(what="verification.json cannot be read", where=VERIFICATION, hint=_MEND)
        return
    if claimed.content_digest != found.content_digest:
        what = "verification.json is of another content than this: something was changed after it was made"
        yield Fault(what=what, where=f"{VERIFICATION}: content_digest", hint=_MEND)
        return
    possible: tuple[Badge, ...] = (Badge.REPRODUCED, Badge.RE_SCORED, Badge.SELF_REPORTED)
    if found.badge is not Badge.RE_SCORED or found.withheld:
        possible = (Badge.SELF_REPORTED,) if found.badge is Badge.SELF_REPORTED else possible[1:]
    demo = claimed.demo is not None and claimed.demo.matches
    if claimed.badge not in possible or (claimed.badge is Badge.REPRODUCED and not demo):
        yield Fault(
            what=f"verification.json claims the badge {claimed.badge.value!r}, what was found gives at most "
            f"{possible[0].value!r}",
            where=f"{VERIFICATION}: badge",
            hint=_MEND,
        )
    for name in ("protocol_version", "name", "results", "passed", "rescored", "self_reported", "withheld"):
        if getattr(claimed, name) != getattr(found, name):
            yield Fault(
                what=f"verification.json says something else than was found about: {name}",
                where=f"{VERIFICATION}: {name}",
                hint=_MEND,
            )
