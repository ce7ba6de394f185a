"""Why a cell is to be made anew: the first stage that differs from the one that its result was made with, or from the
nearest stored one, and the fields in which it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.grid.differences import differing, plain
from genrec_unlearn_bench.store.manifest import KEY_FILE
from genrec_unlearn_bench.store.stage_manifest import stage_content

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic import BaseModel

    from genrec_unlearn_bench.grid.probe import Visit, Walk
    from genrec_unlearn_bench.grid.results_at_hand import AtHand
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["Difference", "first_difference", "nearest"]

ROWS = ("unlearned", "stream", "retrain", "retrain-full", "popularity", "sasrec", "original")


@dataclass(frozen=True)
class Difference:
    """A stage that is not the one it was.

    Attributes:
        stage: Its name.
        fields: One line a field; empty where nothing is left of the stage to compare with.
        then: The key it had.
        now: The key it would have.
        of: What it was compared with, where that is no result of the cell.
    """

    stage: str
    fields: tuple[str, ...]
    then: str
    now: str
    of: str = ""

    @property
    def sentence(self) -> str:
        """The difference in one line."""
        if not self.fields:
            return f"{self.stage}: made from something else, which is no longer in the cache"
        rest = len(self.fields) - 1
        return f"{self.stage}: {self.fields[0]}" + (f" and {rest} more" if rest else "")


def first_difference(walk: Walk, result: AtHand, store: StageStore) -> Difference | None:
    """The first stage, upstream first, whose key is not the one that the result was made with; None where all that
    the walk has come by are the same."""
    for name, visit in recorded_names(walk):
        then = result.stages.get(name)
        if then is None or then[0] == visit.key or (visit.stage is not None and visit.stage.digest == then[1]):
            continue
        content = _stored(store, visit.name, then[0])
        fields = differing(content, visit.content) if content is not None else ()
        return Difference(name, fields or _by_record(result, walk, visit.name), then[0], visit.key)
    return None


def nearest(walk: Walk, store: StageStore) -> Difference | None:
    """The stage that is missing, compared with the stored one of the same kind that differs in fewest fields."""
    if not walk.missing or not walk.missing[0].key:
        return None
    missing = walk.missing[0]
    now, best = plain(missing.content), None
    for folder in sorted((store.root / missing.name).glob(f"*/*/{KEY_FILE}")):
        content = _content(folder.parent)
        if content is None:
            continue
        fields = differing(content, missing.content)
        shared = sum(1 for field in now if content.get(field) == now[field])
        rank = (-shared, len(fields))
        if fields and (best is None or rank < best[0]):
            best = (rank, Difference(missing.name, fields, folder.parent.name, missing.key, of=str(folder.parent)))
    return best[1] if best is not None else None


def recorded_names(walk: Walk) -> Iterator[tuple[str, Visit]]:
    """The stages of a walk by the names that a record has for them, in the order of the walk."""
    row = next((visit.name for visit in reversed(walk.visits) if visit.name in ROWS), walk.cell.method)
    oracles = evaluated = 0
    seen: set[str] = set()
    for visit in (*walk.shared.visits, *walk.visits):
        if visit.key in seen:
            continue
        seen.add(visit.key)
        if visit.name == "retrain":
            yield f"retrain {oracles}" if oracles else "retrain", visit
            oracles += 1
        elif visit.name == "evaluation" and visit.of == "retrain":
            yield f"evaluation of retrain {evaluated}" if evaluated else "evaluation of retrain", visit
            evaluated += 1
        elif visit.name != "evaluation" or visit.of == row:
            yield visit.name, visit


def _stored(store: StageStore, name: str, key: str) -> dict[str, Any] | None:
    found = _content(store.folder(name, key))
    shared = getattr(store, "shared", None)
    if found is None and shared is not None:
        found = _content(shared / name / key[:2] / key)
    return found


def _content(folder: Path) -> dict[str, Any] | None:
    try:
        return stage_content(folder)
    except CorruptArtefact:
        return None


def _by_record(result: AtHand, walk: Walk, stage: str) -> tuple[str, ...]:
    """Where the stage itself is gone: what the record says about configurations."""
    setting = walk.setting
    configs: dict[str, tuple[str, BaseModel]] = {
        **dict.fromkeys(("unlearned", "stream"), ("method_config", setting.method_config)),
        **dict.fromkeys(("sids", "sids-full"), ("sid_config", setting.sid_config)),
        **dict.fromkeys(("original", "retrain", "retrain-full"), ("backbone_config", setting.backbone_config)),
    }
    if stage not in configs:
        return ()
    field, config = configs[stage]
    return differing({"config": result.content.get(field, {})}, {"config": config})
