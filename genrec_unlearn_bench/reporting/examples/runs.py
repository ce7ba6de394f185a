"""The runs and test examples of ``bench results examples``: which are compared, and which examples are shown.

By default the examples whose lists changed most are shown, by a declared rule that looks at nothing but lists: the
change of an example is 1 - overlap@10 between the original's list and a method's, averaged over the methods shown; ties
go to the example whose lists lost more concept items, then to the lower row. A user is shown once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
from pydantic import ValidationError

from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups, TaskManifest
from genrec_unlearn_bench.data.holdout import carve
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, ProtocolMismatch, UnknownName, UsageError
from genrec_unlearn_bench.evaluation.exposure import concept_places
from genrec_unlearn_bench.evaluation.lists import list_change
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH
from genrec_unlearn_bench.pipeline.list_lookup import RunLists, find_dataset_of, find_lists
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import MANIFEST, read_record
from genrec_unlearn_bench.reporting.board import Block, Board, Row
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.store.store import StageStore

SIDES = (Group.FORGET, Group.RETAIN)
UNASKED = 3
"""Methods that are shown where none are named; more have to be chosen."""


@dataclass(frozen=True, eq=False)
class ChosenRuns:
    """Runs of a block that are compared list by list, by label: the original, the oracle, then the others."""

    title: str
    seed: int
    rows: tuple[tuple[str, Result], ...]


def choose_runs(
    board: Board, protocol: StatisticsProtocol, *, methods: Sequence[str] = (), seed: int | None = None
) -> ChosenRuns:
    """Choose the runs of a block that are compared, at a seed, or the lowest that all rows have.

    Args:
        methods: Labels, methods or globs of rows; where none are given, all methods if these are few.

    Raises UsageError where several blocks or too many methods fit or a row has diverged, UnknownName for a row, and
    DataMissing where the original, the oracle or a method has no run at the seed.
    """
    if len(board.blocks) > 1:
        listing = "".join(f"\n  - {block.key.title}" for block in board.blocks[:12])
        raise UsageError(
            f"{len(board.blocks)} blocks of results fit, and only lists of one are compared:{listing}",
            hint="choose one with --task, --backbone, --scale, --ruleset and --suite; setups of the same names, by a "
            "--results-dir that holds one of them",
        )
    (block,) = board.blocks
    rows = _rows(block, protocol, methods)
    shared = sorted(set.intersection(*(set(row.results) for row in rows)))
    if not shared or seed not in (None, *shared):
        has = "; ".join(f"{row.label} has {', '.join(map(str, row.results))}" for row in rows)
        at = "no seed is shared by all rows" if seed is None else f"not all rows have a run at seed {seed}"
        hint = "choose another --seed, or run what is missing"
        raise DataMissing(f"{at}: {has}", where=block.key.title, hint=hint)
    chosen = shared[0] if seed is None else seed
    for row in rows:
        if chosen in row.diverged:
            raise UsageError(
                f"the run of {row.label!r} has diverged at seed {chosen}: its lists say nothing about the method",
                where=str(row.results[chosen].folder),
                hint="leave it out (--method), or choose another seed (--seed)",
            )
    return ChosenRuns(block.key.title, chosen, tuple((row.label, row.results[chosen]) for row in rows))


def _rows(block: Block, protocol: StatisticsProtocol, methods: Sequence[str]) -> tuple[Row, ...]:
    out: dict[str, Row] = {}
    for method in (protocol.baseline, protocol.oracle):
        found = [row for row in block.rows if row.method == method]
        if not found:
            key = block.key
            raise DataMissing(
                f"there is no run of {method!r} to compare with",
                where=key.title,
                hint=f"run it: bench run --task {key.task} --backbone {key.backbone} --method {method}",
            )
        out[found[0].label] = found[0]
    for pattern in methods:
        found = [row for row in block.rows if pattern in (row.label, row.method) or fnmatchcase(row.label, pattern)]
        if not found:
            raise UnknownName("method", pattern, [row.label for row in block.rows])
        out |= {row.label: row for row in found}
    if methods:
        return tuple(out.values())
    known = [row for row in block.rows if row.kind == "method"]
    if not known:
        raise DataMissing("there is no run of a method", where=block.key.title, hint="run one: bench run --method")
    if len(known) > UNASKED:
        raise UsageError(
            f"there are {len(known)} methods, too many to show: {', '.join(row.label for row in known)}",
            where=block.key.title,
            hint=f"name some of them: --method {known[0].label} --method {known[1].label}",
        )
    return (*out.values(), *known)


@dataclass(frozen=True, eq=False)
class TaskRuns:
    """Lists of runs by label, the original's first, with the dataset and the test part of the task."""

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


def load_task_runs(chosen: ChosenRuns, store: StageStore) -> TaskRuns:
    """The dataset, the task and the lists of some runs.

    Raises DataMissing where the cache lacks one of them, ProtocolMismatch for runs on different test examples, and
    CorruptArtefact where they do not fit together.
    """
    runs = tuple((label, find_lists(read_record(result.folder), store)) for label, result in chosen.rows)
    first = runs[0][1]
    for label, found in runs[1:]:
        if not all(np.array_equal(_tested(first, group), _tested(found, group)) for group in SIDES):
            raise ProtocolMismatch(
                f"the runs of {runs[0][0]!r} and {label!r} were measured on different test examples",
                where=chosen.title,
                hint="compare runs of one dataset, task and suite",
            )
    dataset = find_dataset_of(first.record, store)
    path = chosen.rows[0][1].folder / MANIFEST
    hint = f"restore the folder, or make the run again: {first.record.command}"
    try:
        manifest = TaskManifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise CorruptArtefact("the task's manifest cannot be read", where=str(path), hint=hint) from None
    if manifest.digest != first.record.task_digest:
        raise CorruptArtefact("the manifest beside the result is of another task", where=str(path), hint=hint)
    return TaskRuns(chosen.title, dataset, _split(dataset, manifest, first), runs)


