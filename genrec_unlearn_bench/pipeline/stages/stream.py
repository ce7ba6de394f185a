"""A stream of requests: a forget set divided by concept, each part unlearned from the last one's model and measured.

What counts as one concept depends on the task: a brand; an item, where items, categories or a price band are to be
forgotten; a user, where single interactions are. Concepts are dealt out in a seeded order, balanced, and never split
over two requests. The division depends on the task and its train part alone, so all methods and training seeds get the
same requests. A method is called as for one request, on its own output.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.measurement import ExtraMetrics
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.evaluation.ranking import block_of, gain, hit
from genrec_unlearn_bench.evaluation.stream import BEAM, NOT_MEASURED, StreamRanks, stream_quality, stream_times
from genrec_unlearn_bench.pipeline.record import Cost
from genrec_unlearn_bench.pipeline.results import LOSSES, PER_USER
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext, read_notes, write_log
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask, prepare_task
from genrec_unlearn_bench.pipeline.stages.evaluate import Scores, evaluate_stage
from genrec_unlearn_bench.pipeline.stages.unlearn import unlearn_stage
from genrec_unlearn_bench.seeding import derive, numpy_generator
from genrec_unlearn_bench.unlearning.request import check_request
from genrec_unlearn_bench.unlearning.sampling import all_examples

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest

NAME = "stream"
"""Name of the table, ``measurements/stream.csv``."""

_WORDS = {ConceptKind.BRAND: "brands", ConceptKind.INTERACTION: "users"}
"""What a request counts; items for the other kinds."""


@dataclass(frozen=True, eq=False)
class Portion:
    """One request of a stream, ``number`` from 1."""

    number: int
    names: tuple[str, ...]
    """The brands it names; empty for the other kinds."""
    concepts: int
    """Number of its brands, items or users."""
    items: BoolArray
    """[N] concept items, as in ``ForgetSplit``."""
    pairs: IntArray
    """[P, 2] (user, item), as in ``ForgetSplit``."""
    interactions: int
    """Number of train examples it asks to forget."""


@dataclass(frozen=True, eq=False)
class Stream:
    """A forget set, ``split``, as requests, one after the other."""

    split: ForgetSplit
    requests: tuple[Portion, ...]
    places: IntArray
    """Place of the request (from 0) by item, or by user for the kind ``interaction``; -1 where nothing is forgotten."""

    def owners(self, forget: Examples) -> IntArray:
        """[M] place (from 0) of the request that each example of a forget side belongs to."""
        return self.places[_labels(self.split.kind, forget)]

    def asked(self, number: int) -> ForgetSplit:
        """The task as the method gets it at one request: what to forget now, and what may still be used.

        Data of later requests are retain data. Examples of earlier requests are gone, and so are their events in every
        history; rows whose history becomes empty go as well. Validation examples of an interaction request are train
        interactions, so later ones stay out of the retain side of validation.
        """
        split, portion = self.split, self.requests[number - 1]
        gone = self._until(number - 1)

        def part(groups: Groups, *, later: bool) -> Groups:
            owners = self.owners(groups.forget)
            forget = groups.forget.subset(owners == number - 1)
            waiting = groups.forget.subset(owners >= number)
            retain = all_examples(groups.retain, waiting) if later and len(waiting) else groups.retain
            return Groups(forget, retain) if number == 1 else Groups(gone.cleaned(forget), gone.cleaned(retain))

        return replace(
            split,
            items=portion.items,
            pairs=portion.pairs,
            train=part(split.train, later=True),
            valid=part(split.valid, later=split.kind is not ConceptKind.INTERACTION),
        )

    def so_far(self, number: int) -> ForgetSplit:
        """The task with the first ``number`` requests as its forget set; the retain side of the test part stays that
        of the whole stream."""
        test = self.split.test
        forget = test.forget.subset(self.owners(test.forget) < number)
        return replace(self._until(number), test=Groups(forget, test.retain))

    def _until(self, number: int) -> ForgetSplit:
        """The task with the concepts of the first ``number`` requests alone, its parts left as they are."""
        done, split = self.requests[:number], self.split
        items = np.logical_or.reduce([np.zeros_like(split.items), *(portion.items for portion in done)])
        return replace(split, items=items, pairs=np.concatenate([split.pairs[:0], *(one.pairs for one in done)]))


def divide(split: ForgetSplit, items: ItemTable, count: int) -> Stream:
    """Divide a forget set into ``count`` requests of about as many train interactions each.

    Raises UsageError where fewer concepts than requests have anything to be forgotten.
    """
    units, names = _units(split, items)
    found = units[_labels(split.kind, split.train.forget)]
    weights = np.bincount(found, minlength=int(units.max(initial=-1)) + 1).astype(np.int64)
    there = int(np.count_nonzero(weights))
    if count > there:
        words = _WORDS.get(split.kind, "items")
        raise UsageError(
            f"the forget set has {there} {words} with train interactions, so it cannot be asked in {count} requests",
            where=split.manifest.task,
            hint=f"--requests {there} at most, as {words} are never split over two requests",
        )
    generator = numpy_generator(0, "stream", split.manifest.digest, count)
    dealt = _dealt(weights, count, generator)
    places = np.where(units >= 0, dealt[np.maximum(units, 0)], -1).astype(np.int64)
    single = split.kind is ConceptKind.INTERACTION
    owners = places[_labels(split.kind, split.train.forget)]
    requests = []
    for place in range(count):
        chosen = np.flatnonzero(dealt == place)
        marked = np.zeros_like(split.items) if single else np.asarray(places == place, dtype=np.bool_)
        pairs = split.pairs[places[split.pairs[:, 0]] == place] if single else split.pairs
        shown = tuple(names[unit] for unit in chosen) if names else ()
        requests.append(Portion(place + 1, shown, len(chosen), marked, pairs, int(np.count_nonzero(owners == place))))
    return Stream(split, tuple(requests), places)


def _labels(kind: ConceptKind, examples: Examples) -> IntArray:
    """[M] what an example's request is looked up by: its user for single interactions, its target otherwise."""
    return examples.users if kind is ConceptKind.INTERACTION else examples.targets


