"""Pulls stages of a store into one's own, so that nobody trains an original or an oracle that somebody has trained.

A stage is taken where every file has the digest of the index, its manifest seals them, and its key is that of its own
explanation. What was computed from it cannot be checked without doing it again: take stages from those you trust.
Nothing of them is executed; weights are safetensors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.files import atomic_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.manifest import MANIFEST, verified
from genrec_unlearn_bench.store.sharing import is_shared, opened_to_group
from genrec_unlearn_bench.store.stage_manifest import explains
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.submissions.pull.bringing import Brought, Outcome, bring_all, bring_files, clear
from genrec_unlearn_bench.submissions.pull.index import SHORT, OfferedResult, OfferedStage
from genrec_unlearn_bench.submissions.pull.place import Place

__all__ = ["pull_stages", "stages_of"]

PARTS = "pulling"
OPTION = "--cache-dir"


def stages_of(
    offered: Sequence[OfferedStage],
    *,
    kinds: Collection[str] = (),
    backbones: Collection[str] = (),
    results: Sequence[OfferedResult] | None = None,
) -> tuple[OfferedStage, ...]:
    """The stages that are wanted.

    Args:
        kinds, backbones: All where none are named; stages that all backbones share always belong to them.
        results: Only what these stand on; None for all.
    """
    keys = None if results is None else {key for result in results for key in result.stages}
    return tuple(
        one
        for one in offered
        if (not kinds or one.stage in kinds)
        and (not backbones or not one.backbone or one.backbone in backbones)
        and (keys is None or one.key[:SHORT] in keys or (one.was and one.was[:SHORT] in keys))
    )


def pull_stages(place: Place, wanted: Sequence[OfferedStage], root: Path, progress: Progress) -> tuple[Brought, ...]:
    """Bring stages into a store. What it holds already stays. Raises StorageError where it cannot be written."""
    store, shared = StageStore(root, progress), is_shared(root)
    return bring_all(
        wanted,
        lambda one: f"{one.stage}/{one.key[:SHORT]}",
        lambda one: _pull(place, one, store, shared=shared),
        progress,
        "pull stages",
    )


def _pull(place: Place, offered: OfferedStage, store: StageStore, *, shared: bool) -> Outcome:
    target = store.folder(offered.stage, offered.key)
    parts = store.root / PARTS / offered.key[:SHORT]
    if target.is_dir():
        return "here already"
    if MANIFEST not in offered.files:
        raise CorruptArtefact("the index names no manifest for it", where=offered.place)
    with atomic_folder(target, OPTION) as draft:
        bring_files(place, offered.place, offered.files, draft, parts)
        verified(draft, offered.stage, offered.key)
        if not explains(draft, offered.key):
            raise CorruptArtefact("the stage is another one than its key says", where=offered.place)
        if shared:
            opened_to_group(draft)
    clear(parts, store.root / PARTS)
    return "new"
