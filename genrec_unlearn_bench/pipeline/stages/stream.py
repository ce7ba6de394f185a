"""Stages of a stream of requests: each is unlearned from the last one's model, and each model is measured.

A method is called as for one request, on its own output. ``requests`` divides the forget set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.evaluation.measured_parts import ExtraMetrics
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.evaluation.ranking import gain, hit
from genrec_unlearn_bench.evaluation.stream import BEAM, NOT_MEASURED, StreamRanks, stream_quality, stream_times
from genrec_unlearn_bench.files import write_json
from genrec_unlearn_bench.pipeline.results import LOSSES, PER_USER
from genrec_unlearn_bench.pipeline.stage import NOTES, Stage, read_notes
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask, prepare_task
from genrec_unlearn_bench.pipeline.stages.evaluate import Scores, evaluate_stage
from genrec_unlearn_bench.pipeline.stages.requests import Stream, divide
from genrec_unlearn_bench.pipeline.stages.unlearn import unlearn_stage
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.unlearning.request import check_request

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.pipeline.record import Cost
    from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest
    from genrec_unlearn_bench.pipeline.stage import Inputs, StageContext

NAME = "stream"
"""Name of the table, ``measurements/stream.csv``."""


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
    """Losses, notes and cost of all requests as of one piece of work; loads the last model."""
    roles = {f"request {number}": step for number, step in enumerate(steps, start=1)}

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> Mapping[str, Any]:
        stored = {role: inputs.stored(role) for role in roles}
        _write_notes(folder, {role: one.path for role, one in stored.items()})
        return {
            "seconds": sum(float(one.facts["seconds"]) for one in stored.values()),
            "peak_memory_mib": max(float(one.facts["peak_memory_mib"]) for one in stored.values()),
        }

    return Stage(
        "stream",
        1,
        {},
        roles,
        compute=compute,
        load=lambda inputs, folder: inputs.model(f"request {len(steps)}"),
        seed=resolved.seed,
    )


def _write_notes(folder: Path, steps: Mapping[str, Path]) -> None:
    """Write ``losses.jsonl`` and ``notes.json`` over all requests, as ``StageLog.write`` does for one stage.

    ``stage`` of a line of losses begins with the role of the request, and notes are grouped by it.
    """
    reports = {role: read_notes(path) for role, path in steps.items()}
    with (folder / LOSSES).open("w", encoding="utf-8") as handle:
        for role, path in steps.items():
            for text in (path / LOSSES).read_text(encoding="utf-8").splitlines():
                line: dict[str, Any] = json.loads(text)
                handle.write(json.dumps({**line, "stage": f"{role}: {line['stage']}"}) + "\n")
    content = {
        "diverged": any(report["diverged"] for report in reports.values()),
        "steps": sum(report["steps"] for report in reports.values()),
        "notes": {role: report["notes"] for role, report in reports.items() if report["notes"]},
    }
    write_json(folder / NOTES, content)


def stream_metrics(
    stream: Stream, found: Sequence[Scores], seconds: Sequence[float], *, before: Scores, cost: Cost, fixed: bool
) -> ExtraMetrics:
    """Metrics ``stream.*`` and the table ``NAME`` from the scores of a stream's models.

    Args:
        found: Scores after each request.
        seconds: Of each request that was carried out.
        before: Scores of the original.
        cost: Of the row.
        fixed: Whether the row is a reference row: one model for the whole stream, whose scores stand for every
            request, and whose cost (the retraining) is paid at the end.
    """
    retrain = cost.retrain_seconds
    broken = next((number for number, scores in enumerate(found[: len(seconds)], start=1) if not scores.measured), None)
    if broken is not None or not before.measured:
        culprit = "of the model" if fixed else f"after request {broken} of {len(stream.requests)}"
        reason = f"the weights {culprit if before.measured else 'of the original'} are not finite"
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
    frame = read_per_user(scores.folder / PER_USER)
    rows = frame[(frame["group"] == group.value) & (frame["beam"] == BEAM)]
    return np.asarray(rows.sort_values("example")[column].to_numpy(dtype=np.int64))


def _table(stream: Stream, ranks: StreamRanks, seconds: Sequence[float], retrain_seconds: float | None) -> pd.DataFrame:
    """One row a request, measured right after it, at beam 10; NaN where there is nothing to measure on.

    names: its brands. concepts: how many brands, items or users. interactions: train examples it asked to forget.
    forget: on its own test interactions; so_far: of it and all earlier requests; earlier: of these alone, each as
    served and exposed; retain: on what is never requested in the whole stream. share_of_retraining: all seconds so far
    over those of one retraining at the end.
    """
    import pandas as pd

    retain_hits = hit(ranks.retain, 10)
    gains = gain(ranks.retain, 10)
    spent = np.cumsum(seconds)

    def mean(of: IntArray, chosen: BoolArray) -> float:
        known = of[chosen][of[chosen] != NOT_MEASURED]
        return float(hit(known, 10).mean()) if len(known) else float("nan")

    rows = []
    for place, portion in enumerate(stream.requests):
        own, earlier = ranks.owners == place, ranks.owners < place
        rows.append(
            {
                "request": portion.number,
                "names": "; ".join(portion.names),
                "concepts": portion.concepts,
                "items": int(portion.items.sum()) or len(np.unique(portion.pairs[:, 1])),
                "interactions": portion.interactions,
                "forget_hr@10": mean(ranks.forget[place], own),
                "exposed_forget_hr@10": mean(ranks.exposed[place], own),
                "so_far_hr@10": mean(ranks.forget[place], own | earlier),
                "exposed_so_far_hr@10": mean(ranks.exposed[place], own | earlier),
                "earlier_hr@10": mean(ranks.forget[place], earlier),
                "exposed_earlier_hr@10": mean(ranks.exposed[place], earlier),
                "retain_hr@10": float(retain_hits[place].mean()),
                "retain_ndcg@10": float(gains[place].mean()),
                "seconds": seconds[place],
                "cumulative_seconds": float(spent[place]),
                "share_of_retraining": float(spent[place]) / retrain_seconds if retrain_seconds else float("nan"),
                "forget_n": int(own.sum()),
                "so_far_n": int((own | earlier).sum()),
                "earlier_n": int(earlier.sum()),
                "retain_n": ranks.retain.shape[1],
            }
        )
    return pd.DataFrame(rows)