def _units(split: ForgetSplit, items: ItemTable) -> tuple[IntArray, tuple[str, ...]]:
    """The concept's number by item (or user), -1 where there is none; and the brands' names by number."""
    if split.kind is ConceptKind.INTERACTION:
        rows, size = np.unique(split.pairs[:, 0]), int(split.pairs[:, 0].max(initial=-1)) + 1
    else:
        rows, size = np.flatnonzero(split.items), len(split.items)
    names: tuple[str, ...] = ()
    numbers = np.arange(len(rows))
    if split.kind is ConceptKind.BRAND:
        brands, numbers = np.unique([items.brands[row] for row in rows], return_inverse=True)
        names = tuple(map(str, brands))
    units = np.full(size, -1, dtype=np.int64)
    units[rows] = numbers.ravel()
    return units, names


def _dealt(weights: IntArray, count: int, generator: np.random.Generator) -> IntArray:
    """[U] the request of every concept: the largest first, each to the request with the least so far (longest-
    processing-time scheduling, equals in drawn order); then the requests are shuffled."""
    order = generator.permutation(len(weights))
    order = order[np.argsort(-weights[order], kind="stable")]
    loads = np.zeros(count, dtype=np.int64)
    dealt = np.empty(len(weights), dtype=np.int64)
    for unit in order:
        dealt[unit] = loads.argmin()
        loads[dealt[unit]] += weights[unit]
    shuffled: IntArray = generator.permutation(count).astype(np.int64)[dealt]
    return shuffled


