"""Task pages: what is asked to be forgotten, on which data, what that came to, and how good its semantic IDs are.

What a task resolved to comes from the manifest that every run leaves beside its result, so that no page needs the data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.spec import DatasetSpec
from genrec_unlearn_bench.data.tasks import TaskSpec, tasks
from genrec_unlearn_bench.reporting.board import Block

MANIFEST = "manifest.json"
"""What a run leaves beside its result."""
MOST_CONCEPTS = 300
"""Names that a page lists; the others are counted."""
_LARGEST = 64 << 20
"""Bytes of a manifest or a report that are read."""

Facts = tuple[tuple[str, str], ...]
"""Names and what they are."""


@dataclass(frozen=True)
class HealthReport:
    """The semantic IDs of one backbone at one scale; ``levels`` as ``LEVELS`` heads them, ``prefixes`` likewise."""

    title: str
    levels: tuple[tuple[str, ...], ...]
    facts: Facts
    prefixes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class TaskPage:
    """A task: the request, its data, and what it resolved to.

    Attributes:
        resolved: From the manifest: draws, shares, digest.
        counts: Part, forget examples, retain examples.
        citations: Key and BibTeX.
    """

    title: str = ""
    text: str = ""
    facts: Facts = ()
    dataset: str = ""
    dataset_facts: Facts = ()
    citations: Facts = ()
    resolved: Facts = ()
    counts: tuple[tuple[str, int, int], ...] = ()
    concepts: tuple[str, ...] = ()
    more_concepts: int = 0
    health: tuple[HealthReport, ...] = ()


def task_pages(
    blocks: Sequence[Block], *, manifests: Path | None = None, health: Path | None = None
) -> dict[str, TaskPage]:
    """A page for every task of some blocks, in their order.

    Args:
        manifests: Folder with ``<task>.json``, for results without a manifest beside them.
        health: Folder with ``<task>-<backbone>-<scale>.json``, as ``bench data sids --json`` prints them.
    """
    # Of what ships alone: a data folder of this machine would make pages that nobody else can make again.
    known = tasks()
    names = dict.fromkeys(block.key.task for block in blocks)
    return {
        name: _page(name, known.get(name), [b for b in blocks if b.key.task == name], manifests, health)
        for name in names
    }


def _page(
    name: str, spec: TaskSpec | None, blocks: Sequence[Block], manifests: Path | None, health: Path | None
) -> TaskPage:
    manifest = _manifest(name, blocks, manifests)
    dataset = packaged_datasets().get(spec.dataset if spec is not None else str(manifest.get("dataset", "")))
    concepts = [str(concept) for concept in manifest.get("concepts", ())]
    return TaskPage(
        title=spec.title if spec is not None else "",
        text=" ".join(spec.description.split()) if spec is not None else "",
        facts=_requested(spec) if spec is not None else (),
        dataset=dataset.name if dataset is not None else str(manifest.get("dataset", "")),
        dataset_facts=_about(dataset) if dataset is not None else (),
        citations=tuple((c.key, c.bibtex.strip()) for c in dataset.citations) if dataset else (),
        resolved=_resolved(manifest),
        counts=_counts(manifest),
        concepts=tuple(concepts[:MOST_CONCEPTS]),
        more_concepts=max(0, len(concepts) - MOST_CONCEPTS),
        health=_health(blocks, health),
    )


def _requested(spec: TaskSpec) -> Facts:
    concept = spec.concept.model_dump(mode="json")
    return (
        *((key.replace("_", " ").capitalize(), _text(value)) for key, value in concept.items() if value is not None),
        ("Version", str(spec.version)),
        ("Seed of the draw", str(spec.seed)),
    )


def _about(dataset: DatasetSpec) -> Facts:
    core = f"{dataset.k_core}-core" if dataset.k_core > 1 else "as published"
    facts = [("Title", dataset.title), ("Split", dataset.split), ("Filtering", core), ("Terms", dataset.terms)]
    return tuple((name, text) for name, text in [*facts, *(("Note", note) for note in dataset.notes)] if text)


def _manifest(name: str, blocks: Sequence[Block], folder: Path | None) -> Mapping[str, Any]:
    """The manifest beside any of the results, if it is the one they were made with; else the folder's."""
    for block in blocks:
        for row in block.rows:
            for result in row.results.values():
                found = _read(result.folder / MANIFEST)
                if found.get("task") == name and found.get("digest", result.task_digest) == result.task_digest:
                    return found
    return _read(folder / f"{name}.json") if folder is not None and "/" not in name else {}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            return {}
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _resolved(manifest: Mapping[str, Any]) -> Facts:
    items = manifest.get("forget_items")
    within = manifest.get("within_tolerance")
    facts = [
        ("Concepts", str(len(manifest.get("concepts", ()))) if manifest.get("concepts") else ""),
        ("Concept items", str(len(items)) if isinstance(items, list) and items else ""),
        ("Share of train targets", _share(manifest.get("train_share"))),
        ("Draws", str(manifest.get("draws", ""))),
        ("Within tolerance", "yes" if within is True else "no: the nearest draw was taken" if within is False else ""),
        ("Retain examples with a concept item in their history", _share(manifest.get("retain_history_share"))),
        ("Manifest digest", str(manifest.get("digest", ""))),
    ]
    return tuple((name, text) for name, text in facts if text)


def _counts(manifest: Mapping[str, Any]) -> tuple[tuple[str, int, int], ...]:
    counts = manifest.get("counts")
    if not isinstance(counts, dict):
        return ()
    return tuple(
        (part, int(counts[f"{part}_forget"]), int(counts[f"{part}_retain"]))
        for part in ("train", "valid", "test")
        if f"{part}_forget" in counts and f"{part}_retain" in counts
    )


def _health(blocks: Sequence[Block], folder: Path | None) -> tuple[HealthReport, ...]:
    if folder is None:
        return ()
    out = []
    for backbone, scale, task in dict.fromkeys((b.key.backbone, b.key.scale, b.key.task) for b in blocks):
        found = _read(folder / f"{task}-{backbone}-{scale}.json".replace("/", "_"))
        if found.get("levels"):
            out.append(_report(found, f"{backbone}, {scale}: {found.get('items', 0)} items"))
    return tuple(out)


def _report(found: Mapping[str, Any], title: str) -> HealthReport:
    collisions = found.get("collisions", {})
    facts = [
        ("Items that collide on the codebooks' levels", found.get("quantised_collisions", {}).get("items", "")),
        ("Items that collide on whole IDs", collisions.get("items", "")),
        ("Largest group of equal IDs", collisions.get("largest", "")),
    ]
    return HealthReport(
        title,
        levels=tuple(
            (
                f"{level['level']}" if level.get("quantised") else f"{level['level']} (added)",
                f"{level['used']}/{level['size']}",
                f"{level['perplexity']:.1f}",
                _share(level.get("largest_share")),
                f"{level['prefixes']}",
                "–" if level.get("error") is None else f"{level['error']:.3f}",
                _share(level.get("nearest_share")) or "–",
            )
            for level in found["levels"]
        ),
        facts=tuple((name, str(text)) for name, text in facts if text != ""),
        prefixes=tuple(
            (
                f"{one['length']}",
                f"{one['shared']}",
                _share(one.get("brand_pure")) or "–",
                _share(one.get("category_pure")) or "–",
                _share(one.get("concept_shared")) or "–",
            )
            for one in found.get("prefixes", ())
        ),
    )


def _share(value: object) -> str:
    return f"{value:.1%}" if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value[:20])) + (f" … ({len(value)})" if len(value) > 20 else "")
    return str(value)
