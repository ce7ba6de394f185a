"""The runs and test examples of ``bench results examples``: which are compared, and which examples are shown.

By default the examples whose lists changed most are shown, by a declared rule that looks at nothing but lists: the
change of an example is 1 - overlap@10 between the original's list and a method's, averaged over the methods shown; ties
go to the lower row. A user is shown once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from genrec_unlearn_bench.config import read_json
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, TaskManifest
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, ProtocolMismatch, UnknownName, UsageError
from genrec_unlearn_bench.evaluation.lists import list_change
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH, TEST_GROUPS
from genrec_unlearn_bench.pipeline.list_lookup import RunLists, find_dataset_of, find_lists
from genrec_unlearn_bench.pipeline.results import MANIFEST, read_record
from genrec_unlearn_bench.reporting.board import Block, Board, Row
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.selection import chosen
from genrec_unlearn_bench.store.store import StageStore


def choose_runs(
    board: Board, protocol: StatisticsProtocol, *, methods: Sequence[str] = (), seed: int | None = None
) -> tuple[str, dict[str, Result]]:
    """Choose the runs of a block that are compared, at a seed, or the lowest at which no row is missing or diverged.

    Returns the block's title and the runs by label: the original, the oracle, then the others.

    Args:
        methods: Labels, methods or globs of rows; all methods where none are given.

    Raises UsageError where several blocks fit, UnknownName for a row, and DataMissing where the original, the oracle or
    a method has no such run.
    """
    labels = {block: [row.label for row in block.rows] for block in board.blocks}
    having = [
        block for block in labels if all(any(chosen(label, (name,)) for label in labels[block]) for name in methods)
    ]
    if len(blocks := having or list(board.blocks)) > 1:
        raise UsageError(
            f"{len(blocks)} blocks of results fit, and only lists of one are compared: "
            + "; ".join(block.key.title for block in blocks[:12]),
            hint="choose one with --task, --backbone, --scale, --ruleset, --suite, --method, or keep recommenders of "
            "another configuration in a --results-dir of their own",
        )
    (block,) = blocks
    rows = _rows(block, protocol, methods)
    usable = {row.label: sorted(set(row.results) - set(row.diverged)) for row in rows}
    shared = sorted(set.intersection(*map(set, usable.values())))
    if not shared or seed not in (None, *shared):
        has = "; ".join(f"{label} has {', '.join(map(str, seeds)) or 'none'}" for label, seeds in usable.items())
        at = "at no seed all rows have a run" if seed is None else f"not all rows have a run at seed {seed}"
        hint = "choose another --seed or --method, or run what is missing"
        raise DataMissing(f"{at} that did not diverge: {has}", where=block.key.title, hint=hint)
    seed = shared[0] if seed is None else seed
    return block.key.title, {row.label: row.results[seed] for row in rows}


def _rows(block: Block, protocol: StatisticsProtocol, methods: Sequence[str]) -> tuple[Row, ...]:
    out: dict[str, Row] = {}
    key = block.key
    for method in (protocol.baseline, protocol.oracle):
        row = next((row for row in block.rows if row.method == method), None)
        if row is None:
            hint = f"run it: bench run --task {key.task} --backbone {key.backbone} --method {method}"
            raise DataMissing(f"there is no run of {method!r} to compare with", where=key.title, hint=hint)
        out[row.label] = row
    for pattern in methods or [row.label for row in block.rows if row.kind == "method"]:
        found = [row for row in block.rows if chosen(row.label, (pattern,))]
        if not found:
            raise UnknownName("method", pattern, [row.label for row in block.rows])
        out |= {row.label: row for row in found}
    return tuple(out.values())


@dataclass(frozen=True, eq=False)
class TaskRuns:
    """Lists of runs by label, the original's first, with the dataset and the task."""

    title: str
    dataset: Dataset
    manifest: TaskManifest
    runs: tuple[tuple[str, RunLists], ...]

    @property
    def first(self) -> RunLists:
        """The original's, for what all runs share."""
        return self.runs[0][1]

    @cached_property
    def forgotten(self) -> set[tuple[int, int]]:
        """(user, item) of what is to be forgotten; user -1 stands for all."""
        row = {name: number for number, name in enumerate(self.dataset.items.ids)}
        items = {(-1, row[name]) for name in self.manifest.forget_items}
        return items | {(user, row[name]) for user, name in self.manifest.forget_interactions}

    def is_forgotten(self, user: int, item: int) -> bool:
        """Whether an item is to be forgotten; of single interactions, by this user."""
        return not self.forgotten.isdisjoint(((user, item), (-1, item)))

    def example(self, group: Group, row: int) -> Examples:
        """One test example, with its history."""
        pairs = np.stack([self.first.users(group), self.first.targets(group)], axis=1)
        # Interactions to be forgotten are train examples.
        single = self.manifest.kind is ConceptKind.INTERACTION and group is Group.FORGET
        part = self.dataset.train if single else self.dataset.test
        same = np.flatnonzero((part.users == pairs[row, 0]) & (part.targets == pairs[row, 1]))
        return part.subset(same[[(pairs[:row] == pairs[row]).all(axis=1).sum()]])