def stream_stages(
    resolved: ResolvedRequest, data: Mapping[str, Stage], sids: Stage, original: Stage
) -> tuple[Stage, tuple[Stage, ...]]:
    """The model at the end of a stream, and the evaluations of the models before it.

    Each evaluation is on the requests so far and on the retain side of the whole stream. The first stage fails with
    DataFault where any request has nothing to forget or nothing to keep.
    """
    count = resolved.request.requests
    steps: list[Stage] = []
    evaluations: list[Stage] = []
    for number in range(1, count + 1):
        config = {"request": number, "requests": count}
        step = unlearn_stage(
            resolved,
            data,
            sids,
            steps[-1] if steps else original,
            config=config,
            situation=_situation(resolved, number),
            # Requests draw independently: one random direction or one order of batches for all would be an artefact.
            request_seed=derive(resolved.seed, "request", number),
            step_of_stream=number > 1,
            label=f"unlearned {number}",
            where=f"{resolved.task.name}, request {number} of {count}",
        )
        steps.append(step)
        if number < count:
            situation, label = _situation(resolved, number, so_far=True), f"evaluation {number}"
            evaluations.append(
                evaluate_stage(resolved, data, sids, step, config=config, situation=situation, label=label)
            )
    return _whole(resolved, steps), tuple(evaluations)


def _situation(resolved: ResolvedRequest, number: int, *, so_far: bool = False) -> Callable[[Inputs], PreparedTask]:
    """The task as it is asked at one request of a stream, or as it is measured after it."""
    count = resolved.request.requests

    def situation(inputs: Inputs) -> PreparedTask:
        prepared = prepare_task(inputs, resolved)
        stream = divide(prepared.split, prepared.dataset.items, count)
        if so_far:
            return replace(prepared, split=stream.so_far(number))
        if number == 1:
            # All requests are checked before the first is carried out.
            for portion in stream.requests:
                asked = replace(prepared, split=stream.asked(portion.number)).request(resolved.seed)
                check_request(asked, task=f"{resolved.task.name}, request {portion.number} of {count}")
        return replace(prepared, split=stream.asked(number))

    return situation


def _whole(resolved: ResolvedRequest, steps: Sequence[Stage]) -> Stage:
    """Losses, notes and cost of all requests as of one piece of work, named by request; loads the last model."""
    roles = {f"request {number}": step for number, step in enumerate(steps, start=1)}

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> Mapping[str, Any]:
        stored = {role: inputs.stored(role) for role in roles}
        reports = {role: read_notes(one.path) for role, one in stored.items()}
        lines = [
            {**line, "stage": f"{role}: {line['stage']}"}
            for role, one in stored.items()
            for line in map(json.loads, (one.path / LOSSES).read_text(encoding="utf-8").splitlines())
        ]
        notes = {
            "diverged": any(report["diverged"] for report in reports.values()),
            "steps": sum(report["steps"] for report in reports.values()),
            "notes": {role: report["notes"] for role, report in reports.items() if report["notes"]},
        }
        write_log(folder, lines, notes)
        return {
            "seconds": sum(float(one.facts["seconds"]) for one in stored.values()),
            "peak_memory_mib": max(float(one.facts["peak_memory_mib"]) for one in stored.values()),
        }

    def load(inputs: Inputs, folder: Path) -> Any:
        return inputs.model(f"request {len(steps)}")

    return Stage("stream", 1, {}, roles, compute=compute, load=load, seed=resolved.seed)


