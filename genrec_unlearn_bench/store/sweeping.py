"""One collection of a store: what a policy gives up and what nobody needs, removed or only named."""

from __future__ import annotations

from pathlib import Path

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.collection import Policy, cost, remove_stage, select
from genrec_unlearn_bench.store.inventory import entries
from genrec_unlearn_bench.store.orphans import orphans, remove_orphan

__all__ = ["Swept", "sweep_store"]


class Swept(StrictModel):
    """What went, or would go."""

    root: Path
    removed: bool
    """Whether anything was removed; else this is what would be."""
    stages: int
    size: int
    """Bytes that are freed."""
    reasons: dict[str, int]
    """Why -> how many stages."""
    seconds: dict[str, float]
    """Kind of stage -> what computing them again would take."""
    leftovers: dict[str, int]
    """Drafts, unfinished work and locks that nobody holds."""
    kept: int
    """Stages that stay."""
    refused: tuple[str, ...] = ()
    """What could not be removed: in use, or somebody else's."""


def sweep_store(root: Path, policy: Policy, progress: Progress, *, remove: bool) -> Swept:
    """Collect a store once.

    Args:
        remove: Remove what may go; otherwise only say what it is.
    """
    found = list(entries(root))
    chosen = select(found, policy) if policy.is_given else ()
    loose = list(orphans(root))
    refused: list[str] = []
    if remove:
        for stage in progress.track("remove", chosen, total=len(chosen)):
            if not remove_stage(stage.entry):
                refused.append(f"{stage.entry.name}/{stage.entry.key[:16]}")
        for orphan in loose:
            if not remove_orphan(orphan):
                refused.append(str(orphan.path.relative_to(root)))
    reasons: dict[str, int] = {}
    leftovers: dict[str, int] = {}
    for stage in chosen:
        reasons[stage.reason] = reasons.get(stage.reason, 0) + 1
    for orphan in loose:
        leftovers[orphan.kind] = leftovers.get(orphan.kind, 0) + 1
    return Swept(
        root=root,
        removed=remove,
        stages=len(chosen),
        size=sum(stage.frees for stage in chosen) + sum(orphan.size for orphan in loose),
        reasons=reasons,
        seconds=cost(chosen),
        leftovers=leftovers,
        kept=len(found) - len(chosen),
        refused=tuple(refused),
    )
