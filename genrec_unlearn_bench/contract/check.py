"""The whole contract, from the file to its calls on every backbone, in about a minute on one thread."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.backbones.catalogue import backbones, load_backbone
from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.contract.behaviour import call_findings, everywhere, repeat_findings, time_finding
from genrec_unlearn_bench.contract.configuration import Method, configuration_findings, imported
from genrec_unlearn_bench.contract.finding import Checked, Finding, broken, kept
from genrec_unlearn_bench.contract.reduced_settings import reduced_fields
from genrec_unlearn_bench.contract.source import source_findings
from genrec_unlearn_bench.contract.trial import Trial, tried
from genrec_unlearn_bench.contract.world import Place, World
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import CapabilityMissing, UnknownName, UsageError
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import Entry, find_method
from genrec_unlearn_bench.store.store import StageStore

if TYPE_CHECKING:
    from genrec_unlearn_bench.unlearning.method import MethodConfig

__all__ = ["check_method"]

FIRST = Place()

NEEDED = frozenset({"config-default", "declarations"})
"""Rules without which a method cannot even be set up."""


def check_method(
    text: str,
    *,
    cache_dir: Path,
    progress: Progress,
    fields: Mapping[str, Any] | None = None,
    on: Sequence[str] | None = None,
    roots: Sequence[Path] = (),
) -> Checked:
    """Hold a method against its contract.

    Args:
        text: ``path/to/file.py``, ``path/to/file.py:Class``, or the name of an installed method.
        cache_dir: Where the small recommenders are kept.
        fields: Fields of the configuration to set, on top of those that shorten it.
        on: Backbones beside TIGER; None takes all, () none.
        roots: Folders besides the cache that the method has no business in.

    Raises:
        UsageError: There is no such file or method, or ``fields`` do not fit.
    """
    began = time.perf_counter()
    title = "the file can be read and holds one method with a name of its own"
    try:
        entry = find_method(text)
    except UnknownName:
        raise
    except UsageError as fault:
        if ".py" not in text or "there is no method file" in fault.what:
            raise
        finding = broken("file", title, fault.what, hint=fault.hint or f"see {fault.where}")
        return Checked(method=text, file=text, findings=(finding,), seconds=time.perf_counter() - began)
    if entry.kind == "reference":
        raise UsageError(
            f"{entry.name!r} is a reference row and has no contract", hint="check a method: bench ls methods"
        )
    # Wrong names show before anything is done.
    _named(on)
    findings = [kept("file", title), *source_findings(entry)]
    method, finding = imported(entry)
    findings.append(finding)
    if method is not None:
        findings += configuration_findings(entry, method)
        if not any(finding.status == "broken" and finding.rule in NEEDED for finding in findings):
            work = _Work(entry, method, text, dict(fields or {}), World(StageStore(cache_dir, progress), progress))
            with determinism(1):
                findings += work.findings(on, (cache_dir, *roots), progress)
    return Checked(
        method=entry.name,
        file=str(entry.source or entry.target),
        findings=tuple(findings),
        seconds=round(time.perf_counter() - began, 1),
    )


@dataclass(frozen=True, eq=False)
class _Work:
    """The calls of one method."""

    entry: Entry
    method: Method
    text: str
    changes: dict[str, Any]
    world: World

    def findings(self, on: Sequence[str] | None, roots: Sequence[Path], progress: Progress) -> Iterator[Finding]:
        """Call it here and there, and judge."""
        config = self._config()
        place = self._first(on)
        if isinstance(place, Finding):
            yield place
            return
        progress.info(f"check: {place}")
        task, recommender = self.world.task(place), self.world.recommender(place)
        made = self.method(config)
        source = self.entry.source
        first = tried(made, recommender, task, source=source, roots=roots)
        yield from call_findings(first)
        if first.fault:
            return
        # The same object again, in other surroundings; a new original, as the first may have been changed.
        recommender = self.world.recommender(place)
        again = tried(made, recommender, task, source=source, surroundings=1, thorough=False)
        other = tried(self.method(config), self.world.recommender(place), task, source=source, seed=1, thorough=False)
        yield repeat_findings(first, again, other)
        yield from everywhere(self._elsewhere(config, place, on, progress), frozenset(self.method.kinds))
        yield time_finding(first)

    def _config(self) -> MethodConfig:
        """A few steps, whatever else the user sets."""
        fields = {**self.entry.fields, **reduced_fields(self.method.name, self.method.Config)}
        lengths = {} if "max_steps" in fields else _one_epoch(self.method.Config)
        return parse(self.method.Config, {**lengths, **fields, **self.changes}, where="--set")

    def _first(self, on: Sequence[str] | None) -> Place | Finding:
        """TIGER and the brand task, or the first place that the method serves."""
        kinds = [kind for kind in ConceptKind if kind in self.method.kinds]
        refusals = []
        for backbone in (FIRST.backbone, *(name for name in _named(on) if name != FIRST.backbone)):
            for kind in kinds:
                refusal = self._refusal(Place(backbone, kind))
                if not refusal:
                    return Place(backbone, kind)
                refusals.append(refusal)
        reason = refusals[0] if refusals else "it serves no kind of request"
        return broken("runs", "it runs somewhere", reason, hint="ask for less in `requires`, or name a --backbone")

    def _elsewhere(
        self, config: MethodConfig, first: Place, on: Sequence[str] | None, progress: Progress
    ) -> dict[Place, Trial | str]:
        kinds = [kind for kind in ConceptKind if kind in self.method.kinds and kind is not first.kind]
        places = [Place(first.backbone, kind) for kind in kinds]
        places += [Place(name, first.kind) for name in _named(on) if name != first.backbone]
        found: dict[Place, Trial | str] = {}
        for place in places:
            refusal = self._refusal(place)
            if refusal:
                found[place] = refusal
                continue
            progress.info(f"check: {place}")
            task, recommender = self.world.task(place), self.world.recommender(place)
            found[place] = tried(self.method(config), recommender, task, source=self.entry.source)
        return found

    def _refusal(self, place: Place) -> str:
        try:
            self.world.resolve(place, self.text, self.changes)
        except CapabilityMissing as fault:
            return fault.what
        return ""


def _named(on: Sequence[str] | None) -> list[str]:
    """TIGER first; then what was asked for."""
    names = sorted(backbones(), key=lambda name: name != FIRST.backbone) if on is None else list(on)
    for name in names:
        load_backbone(name)
    return names


def _one_epoch(config: type[MethodConfig]) -> dict[str, Any]:
    """Where there is no ``max_steps``: fields that are called epochs, at one."""
    return {
        name: 1
        for name, field in config.model_fields.items()
        if name.rpartition("_")[2] == "epochs" and type(field.default) is int and field.default > 1
    }
