"""Jobs of a grid, and what stages are expected to cost."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING, Any

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.grid.spec import Resources
from genrec_unlearn_bench.pipeline.request import RunRequest

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.stage import Stage
    from genrec_unlearn_bench.store.store import StageStore

RESULT = "result"
MAX_SAMPLES = 25
"""Manifests read for one estimate."""


class Job(StrictModel):
    """One piece of work: a cell, or a stage that cells share. Plain JSON, so that it can be handed to any executor."""

    name: str
    """Unique within the sweep and the same in every plan: that of the cell, or of the shared stage
    (``original: industrial, tiger, small, seed 0 (3fa2b1c4)``)."""
    request: RunRequest
    """The cell; for a shared stage, one of the cells that need it."""
    until: str = RESULT
    """Name of the stage that the job ends with: ``original``, ``retrain``, …; ``result`` for a cell."""
    key: str = ""
    """Key of a shared stage."""
    needs: tuple[str, ...] = ()
    """Jobs that have to be done first."""
    cells: tuple[str, ...] = ()
    """Cells that cannot be finished without it."""
    resources: Resources = Field(default_factory=Resources)
    seconds: float | None = None
    """Estimated wall-clock; None where it is unknown, as for the bytes that it will add to the cache."""
    size: int | None = None


class Costs:
    """Estimates: medians of stored stages of the same name and configuration, the seed left aside."""

    def __init__(self, store: StageStore) -> None:
        self._store = store
        self._keys = lru_cache(maxsize=None)(self._read_keys)
        self._median = lru_cache(maxsize=None)(self._read_median)

    def total(self, stages: Iterable[Stage]) -> dict[str, Any]:
        """``seconds`` and ``size`` (bytes) of several stages together: None as soon as one of them is unknown."""
        found = [self._median(stage.name, _config(stage.recipe)) for stage in stages]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return {"seconds": None, "size": None}
        return {"seconds": sum((seconds for seconds, _ in known), 0.0), "size": sum(size for _, size in known)}

    def _read_median(self, name: str, config: str) -> tuple[float, int] | None:
        keys = self._keys(name).get(config, [])[:MAX_SAMPLES]
        found = [manifest for key in keys if (manifest := self._store.manifest(name, key)) is not None]
        if not found:
            return None
        return median(each.seconds for each in found), round(median(each.size for each in found))

    def _read_keys(self, name: str) -> Mapping[str, list[str]]:
        """Configuration -> keys of stored stages of a name."""
        found: dict[str, list[str]] = defaultdict(list)
        for key, recipe in self._store.recipes(name):
            found[_config(recipe)].append(key)
        return found


def _config(recipe: Mapping[str, Any]) -> str:
    """The configuration of a stage without its seed, to compare by."""
    config = recipe.get("config")
    plain = {name: value for name, value in config.items() if name != "seed"} if isinstance(config, dict) else config
    return json.dumps(plain, sort_keys=True)
