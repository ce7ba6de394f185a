"""What the chosen runs were measured on and what each of them recommended, read from the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups, TaskManifest
from genrec_unlearn_bench.data.holdout import carve
from genrec_unlearn_bench.errors import CorruptArtefact, ProtocolMismatch
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.list_lookup import RunLists, find_dataset_of, find_lists
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import MANIFEST, read_record
from genrec_unlearn_bench.reporting.examples.rows import SideBySide
from genrec_unlearn_bench.store.store import StageStore

__all__ = ["Scene", "set_scene"]


@dataclass(frozen=True, eq=False)
class Scene:
    """Runs on one ground.

    Attributes:
        split: The task as the runs were measured on it; only its test part is complete for interaction requests.
        runs: Label and lists, the original first.
    """

    title: str
    dataset: Dataset
    split: ForgetSplit
    runs: tuple[tuple[str, RunLists], ...]

    @property
    def record(self) -> RunRecord:
        """The original's, for what all runs share."""
        return self.runs[0][1].record

    def examples(self, group: Group) -> Examples:
        """The test examples of FORGET or RETAIN, in the order of the lists."""
        return self.split.test.forget if group is Group.FORGET else self.split.test.retain


def set_scene(chosen: SideBySide, store: StageStore) -> Scene:
    """Read everything.

    Raises:
        DataMissing: The cache lacks the lists of a run, or the dataset.
        ProtocolMismatch: The runs do not stand on the same test examples.
        CorruptArtefact: What was read does not fit together.
    """
    runs = tuple((label, find_lists(read_record(result.folder), store)) for label, result in chosen.rows)
    first = runs[0][1]
    for label, found in runs[1:]:
        if not all(_same(first, found, group) for group in (Group.FORGET, Group.RETAIN)):
            raise ProtocolMismatch(
                f"the runs of {runs[0][0]!r} and {label!r} were measured on different test examples",
                where=chosen.title,
                hint="compare runs of one dataset, task and suite",
            )
    dataset = find_dataset_of(first.record, store)
    split = _split(dataset, _manifest(chosen.rows[0][1].folder, first.record), first)
    return Scene(chosen.title, dataset, split, runs)


def _same(one: RunLists, other: RunLists, group: Group) -> bool:
    return np.array_equal(one.users(group), other.users(group)) and np.array_equal(
        one.targets(group), other.targets(group)
    )


def _manifest(folder: Path, record: RunRecord) -> TaskManifest:
    path = folder / MANIFEST
    hint = f"restore the folder, or make the run again: {record.command}"
    try:
        manifest = TaskManifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise CorruptArtefact("the task's manifest cannot be read", where=str(path), hint=hint) from None
    if manifest.digest != record.task_digest:
        raise CorruptArtefact("the manifest beside the result is of another task", where=str(path), hint=hint)
    return manifest


def _split(dataset: Dataset, manifest: TaskManifest, found: RunLists) -> ForgetSplit:
    """The task from its manifest, so that the task's file is not needed.

    The manifest of an interaction request does not say which of its interactions were drawn for the test; the per-user
    table does.
    """
    row = {name: number for number, name in enumerate(dataset.items.ids)}
    width = max(len(dataset.items), 1)
    items = np.zeros(len(dataset.items), dtype=np.bool_)
    items[[row[name] for name in manifest.forget_items]] = True
    listed = [(user, row[name]) for user, name in manifest.forget_interactions]
    pairs = np.asarray(listed, dtype=np.int64).reshape(-1, 2)
    single = manifest.kind is ConceptKind.INTERACTION
    forgotten = pairs[:, 0] * width + pairs[:, 1]

    def divided(part: Examples) -> Groups:
        gone = np.isin(part.users * width + part.targets, forgotten) if single else items[part.targets]
        return Groups(forget=part.subset(gone), retain=part.subset(~gone))

    train, valid, test = (divided(part) for part in (dataset.train, dataset.valid, dataset.test))
    if single:
        tested = found.users(Group.FORGET) * width + found.targets(Group.FORGET)
        drawn = train.forget.subset(np.isin(train.forget.users * width + train.forget.targets, tested))
        test = Groups(forget=drawn, retain=dataset.test)
    split = ForgetSplit(manifest.kind, items, pairs, train, valid, test, manifest)
    if single and found.record.holdout:
        # What is never trained on is not to be forgotten either.
        split = replace(split, pairs=carve(dataset, split)[1].pairs)
    for group, part in ((Group.FORGET, split.test.forget), (Group.RETAIN, split.test.retain)):
        if not _are(part, found.users(group), found.targets(group)):
            raise CorruptArtefact(
                f"the {group.value} test examples of the dataset are not those of the per-user table",
                where=found.record.cell.task,
                hint=f"make the run again: {found.record.command}",
            )
    return split


def _are(part: Examples, users: IntArray, targets: IntArray) -> bool:
    return np.array_equal(part.users, users) and np.array_equal(part.targets, targets)
