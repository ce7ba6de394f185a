"""Running every check on a submission, the badge that follows, and a leaderboard's sources with theirs.

Nothing of a submission is executed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.reporting.results import Badge, Source
from genrec_unlearn_bench.submissions.bundle import (
    CHECKS,
    VERIFICATION,
    Bundle,
    Finding,
    content_digest,
    take_inventory,
)
from genrec_unlearn_bench.submissions.plain_text import Fault, Refused, plain_json
from genrec_unlearn_bench.submissions.spec import SPEC, Paper, read_spec

if TYPE_CHECKING:
    from genrec_unlearn_bench.submissions.table_checks import Ranks


class DemoRun(StrictModel):
    """The demo cell, run again."""

    place: str
    matches: bool
    differences: tuple[str, ...] = ()
    sandboxed: bool = False
    time_fault: str = ""
    """How the submitted time of unlearning differs from the re-run's, where that is by more than ten times."""


class Verification(StrictModel):
    """The outcome. The same content gives the same outcome: there is no date in it."""

    schema_version: Literal[2] = 2
    protocol_version: int
    name: str
    content_digest: str
    """blake2b-256 over the digests of all files but this record."""
    results: int
    passed: bool
    badge: Badge
    checks: dict[str, tuple[Fault, ...]]
    """Name -> what it found."""
    rescored: tuple[str, ...]
    """Metrics that were computed again from every per-user table."""
    self_reported: tuple[str, ...]
    """Metrics that were not, for at least one result: not per user, or their columns are withheld."""
    withheld: tuple[str, ...] = ()
    """Column families that at least one table leaves out."""
    notices: tuple[str, ...] = ()
    """Facts that are allowed and a reader should know: diverged runs, tasks nobody else has run."""
    demo: DemoRun | None = None

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(fault for found in self.checks.values() for fault in found)

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


def verify(bundle: Bundle, *, claims: bool = True) -> Verification:
    """Check everything that can be checked without running anything.

    Args:
        claims: Whether a verification.json in the bundle is compared with the outcome.
    """
    from genrec_unlearn_bench.submissions import method_checks, table_checks  # noqa: F401 - they register their checks
    from genrec_unlearn_bench.submissions.record_checks import known_manifest

    faults = {name: list(bundle.faults.get(name, ())) for name in CHECKS}
    if not bundle.results and not faults["records"]:
        hint = "give the folder of a submission, or leaderboard/results"
        faults["records"].append(Fault(what="there is no result", where=".", hint=hint))
    _run("bundle", faults, bundle)
    if bundle.spec is not None:
        _run("submission", faults, bundle, bundle.spec)
    rescored, self_reported, withheld = set[str](), set[str](), set[str]()
    ranks: dict[str, Ranks] = {}
    for result in bundle.results:
        _run("result", faults, bundle, result)
        again = set[str]()
        try:
            if (read := bundle.table(result)) is not None:
                table, without = read
                ranks[result.place] = table_checks.hit_ranks(table)
                _run("table", faults, bundle, result, table, without)
                again = table_checks.rescored(result, without)
                withheld |= without
        except Refused as refusal:
            faults["table"].append(refusal.fault)
        rescored |= again
        self_reported |= {value.metric for value in result.record.metrics} - again
    _run("ranks", faults, bundle, ranks)
    notices = [f"diverged, shown as such and never ranked: {r.place}" for r in bundle.results if r.record.diverged]
    notices += [f"a training was ended by max_hours: {r.place}" for r in bundle.results if r.record.ended_early]
    unknown = [task for task in bundle.manifests if known_manifest(bundle, task) is None]
    notices += [f"the task {task} has no known manifest: nobody else has submitted results of it" for task in unknown]
    outcome = Verification(
        protocol_version=max([r.record.protocol_version for r in bundle.results], default=PROTOCOL_VERSION),
        name=bundle.name,
        content_digest=content_digest(bundle.digests),
        results=len(bundle.results),
        passed=not any(faults.values()),
        badge=Badge.SELF_REPORTED if any(faults.values()) else Badge.RE_SCORED,
        checks={},
        rescored=tuple(sorted(rescored - self_reported)),
        self_reported=tuple(sorted(self_reported)),
        withheld=tuple(sorted(withheld)),
        notices=tuple(notices),
    )
    if claims:
        faults["claim"] += _faults("claim", check_claim(bundle, outcome))
    refused = {"passed": False, "badge": Badge.SELF_REPORTED} if faults["claim"] else {}
    return outcome.model_copy(update={**refused, "checks": {name: tuple(found) for name, found in faults.items()}})


def _run(of: str, faults: dict[str, list[Fault]], *subject: Any) -> None:
    for name, check in CHECKS.items():
        if check.of == of and check.find is not None:
            faults[name] += _faults(name, check.find(*subject))


def _faults(name: str, found: Iterable[Finding]) -> list[Fault]:
    return [Fault(what=what, where=where, hint=own[0] if own else CHECKS[name].hint) for where, what, *own in found]


def write_verification(folder: Path, verification: Verification) -> Path:
    """Write it into the submission's folder. Raises StorageError."""
    atomic_text(folder / VERIFICATION, verification.model_dump_json(indent=2) + "\n", "--write")
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
    digests, faults = take_inventory(folder)
    return found if not faults and found.content_digest == content_digest(digests) else None


def check_claim(bundle: Bundle, found: Verification) -> Iterator[Finding]:
    """A verification.json in the bundle says what was found. Its demo run is taken for true here; the caller that runs
    the demo sees whether it matches."""
    claimed = read_verification(bundle.root)
    if VERIFICATION not in bundle.digests:
        return
    if claimed is None or claimed.content_digest != found.content_digest:
        yield VERIFICATION, "verification.json cannot be read, or is of another content than this"
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
    own = root / "results"
    found = [(Source(badge_text=_badge_text(own)), own)] if own.is_dir() else []
    for path in sorted((root / "submissions").glob(f"*/{SPEC}")):
        results, spec = path.parent / "results", read_spec(path.parent)
        if results.is_dir() and spec is not None:
            paper = spec.paper or Paper(title=spec.title)
            arxiv = f"https://arxiv.org/abs/{paper.arxiv}" if paper.arxiv else ""
            source = Source(
                name=spec.name,
                title=spec.title,
                authors=tuple(author.name for author in spec.authors),
                link=paper.url or arxiv or spec.code or "",
                bibtex=paper.bibtex or "",
                badge_text=_badge_text(path.parent),
            )
            found.append((source, results))
    return found


def _badge_text(folder: Path) -> str:
    found = trusted(folder)
    return found.badge_text if found is not None else Badge.SELF_REPORTED.value
