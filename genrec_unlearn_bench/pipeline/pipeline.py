"""One cell from end to end: ground, semantic IDs, original, oracles, unlearning, measurements, result.

Every step is a stage of the store, so a second method on the same task pays for its own unlearning and evaluation
alone, and an interrupted run goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.collateral import change_from_original
from genrec_unlearn_bench.evaluation.cost import cost_values
from genrec_unlearn_bench.evaluation.gap import gap_to_oracle
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.launch import place
from genrec_unlearn_bench.pipeline.account import assemble, cell_of, cost_of, result_key
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.ground import Ground, lay_ground
from genrec_unlearn_bench.pipeline.measured import Beyond, Taken, take_beyond
from genrec_unlearn_bench.pipeline.record import Cell, Cost, RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.results import result_folder, table_bytes, write_result
from genrec_unlearn_bench.pipeline.scored import Scores, score
from genrec_unlearn_bench.pipeline.setting import settle
from genrec_unlearn_bench.pipeline.shadows import Shadowed, shadowed
from genrec_unlearn_bench.pipeline.stage_log import LOSSES
from genrec_unlearn_bench.pipeline.stream.chain import unlearned_in_turn
from genrec_unlearn_bench.pipeline.stream.curve import Followed, follow
from genrec_unlearn_bench.pipeline.stream.requests import Stream, divide
from genrec_unlearn_bench.pipeline.trained import (
    Tokens,
    Trained,
    deployed,
    oracle,
    original,
    popularity,
    retrain_full,
    sasrec,
    tokens,
)
from genrec_unlearn_bench.pipeline.unlearned import unlearned
from genrec_unlearn_bench.pipeline.workroom import Shelf, Workroom
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.sources import code_digests
from genrec_unlearn_bench.store.store import StageStore, StoredStage
from genrec_unlearn_bench.tuning.rulesets import Ruling

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.evaluation.metric import MetricValue

__all__ = ["Finished", "Footing", "Made", "lay_footing", "make_row", "run_cell"]


@dataclass(frozen=True, eq=False)
class Finished:
    """A run's record and the folder it was written to."""

    record: RunRecord
    folder: Path


def run_cell(
    request: RunRequest,
    store: StageStore,
    progress: Progress | None = None,
    *,
    shelf: Shelf | None = None,
    ruling: Ruling | None = None,
) -> Finished:
    """Run one cell and write its result.

    Args:
        shelf: What earlier cells of this session left in memory; give the same one to all of them.
        ruling: Where the method's configuration comes from, if not from the request's ruleset (a record's own).

    Raises:
        UsageError: The request itself is wrong; nothing was done.
        BenchError: Data, storage or the run failed; finished stages are kept.
    """
    setting = settle(request, ruling)
    # Reads the digests of all code now that it is imported: an edit during a long run counts from the next run on.
    code_digests([__name__, setting.backbone.__module__])
    room = Workroom(setting, store, progress or Progress(), shelf or Shelf())
    with determinism(setting.threads):
        return _run(room)


@dataclass(frozen=True, eq=False)
class Footing:
    """What a cell shares with all other methods on its task, backbone and seed.

    Attributes:
        sids: The deployed semantic IDs.
        before: The original recommender.
        scores: Of the original and the oracles, by the keys of their stages, as far as they were taken.
    """

    ground: Ground
    stream: Stream | None
    sids: Tokens
    before: Trained
    oracles: tuple[Trained, ...]
    scores: Mapping[str, Scores] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Made:
    """All stages of a cell, before anything is read of them.

    Attributes:
        row: What the cell is about.
        own: Its scores.
        before: Scores of the original.
        oracles: Scores of the oracles.
        beyond: What the suite measures beyond the core.
        judged: What shadow models say.
    """

    row: Trained
    own: Scores
    before: Scores
    oracles: tuple[Scores, ...]
    beyond: Taken
    judged: Shadowed

    @property
    def further(self) -> tuple[tuple[str, StoredStage], ...]:
        """Stages beyond the core, each with what the record calls it."""
        return (*self.beyond.stages, *self.judged.stages)

    def key(self, cell: Cell) -> str:
        """The key of the cell's result."""
        return result_key(
            cell,
            evaluation=self.own.stage,
            oracles=[scores.stage for scores in self.oracles],
            beyond=[stage for _, stage in self.further],
        )


def lay_footing(room: Workroom) -> Footing:
    """The stages that a cell shares with others, up to the oracles; each from the store where it is there."""
    setting = room.setting
    ground = lay_ground(room)
    setting.ruling.check_task(ground.split.manifest.digest)
    requests = setting.request.requests
    stream = divide(ground.split, ground.dataset.items, requests) if requests > 1 else None
    sids = tokens(room, ground)
    before = original(room, ground, sids)
    sids = deployed(room, sids, before)
    oracles = tuple(oracle(room, ground, sids, number) for number in range(setting.request.oracle_seeds))
    return Footing(ground, stream, sids, before, oracles)


