"""Task pages: what is asked to be forgotten, on which data, what that came to, and how good its semantic IDs are.

What a task resolved to comes from the manifest that every run leaves beside its result, so that no page needs the data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.spec import DatasetSpec
from genrec_unlearn_bench.data.tasks import TaskSpec, tasks
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.html.payload_model import Cited, Fact, HealthReport, TaskPage

__all__ = ["MANIFEST", "task_pages"]

MANIFEST = "manifest.json"
"""What a run leaves beside its result."""
KINDS = ("brand", "price", "item", "interaction")
MOST_CONCEPTS = 300
"""Names that a page lists; the others are counted."""
_LARGEST = 64 << 20
"""Bytes of a manifest or a report that are read."""


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
    facts = []
    if spec is not None:
        facts = [("Version", str(spec.version)), ("Seed of the draw", str(spec.seed))]
        facts += [
            (key.replace("_", " ").capitalize(), _text(value))
            for key, value in spec.concept.model_dump(mode="json").items()
            if value is not None and key != "kind"
        ]
    return TaskPage(
        title=spec.title if spec is not None else "",
        text=spec.description if spec is not None else "",
        kind=_kind(name, spec) or str(manifest.get("kind", "")),
        facts=tuple(Fact(name=key, text=text) for key, text in facts),
        dataset=dataset.name if dataset is not None else str(manifest.get("dataset", "")),
        dataset_title=dataset.title if dataset is not None else "",
        dataset_facts=_about(dataset) if dataset is not None else (),
        citations=tuple(Cited(key=c.key, bibtex=c.bibtex.strip()) for c in dataset.citations) if dataset else (),
        resolved=_resolved(manifest),
        counts=_counts(manifest),
        concepts=tuple(concepts[:MOST_CONCEPTS]),
        more_concepts=max(0, len(concepts) - MOST_CONCEPTS),
        health=_health(blocks, health),
    )


def _kind(task: str, spec: TaskSpec | None) -> str:
    """What the task's file says, else the last word of its name; empty where that is no kind."""
    if spec is not None:
        return str(spec.concept.kind)
    last = task.rpartition("-")[2]
    return last if last in KINDS else ""


def _about(dataset: DatasetSpec) -> tuple[Fact, ...]:
    core = f"{dataset.k_core}-core" if dataset.k_core > 1 else "as published"
    facts = [("Split", dataset.split), ("Filtering", core), ("Terms", dataset.terms)]
    facts += [("Note", note) for note in dataset.notes]
    return tuple(Fact(name=name, text=text) for name, text in facts if text)


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


def _resolved(manifest: Mapping[str, Any]) -> tuple[Fact, ...]:
    if not manifest:
        return ()
    items = manifest.get("forget_items")
    facts = [
        ("Concepts", str(len(manifest.get("concepts", ()))) if manifest.get("concepts") else ""),
        ("Concept items", str(len(items)) if isinstance(items, list) and items else ""),
        ("Share of train targets", _share(manifest.get("train_share"))),
        ("Draws", str(manifest.get("draws", ""))),
        ("Within tolerance", _flag(manifest.get("within_tolerance"))),
        ("Retain examples with a concept item in their history", _share(manifest.get("retain_history_share"))),
        ("Manifest digest", str(manifest.get("digest", ""))),
    ]
    return tuple(Fact(name=name, text=text) for name, text in facts if text)


def _flag(value: object) -> str:
    return "yes" if value is True else "no: the nearest draw was taken" if value is False else ""


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
            out.append(_report(found, backbone, scale))
    return tuple(out)


def _report(found: Mapping[str, Any], backbone: str, scale: str) -> HealthReport:
    collisions = found.get("collisions", {})
    tokenizer = found.get("quantised_collisions", {})
    facts = [
        ("Items that collide on the codebooks' levels", str(tokenizer.get("items", ""))),
        ("Items that collide on whole IDs", str(collisions.get("items", ""))),
        ("Largest group of equal IDs", str(collisions.get("largest", ""))),
    ]
    return HealthReport(
        backbone=backbone,
        scale=scale,
        items=int(found.get("items", 0)),
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
        facts=tuple(Fact(name=name, text=text) for name, text in facts if text),
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
