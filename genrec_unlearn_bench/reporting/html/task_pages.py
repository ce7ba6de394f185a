"""Task pages: what is asked to be forgotten, on which data, what that came to, and how good its semantic IDs are.

What a task resolved to comes from the manifest that every run leaves beside its result, so that no page needs the data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.data.spec import DatasetSpec
from genrec_unlearn_bench.data.tasks import TaskSpec, tasks
from genrec_unlearn_bench.pipeline.results import MANIFEST
from genrec_unlearn_bench.reporting.board import Block


@dataclass(frozen=True)
class TaskPage:
    """A task: the request and its data, where the package has them, and what it resolved to.

    Attributes:
        dataset: Name of the dataset.
        data: Its declaration.
        health: By backbone and scale, the report that ``bench data sids --json`` prints.
    """

    spec: TaskSpec | None
    dataset: str
    data: DatasetSpec | None
    manifest: TaskManifest | None
    health: Mapping[str, Mapping[str, Any]]

    @property
    def request(self) -> list[tuple[str, str]]:
        """Names and values of the request's fields."""
        if self.spec is None:
            return []
        fields = self.spec.concept.model_dump(mode="json", exclude_none=True)
        return [(name.replace("_", " ").capitalize(), _text(value)) for name, value in fields.items()]

    @property
    def about_data(self) -> list[tuple[str, str]]:
        """Names and values of the dataset's declaration."""
        data = self.data
        if data is None:
            return []
        core = f"{data.k_core}-core" if data.k_core > 1 else "as published"
        facts = [("Title", data.title), ("Split", data.split), ("Filtering", core), ("Terms", data.terms)]
        return [fact for fact in facts if fact[1]] + [("Note", note) for note in data.notes]


def task_pages(
    blocks: Sequence[Block], *, manifests: Path | None = None, health: Path | None = None
) -> dict[str, TaskPage]:
    """A page for every task of some blocks, in their order.

    Args:
        manifests: Folder with ``<task>.json``, for results without a manifest beside them.
        health: Folder with ``<task>-<backbone>-<scale>.json``, as ``bench data sids --json`` prints them.
    """
    out = {}
    for name in dict.fromkeys(block.key.task for block in blocks):
        mine = [block for block in blocks if block.key.task == name]
        manifest = _manifest(name, mine, manifests)
        # Of what ships alone: a data folder of this machine would make pages that nobody else can make again.
        spec = tasks().get(name)
        dataset = spec.dataset if spec is not None else manifest.dataset if manifest is not None else ""
        out[name] = TaskPage(spec, dataset, packaged_datasets().get(dataset), manifest, _health(mine, health))
    return out


def _manifest(name: str, blocks: Sequence[Block], folder: Path | None) -> TaskManifest | None:
    """The manifest beside any of the results, if it is the one they were made with; else the folder's."""
    for block in blocks:
        for row in block.rows:
            for result in row.results.values():
                found = _read(result.folder / MANIFEST)
                if found is not None and (found.task, found.digest) == (name, result.task_digest):
                    return found
    return _read(folder / f"{name}.json") if folder is not None and "/" not in name else None


def _read(path: Path) -> TaskManifest | None:
    try:
        return TaskManifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _health(blocks: Sequence[Block], folder: Path | None) -> dict[str, Mapping[str, Any]]:
    if folder is None:
        return {}
    out = {}
    for backbone, scale, task in dict.fromkeys((b.key.backbone, b.key.scale, b.key.task) for b in blocks):
        path = folder / f"{task}-{backbone}-{scale}.json".replace("/", "_")
        if path.is_file():
            out[f"{backbone}, {scale}"] = json.loads(path.read_bytes())
    return out


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value[:20])) + (f" … ({len(value)})" if len(value) > 20 else "")
    return str(value)
