"""Dataset and ranked lists of a run, from the cache that made it; and the lists as TREC files.

A result folder has no lists; its record names the stages by key. What is missing is not computed here, as that may take
hours: the error names the command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genrec_unlearn_bench.data.dataset import Dataset, load_dataset
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.errors import DataMissing, UsageError
from genrec_unlearn_bench.evaluation.lists import LISTS, Lists, read_lists, trec_qrels, trec_run
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.evaluation.ranking import BEAMS, block_of
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER
from genrec_unlearn_bench.store.manifest import StoredStage
from genrec_unlearn_bench.store.store import StageStore

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class RunLists:
    """Ranked lists of a run."""

    record: RunRecord
    rankings: Lists
    """By group and beam, [M, k]; M is 0 where the group has no examples."""
    per_user: pd.DataFrame
    """The per-user table (``per_user.COLUMNS``), whose rows are those of the lists."""

    def users(self, group: Group) -> IntArray:
        return block_of(self.per_user, group, BEAMS[0]).integers("user")

    def targets(self, group: Group) -> IntArray:
        return block_of(self.per_user, group, BEAMS[0]).integers("target")

    def ranks(self, group: Group, beam: int) -> IntArray:
        """[M] 1-based place of the target in the list, 0 where it is not there."""
        return block_of(self.per_user, group, beam).integers("rank")


def find_lists(record: RunRecord, store: StageStore) -> RunLists:
    """The lists of a run. Raises DataMissing where the cache does not hold them, UsageError where there are none."""
    if not record.per_user_digest:
        what = "this run recommends nothing: its model's weights are not finite"
        raise UsageError(what, where=_named(record), hint="leave it out, or choose another seed")
    stage = _stage(record, "evaluation", "ranked lists", store)
    return RunLists(record, read_lists(stage.path / LISTS), read_per_user(stage.path / PER_USER))


def find_dataset_of(record: RunRecord, store: StageStore) -> Dataset:
    """The prepared dataset that a run stands on. Raises DataMissing."""
    return load_dataset(_stage(record, "dataset", "dataset", store).path)


def trec_files(found: RunLists) -> Iterator[tuple[str, str]]:
    """Name and text of ``<group>.qrels``, and of ``<group>.beam<beam>.run`` for every beam; nothing for an empty group.

    The query of a line is the row of the group's test example, which is the same in all runs of a task; items are the
    dataset's row numbers.
    """
    cell = found.record.cell
    tag = f"{cell.method}-{cell.scale}-seed{cell.seed}-{found.record.key[:10]}"
    for group in dict.fromkeys(group for group, _ in found.rankings):
        targets = found.targets(group)
        if len(targets):
            yield f"{group.value}.qrels", _text(trec_qrels(targets))
            for beam in BEAMS:
                yield f"{group.value}.beam{beam}.run", _text(trec_run(found.rankings[group, beam], tag=tag))


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


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