def _tested(found: RunLists, group: Group) -> IntArray:
    """[2, M] user and target of every test example."""
    return np.stack([found.users(group), found.targets(group)])


def _split(dataset: Dataset, manifest: TaskManifest, found: RunLists) -> ForgetSplit:
    """The task's test part from its manifest and the per-user table, so that the task's file is not needed."""
    row = {name: number for number, name in enumerate(dataset.items.ids)}
    width = max(len(dataset.items), 1)
    items = np.zeros(len(dataset.items), dtype=np.bool_)
    items[[row[name] for name in manifest.forget_items]] = True
    listed = [(user, row[name]) for user, name in manifest.forget_interactions]
    pairs = np.asarray(listed, dtype=np.int64).reshape(-1, 2)
    single = manifest.kind is ConceptKind.INTERACTION

    def tested(part: Examples, group: Group) -> Examples:
        users, targets = _tested(found, group)
        chosen = part.subset(np.isin(part.users * width + part.targets, users * width + targets))
        if not np.array_equal([chosen.users, chosen.targets], [users, targets]):
            raise CorruptArtefact(
                f"the {group.value} test examples of the dataset are not those of the per-user table",
                where=found.record.cell.task,
                hint=f"make the run again: {found.record.command}",
            )
        return chosen

    # Interactions to be forgotten are train examples; the table has those that were drawn for the test.
    forget = tested(dataset.train if single else dataset.test, Group.FORGET)
    none = Groups(forget.subset(np.zeros(0, dtype=np.int64)), forget.subset(np.zeros(0, dtype=np.int64)))
    test = Groups(forget, tested(dataset.test, Group.RETAIN))
    split = ForgetSplit(manifest.kind, items, pairs, none, none, test, manifest)
    if single and found.record.holdout:
        # What is never trained on is not to be forgotten either.
        split = replace(split, pairs=carve(dataset, split)[1].pairs)
    return split


RULE = (
    "Chosen by rule: the users whose top-10 list differs most from the original's (1 - overlap@10, averaged over the "
    "methods shown), ties by how many concept items left the list; one example a user."
)

NAMED = "Chosen by name: every test example of the users asked for."

REFERENCES = 2
"""The original and the oracle stand first; what comes after them are the methods that a change is about."""


def most_changed(task_runs: TaskRuns, group: Group, beam: int, top: int) -> IntArray:
    """[<= top] rows of a group's test examples, most changed first. Raises UsageError for a group without any."""
    lists = [run.rankings[group, beam] for _, run in task_runs.runs]
    users = task_runs.runs[0][1].users(group)
    if not len(users):
        raise UsageError(
            f"there are no {group.value} test examples",
            where=task_runs.title,
            hint="choose the other --group, or another task",
        )
    others = lists[REFERENCES:] or lists[1:]
    changes = np.mean([list_change(lists[0], other, LIST_LENGTH) for other in others], axis=0)
    concept = [
        concept_places(task_runs.split, each.items[:, :LIST_LENGTH], users).sum(axis=1) for each in (lists[0], *others)
    ]
    left = np.mean([concept[0] - each for each in concept[1:]], axis=0)
    order = np.lexsort((np.arange(len(users)), -left, -changes))
    _, first = np.unique(users[order], return_index=True)
    return np.asarray(order[np.sort(first)][:top], dtype=np.int64)


def of_users(task_runs: TaskRuns, wanted: Sequence[int], groups: Sequence[Group]) -> list[tuple[Group, int]]:
    """Every test example of the named users in some groups, user by user as they were named.

    Raises UsageError for users without any, all of them at once.
    """
    found: list[tuple[Group, int]] = []
    absent: list[int] = []
    for user in dict.fromkeys(wanted):
        rows = [
            (group, int(row)) for group in groups for row in np.flatnonzero(task_runs.examples(group).users == user)
        ]
        found += rows
        if not rows:
            absent.append(user)
    if absent:
        known = np.unique(np.concatenate([task_runs.examples(group).users for group in groups]))
        where = " or ".join(group.value for group in groups)
        raise UsageError(
            f"no {where} test example is of the user {', '.join(map(str, absent))}",
            where=f"{task_runs.title}: {len(known)} users have one",
            hint="users go by the numbers in the column `user` of per_user.parquet; or show the most changed: --top 5",
        )
    return found


def choose_examples(
    task_runs: TaskRuns, groups: Sequence[Group], *, users: Sequence[int], beam: int, top: int
) -> tuple[list[tuple[Group, int]], str]:
    """The examples of some users, or those of the first group that changed most, and how they were chosen.

    Raises UsageError where there are none.
    """
    if users:
        return of_users(task_runs, users, groups), NAMED
    return [(groups[0], int(row)) for row in most_changed(task_runs, groups[0], beam, top)], RULE
