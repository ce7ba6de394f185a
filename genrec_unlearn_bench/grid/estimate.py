"""Estimates of time, disk and memory: the median over stored stages of the same name and configuration."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.stage import Stage
    from genrec_unlearn_bench.store.store import StageStore

MAX_SAMPLES = 25
"""Manifests read for one estimate."""


@dataclass(frozen=True)
class Estimate:
    """Expected cost; None where it is unknown.

    Attributes:
        seconds: Wall-clock.
        size: Bytes in the cache.
        memory_mib: Peak memory of the process or the device.
    """

    seconds: float | None = None
    size: int | None = None
    memory_mib: float | None = None


class Costs:
    """Estimates from a store, each made once. A stage's seed is no part of its configuration here."""

    def __init__(self, store: StageStore) -> None:
        self._store = store
        self._keys: dict[str, dict[str, list[str]]] = {}
        self._known: dict[tuple[str, str], Estimate] = {}

    def of(self, stage: Stage) -> Estimate:
        """The estimate for a stage that is not stored; all None where no such stage is."""
        group = (stage.name, _group(stage.recipe))
        if group not in self._known:
            self._known[group] = self._estimate(*group)
        return self._known[group]

    def _estimate(self, name: str, config: str) -> Estimate:
        if name not in self._keys:
            found: dict[str, list[str]] = defaultdict(list)
            for key, recipe in self._store.recipes(name):
                found[_group(recipe)].append(key)
            self._keys[name] = found
        keys = self._keys[name].get(config, [])[:MAX_SAMPLES]
        manifests = [manifest for key in keys if (manifest := self._store.manifest(name, key)) is not None]
        if not manifests:
            return Estimate()
        peaks = [float(peak) for each in manifests if (peak := each.facts.get("peak_memory_mib"))]
        return Estimate(
            seconds=median(each.seconds for each in manifests),
            size=round(median(each.size for each in manifests)),
            memory_mib=median(peaks) if peaks else None,
        )


def total(estimates: Iterable[Estimate]) -> Estimate:
    """The cost of several stages after one another: unknown as soon as one is; memory is the largest that is known."""
    found = list(estimates)
    seconds = [each.seconds for each in found]
    sizes = [each.size for each in found]
    peaks = [each.memory_mib for each in found if each.memory_mib is not None]
    return Estimate(
        seconds=None if None in seconds else sum(value for value in seconds if value is not None),
        size=None if None in sizes else sum(value for value in sizes if value is not None),
        memory_mib=max(peaks, default=None),
    )


def _group(recipe: Mapping[str, Any]) -> str:
    config = recipe.get("config")
    plain = {name: value for name, value in config.items() if name != "seed"} if isinstance(config, dict) else config
    return json.dumps(plain, sort_keys=True)