def stream_metrics(
    stream: Stream, found: Sequence[Scores], seconds: Sequence[float], *, before: Scores, cost: Cost, fixed: bool
) -> ExtraMetrics:
    """Metrics ``stream.*`` and the table ``NAME`` from the scores of a stream's models.

    Args:
        found: Scores after each request.
        seconds: Of each request that was carried out.
        before: Scores of the original.
        fixed: One model (a reference row) stands for the whole stream, and its cost is paid at the end.
    """
    retrain = cost.retrain_seconds
    measured = [scores.per_user is not None for scores in found[: len(seconds)]]
    broken = None if all(measured) else measured.index(False) + 1
    if broken is not None or before.per_user is None:
        culprit = "of the model" if fixed else f"after request {broken} of {len(stream.requests)}"
        reason = f"the weights {culprit if before.per_user else 'of the original'} are not finite"
        times = stream_times(seconds, retrain_seconds=retrain, reason=reason)
        return ExtraMetrics((*stream_quality(None, reason=reason), *times))
    ranks = _ranks(stream, found, before)
    times = stream_times(seconds, retrain_seconds=retrain, fixed=fixed)
    table = _table(stream, ranks, seconds, retrain)
    return ExtraMetrics((*stream_quality(ranks, fixed=fixed), *times), tables={NAME: table})


def _ranks(stream: Stream, found: Sequence[Scores], before: Scores) -> StreamRanks:
    owners = stream.owners(stream.split.test.forget)
    forget = np.full((len(found), len(owners)), NOT_MEASURED, dtype=np.int64)
    exposed = forget.copy()
    retain = np.empty((len(found), len(stream.split.test.retain)), dtype=np.int64)
    for place, scores in enumerate(found):
        asked = owners <= place
        for into, column in ((forget, "rank"), (exposed, "exposed_rank")):
            ranks = _of(scores, Group.FORGET, column)
            # Of a model that was measured on the whole task, the requests so far count.
            into[place, asked] = ranks[asked] if len(ranks) == len(owners) else ranks
        retain[place] = _of(scores, Group.RETAIN)
    return StreamRanks(owners, forget, exposed, retain, _of(before, Group.RETAIN))


def _of(scores: Scores, group: Group, column: str = "rank") -> IntArray:
    """[M] ranks of one side's test interactions, in order."""
    return block_of(read_per_user(scores.folder / PER_USER), group, BEAM).integers(column)


def _table(stream: Stream, ranks: StreamRanks, seconds: Sequence[float], retrain_seconds: float | None) -> pd.DataFrame:
    """One row a request, measured right after it, at beam 10; NaN where there is nothing to measure on.

    names, concepts and interactions as of ``Portion``. forget: on its own test interactions; so_far: of it and all
    earlier requests; earlier: of these alone, each as served and exposed; retain: on what is never requested in the
    whole stream. share_of_retraining: all seconds so far over those of one retraining at the end.
    """
    import pandas as pd

    retain_hits, gains, spent = hit(ranks.retain, 10), gain(ranks.retain, 10), np.cumsum(seconds)

    def mean(of: IntArray, chosen: BoolArray) -> float:
        known = of[chosen][of[chosen] != NOT_MEASURED]
        return float(hit(known, 10).mean()) if len(known) else float("nan")

    rows = []
    for place, portion in enumerate(stream.requests):
        own, earlier = ranks.owners == place, ranks.owners < place
        groups = {"forget": own, "so_far": own | earlier, "earlier": earlier}
        rows.append(
            {
                "request": portion.number,
                "names": "; ".join(portion.names),
                "concepts": portion.concepts,
                "items": int(portion.items.sum()) or len(np.unique(portion.pairs[:, 1])),
                "interactions": portion.interactions,
                **{
                    f"{exposed}{name}_hr@10": mean(of[place], rows_of)
                    for name, rows_of in groups.items()
                    for exposed, of in (("", ranks.forget), ("exposed_", ranks.exposed))
                },
                "retain_hr@10": float(retain_hits[place].mean()),
                "retain_ndcg@10": float(gains[place].mean()),
                "seconds": seconds[place],
                "cumulative_seconds": float(spent[place]),
                "share_of_retraining": float(spent[place]) / retrain_seconds if retrain_seconds else float("nan"),
                **{f"{name}_n": int(rows_of.sum()) for name, rows_of in groups.items()},
                "retain_n": ranks.retain.shape[1],
            }
        )
    return pd.DataFrame(rows)
