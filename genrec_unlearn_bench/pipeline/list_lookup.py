"""From a run's record to what it was measured on and what it recommended: stages that only the cache holds.

A result folder has numbers and no lists. The record names its stages by key, so they are found wherever the cache of
that run is at hand; what is not there is not computed here, as that may take hours, but the command for it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.storage import load_dataset
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, UsageError
from genrec_unlearn_bench.evaluation.lists import LISTS, Lists, read_lists
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.evaluation.ranking import BEAMS
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER
from genrec_unlearn_bench.store.store import StageStore, StoredStage

if TYPE_CHECKING:
    import pandas as pd

EVALUATION = "evaluation"
DATASET = "dataset"


@dataclass(frozen=True, eq=False)
class RunLists:
    """What a run recommended to every test example.

    Attributes:
        rankings: By group and beam, [M, k]; M is 0 where the group has no examples.
        per_user: The table that says whose list it is (``per_user.COLUMNS``), whole.
    """

    record: RunRecord
    rankings: Lists
    per_user: pd.DataFrame

    def users(self, group: Group) -> IntArray:
        """[M] user of each example of a group."""
        return self._column(group, "user")

    def targets(self, group: Group) -> IntArray:
        """[M] what was to be predicted."""
        return self._column(group, "target")

    def ranks(self, group: Group, beam: int) -> IntArray:
        """[M] 1-based place of the target in the list, 0 where it is not there."""
        return self._column(group, "rank", beam)

    def _column(self, group: Group, name: str, beam: int = BEAMS[0]) -> IntArray:
        frame = self.per_user
        rows = frame[(frame["group"] == group.value) & (frame["beam"] == beam)]
        return np.asarray(rows[name].to_numpy(dtype=np.int64))


def find_lists(record: RunRecord, store: StageStore) -> RunLists:
    """The lists of a run.

    Raises:
        DataMissing: The cache does not hold them: the run was made elsewhere, before lists were kept, or it is gone.
        UsageError: There are none, as the model's weights are not finite.
        CorruptArtefact: The files cannot be read, or do not belong together.
    """
    if not record.per_user_digest:
        raise UsageError(
            "this run recommends nothing: its model's weights are not finite",
            where=_named(record),
            hint="leave it out, or choose another seed",
        )
    stage = _stage(record, EVALUATION, "ranked lists", store)
    if not (stage.path / LISTS).is_file():
        raise DataMissing(
            "this run was evaluated before ranked lists were kept",
            where=f"{_named(record)}: {stage.path}",
            hint=f"evaluate it again: {record.command}",
        )
    rankings = read_lists(stage.path / LISTS)
    found = RunLists(record, rankings, read_per_user(stage.path / PER_USER))
    for (group, beam), ranking in rankings.items():
        targets = found.targets(group)
        if len(ranking) != len(targets) or not np.array_equal(ranking.ranks(targets), found.ranks(group, beam)):
            raise CorruptArtefact(
                f"the lists of the {group.value} examples at beam {beam} do not agree with the per-user table",
                where=str(stage.path),
                hint=f"remove that folder and evaluate the run again: {record.command}",
            )
    return found


def find_dataset_of(record: RunRecord, store: StageStore) -> Dataset:
    """The prepared dataset that a run stands on. Raises DataMissing or CorruptArtefact."""
    dataset = load_dataset(_stage(record, DATASET, "dataset", store).path)
    if dataset.manifest.digest != record.dataset_digest:
        raise CorruptArtefact(
            "the stored dataset is another one than the record's",
            where=f"{_named(record)}: {dataset.manifest.digest[:16]}, not {record.dataset_digest[:16]}",
            hint=f"make the run again: {record.command}",
        )
    return dataset


def _stage(record: RunRecord, name: str, what: str, store: StageStore) -> StoredStage:
    keys = [stage.key for stage in record.stages if stage.name == name]
    found = store.find(name, keys[0]) if keys else None
    if found is None:
        raise DataMissing(
            f"the cache has no {what} of this run: it was made elsewhere, or the cache has been cleared",
            where=f"{_named(record)}: {store.folder(name, keys[0]) if keys else store.root}",
            hint=f"name the cache it was made with (--cache-dir), or make it again: {record.command}",
        )
    return found


def _named(record: RunRecord) -> str:
    cell = record.cell
    return f"{cell.task}, {record.backbone_label or cell.backbone}, {cell.method}, seed {cell.seed}"
