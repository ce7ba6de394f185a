"""What ``bench verify`` found, and the badge that follows from it: self-reported, re-scored or reproduced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions.fault import Fault
from genrec_unlearn_bench.submissions.inventory import VERIFICATION, content_digest, take_inventory
from genrec_unlearn_bench.submissions.plain_text import plain_json

__all__ = ["Checked", "DemoRun", "Verification", "read_verification", "trusted_badge", "write_verification"]


class Checked(StrictModel):
    """One check and what it found."""

    name: str
    title: str
    faults: tuple[Fault, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether it found nothing."""
        return not self.faults


class DemoRun(StrictModel):
    """The demo cell, run again."""

    place: str
    """The result that was repeated."""
    matches: bool
    differences: tuple[str, ...] = ()


class Verification(StrictModel):
    """The outcome. The same content gives the same outcome: there is no date in it."""

    schema_version: Literal[1] = 1
    protocol_version: int
    name: str
    """The submission's name, or the folder's."""
    content_digest: str
    """blake2b-256 over the digests of all files but this record."""
    results: int
    passed: bool
    badge: Badge
    checks: tuple[Checked, ...]
    rescored: tuple[str, ...]
    """Metrics that were computed again from every per-user table."""
    self_reported: tuple[str, ...]
    """Metrics that were not, for at least one result: not per user, or their columns are withheld."""
    withheld: tuple[str, ...] = ()
    """Column families that at least one table leaves out."""
    notices: tuple[str, ...] = ()
    """What is allowed and a reader should know: diverged runs, tasks nobody else has run."""
    demo: DemoRun | None = None
    """None where it was not run again."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Everything that is wrong."""
        return tuple(fault for check in self.checks for fault in check.faults)

    def with_demo(self, demo: DemoRun) -> Verification:
        """With the demo cell run again, and the badge that follows."""
        complete = self.badge is Badge.RE_SCORED and not self.withheld
        badge = Badge.REPRODUCED if complete and demo.matches else self.badge
        return self.model_copy(update={"demo": demo, "badge": badge})


def write_verification(folder: Path, verification: Verification) -> Path:
    """Write it into the submission's folder. Raises StorageError."""
    text = json.dumps(verification.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False)
    atomic_text(folder / VERIFICATION, f"{text}\n", "--write")
    return folder / VERIFICATION


def read_verification(folder: Path) -> Verification | None:
    """The folder's verification, None where there is none or it cannot be read."""
    path = folder / VERIFICATION
    if path.is_symlink() or not path.is_file():
        return None
    try:
        return Verification.model_validate(plain_json(path.read_bytes(), VERIFICATION))
    except (BenchError, ValidationError, OSError):
        return None


def trusted_badge(folder: Path) -> Badge:
    """The badge that a table may show: the verification's, if it is of this very content, and passed."""
    found = read_verification(folder)
    if found is None or not found.passed:
        return Badge.SELF_REPORTED
    inventory = take_inventory(folder)
    fits = not inventory.faults and found.content_digest == content_digest(inventory.digests)
    return found.badge if fits else Badge.SELF_REPORTED