def load_task_runs(title: str, chosen: Mapping[str, Result], store: StageStore) -> TaskRuns:
    """The dataset, the task and the lists of some runs.

    Raises DataMissing where the cache lacks one of them, ProtocolMismatch for runs on different test examples, and
    CorruptArtefact where the manifest beside a result is not that of its task.
    """
    runs = tuple((label, find_lists(read_record(result.folder), store)) for label, result in chosen.items())
    first = runs[0][1]
    for label, found in runs[1:]:
        same = (
            np.array_equal(of(first, group), of(found, group))
            for group in TEST_GROUPS
            for of in (RunLists.users, RunLists.targets)
        )
        if not all(same):
            what = f"the runs of {runs[0][0]!r} and {label!r} were measured on different test examples"
            raise ProtocolMismatch(what, where=title, hint="compare runs of one dataset, task and suite")
    path = next(iter(chosen.values())).folder / MANIFEST
    manifest = read_json(TaskManifest, path)
    if manifest is None or manifest.digest != first.record.task_digest:
        hint = f"restore the folder, or make the run again: {first.record.command}"
        raise CorruptArtefact("the manifest beside the result is not that of its task", where=str(path), hint=hint)
    return TaskRuns(title, find_dataset_of(first.record, store), manifest, runs)


RULE = (
    "Chosen by rule: the users whose top-10 list differs most from the original's (1 - overlap@10, averaged over the "
    "methods shown); one example a user."
)

NAMED = "Chosen by name: every test example of the users asked for."

REFERENCES = 2
"""The original and the oracle stand first; what comes after them are the methods that a change is about."""


def most_changed(task_runs: TaskRuns, group: Group, beam: int, top: int) -> IntArray:
    """[<= top] rows of a group's test examples, most changed first. Raises UsageError for a group without any."""
    lists = [run.rankings[group, beam] for _, run in task_runs.runs]
    users = task_runs.first.users(group)
    if not len(users):
        hint = "choose the other --group, or another task"
        raise UsageError(f"there are no {group.value} test examples", where=task_runs.title, hint=hint)
    others = lists[REFERENCES:] or lists[1:]
    changes = np.mean([list_change(lists[0], other, LIST_LENGTH) for other in others], axis=0)
    order = np.argsort(-changes, kind="stable")
    _, first = np.unique(users[order], return_index=True)
    return np.asarray(order[np.sort(first)][:top], dtype=np.int64)


def of_users(task_runs: TaskRuns, wanted: Sequence[int], groups: Sequence[Group]) -> list[tuple[Group, int]]:
    """Every test example of the named users in some groups, user by user. Raises UsageError for users without any."""
    found = [
        (user, group, int(row))
        for user in dict.fromkeys(wanted)
        for group in groups
        for row in np.flatnonzero(task_runs.first.users(group) == user)
    ]
    if absent := [user for user in wanted if user not in {user for user, _, _ in found}]:
        raise UsageError(
            f"no {' or '.join(group.value for group in groups)} test example is of the user "
            + ", ".join(map(str, absent)),
            where=task_runs.title,
            hint="users go by the numbers in the column `user` of per_user.parquet; or show the most changed: --top 5",
        )
    return [(group, row) for _, group, row in found]
