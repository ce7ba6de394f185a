"""The outcome of ``bench submission verify``, the badge that follows, and a leaderboard's sources with theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.reporting.results import Badge, Source
from genrec_unlearn_bench.submissions.bundle import Bundle, Finding
from genrec_unlearn_bench.submissions.inventory import VERIFICATION, content_digest, take_inventory
from genrec_unlearn_bench.submissions.plain_text import Fault, plain_json
from genrec_unlearn_bench.submissions.spec import SPEC, read_spec

RESULTS = "results"
SUBMISSIONS = "submissions"


class Checked(StrictModel):
    name: str
    title: str
    faults: tuple[Fault, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.faults


class DemoRun(StrictModel):
    """The demo cell, run again."""

    place: str
    """The result that was repeated."""
    matches: bool
    differences: tuple[str, ...] = ()
    sandboxed: bool = False
    """Whether a submitted method was run in a sandbox."""
    time_fault: str = ""
    """How the submitted time of unlearning differs from the re-run's, where that is by more than ten times."""


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
    """Facts that are allowed and a reader should know: diverged runs, tasks nobody else has run."""
    demo: DemoRun | None = None
    """None where it was not run again."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(fault for check in self.checks for fault in check.faults)

    @property
    def badge_text(self) -> str:
        """The badge with what was run again, and how: ``reproduced: 1 of 10 cells, re-run without a sandbox``."""
        if self.badge is not Badge.REPRODUCED or self.demo is None:
            return self.badge.value
        how = "" if self.demo.sandboxed else ", re-run without a sandbox"
        return f"{self.badge.value}: 1 of {self.results} cells{how}"

    def with_demo(self, demo: DemoRun) -> Verification:
        complete = self.badge is Badge.RE_SCORED and not self.withheld
        badge = Badge.REPRODUCED if complete and demo.matches else self.badge
        flags = (f"{demo.place}: {demo.time_fault}",) if demo.time_fault else ()
        return self.model_copy(update={"demo": demo, "badge": badge, "notices": (*self.notices, *flags)})


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


def trusted(folder: Path) -> Verification | None:
    """The verification that a table may believe: of this very content, and passed."""
    found = read_verification(folder)
    if found is None or not found.passed:
        return None
    inventory = take_inventory(folder)
    fits = not inventory.faults and found.content_digest == content_digest(inventory.digests)
    return found if fits else None


def check_claim(bundle: Bundle, found: Verification) -> Iterator[Finding]:
    """A verification.json in the bundle says what was found. Its demo run is taken for true here; the caller that runs
    the demo sees whether it matches."""
    if VERIFICATION not in bundle.inventory.digests:
        return
    claimed = read_verification(bundle.root)
    if claimed is None:
        yield VERIFICATION, "verification.json cannot be read"
        return
    if claimed.content_digest != found.content_digest:
        what = "verification.json is of another content than this: something was changed after it was made"
        yield f"{VERIFICATION}: content_digest", what
        return
    found = found.with_demo(claimed.demo) if claimed.demo is not None else found
    for name in ("protocol_version", "name", "results", "passed", "badge", "rescored", "self_reported", "withheld"):
        said, given = getattr(claimed, name), getattr(found, name)
        if said != given:
            yield f"{VERIFICATION}: {name}", f"verification.json says {said!s} about {name}, found was {given!s}"


def published_sources(root: Path) -> list[tuple[Source, Path]]:
    """Every source below a leaderboard's folder that has results, with the folder to read them from; by name.

    The badge is the verification's if that is of this very content and passed, else self-reported.

    Raises ConfigError for a submission whose ``submission.yaml`` cannot be read.
    """
    found = []
    own = root / RESULTS
    if own.is_dir():
        found.append((Source(badge_text=_badge_text(own)), own))
    for path in sorted((root / SUBMISSIONS).glob(f"*/{SPEC}")):
        results, spec = path.parent / RESULTS, read_spec(path.parent)
        if results.is_dir() and spec is not None:
            paper = spec.paper
            arxiv = f"https://arxiv.org/abs/{paper.arxiv}" if paper is not None and paper.arxiv else ""
            source = Source(
                name=spec.name,
                title=spec.title,
                authors=tuple(author.name for author in spec.authors),
                link=(paper.url if paper is not None else None) or arxiv or spec.code or "",
                bibtex=(paper.bibtex if paper is not None else None) or "",
                badge_text=_badge_text(path.parent),
            )
            found.append((source, results))
    return found


def _badge_text(folder: Path) -> str:
    found = trusted(folder)
    return found.badge_text if found is not None else Badge.SELF_REPORTED.value