def make_row(room: Workroom, footing: Footing) -> Made:
    """The stages of a cell's own, and the measurements of what it is held against.

    Of a plan's room, which computes nothing, this is what the cell's result stands on: see ``grid.probe``.
    """
    ground, sids, before, oracles = footing.ground, footing.sids, footing.before, footing.oracles
    row = _row(room, footing)
    scores = {
        id(trained): footing.scores.get(trained.stage.key) or score(room, ground, sids, trained)
        for trained in _distinct([before, *oracles, row])
    }
    own = scores[id(row)]
    return Made(
        row,
        own,
        scores[id(before)],
        tuple(scores[id(trained)] for trained in oracles),
        take_beyond(room, ground, sids, row, before=before, oracles=oracles) if own.measured else Taken(),
        shadowed(room, ground, sids, before) if own.measured else Shadowed(),
    )


def _run(room: Workroom) -> Finished:
    setting = room.setting
    footing = lay_footing(room)
    made = make_row(room, footing)
    ground, oracles, row, own = footing.ground, footing.oracles, made.row, made.own
    cost = cost_of(setting.entry, row, oracles[0] if oracles else None, setting.ruling.choice)
    found = made.beyond.compared(len(oracles))
    found = replace(found, values=(*found.values, *made.judged.values))
    metrics = _values(made, found) if own.measured else ()
    stream = footing.stream
    followed = follow(stream, row, own, before=made.before, cost=cost) if stream is not None else Followed()
    metrics = (*metrics, *_cost_metrics(cost), *followed.values)
    tables = {name: table_bytes(table) for name, table in {**found.tables, **followed.tables}.items()}
    record = assemble(
        room,
        ground,
        row,
        own,
        list(zip(oracles, made.oracles, strict=True)),
        key=made.key(cell_of(setting)),
        cost=cost,
        metrics=metrics,
        beyond=made.further,
        tables=tables,
    )
    _check(metrics)
    if place() > 0:
        return Finished(record, result_folder(setting.request.results_dir, record))
    folder = write_result(
        setting.request.results_dir,
        record,
        ground.split.manifest,
        per_user=own.per_user,
        losses=row.stage.path / LOSSES,
        tables=tables,
    )
    return Finished(record, folder)


def _row(room: Workroom, footing: Footing) -> Trained:
    """The row that was asked for."""
    setting = room.setting
    ground, sids, before, oracles = footing.ground, footing.sids, footing.before, footing.oracles
    if setting.method is not None and footing.stream is not None:
        return unlearned_in_turn(room, ground, sids, before, footing.stream)
    if setting.method is not None:
        return unlearned(room, ground, sids, before)
    if setting.entry.name == "original":
        return before
    if setting.entry.name == "retrain":
        return oracles[0] if oracles else oracle(room, ground, sids)
    if setting.entry.name == "retrain-full":
        return retrain_full(room, ground)
    if setting.entry.name == "popularity":
        return popularity(room, ground)
    if setting.entry.name == "sasrec":
        return sasrec(room, ground)
    raise BenchError(f"the reference row {setting.entry.name!r} has no recipe")


def _distinct(rankers: list[Trained]) -> list[Trained]:
    return list({id(trained): trained for trained in rankers}.values())


def _values(made: Made, beyond: Beyond) -> tuple[MetricValue, ...]:
    """What was measured on the run itself, against the original, and against the oracles."""
    own, before = made.own, made.before
    values = (*own.values, *beyond.values)
    further = beyond.oracles or [()] * len(made.oracles)
    return (
        *values,
        *change_from_original(own.values, before.values, tables=_tables(own, before)),
        *gap_to_oracle(values, [(*scores.values, *more) for scores, more in zip(made.oracles, further, strict=True)]),
    )


def _tables(own: Scores, before: Scores) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Both per-user tables, where both models were measured."""
    if own.per_user is None or before.per_user is None:
        return None
    return read_per_user(own.per_user), read_per_user(before.per_user)


def _check(metrics: tuple[MetricValue, ...]) -> None:
    faults = check_invariants(metrics)
    if faults:
        listing = "".join(f"\n  - {fault}" for fault in faults[:10])
        raise BenchError(
            f"the result breaks {len(faults)} invariants and was not written:{listing}",
            hint="this is a fault of the suite: please report it with the command and the output of `bench doctor`",
        )


def _cost_metrics(cost: Cost) -> tuple[MetricValue, ...]:
    return cost_values(
        unlearn_seconds=cost.unlearn_seconds,
        share_of_retraining=cost.share_of_retraining,
        peak_memory_mib=cost.peak_memory_mib,
        steps=cost.steps,
        tuning_trials=cost.tuning_trials,
    )
