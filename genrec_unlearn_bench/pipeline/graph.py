"""The whole experiment on one page: the stages of a cell, from its dataset to its result."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest
from genrec_unlearn_bench.pipeline.stage import Stage
from genrec_unlearn_bench.pipeline.stages.data import data_stages
from genrec_unlearn_bench.pipeline.stages.evaluate import SASREC, evaluate_stage, measurement_stages, sasrec_stage
from genrec_unlearn_bench.pipeline.stages.shadows import shadow_stage
from genrec_unlearn_bench.pipeline.stages.stream import stream_stages
from genrec_unlearn_bench.pipeline.stages.train import MODEL, TrainingStages
from genrec_unlearn_bench.pipeline.stages.unlearn import unlearn_stage
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import load_table

if TYPE_CHECKING:
    Memo = dict[Hashable, Any]

RESULT = "result"

T = TypeVar("T")


def build_result(
    resolved: ResolvedRequest, memo: Memo | None = None, *, progress: Progress | None = None, download: bool = True
) -> Stage:
    """The stage ``result`` of a cell, whose key is that of the run's record, on top of all others.

    Nothing is computed and no stored stage is read. The result itself is written to the results folder. Its inputs have
    these roles: the data's, ``sids``, ``original``, ``retrain`` (``retrain 1`` …), ``row``; ``scores of`` each of these
    models; ``sasrec quality``; ``measured NAME of MODEL``; ``shadows``; ``step 1`` ….

    Args:
        memo: Keeps what cells of a grid share, so that it is built and hashed once; give the same one for all cells.
        download: Download missing dataset files, whose digests are part of the keys; else DataMissing is raised.
    """
    known: Memo = {} if memo is None else memo.setdefault((resolved.seed, resolved.shared), {})

    def shared(role: str, make: Callable[..., T], *arguments: Any) -> T:
        if role not in known:
            known[role] = make(*arguments)
        found: T = known[role]
        return found

    def measured(role: str, model: Stage, as_untrained: bool = False) -> dict[str, Stage]:
        stages = measurement_stages(resolved, data, sids, model, as_untrained=as_untrained)
        return {f"measured {name} of {role}": stage for name, stage in stages.items()}

    data, sids, original, retrained = shared(
        "recommender", partial(recommender_stages, resolved, progress, download=download)
    )
    row, steps = _row(resolved, data, sids, original, retrained)
    models = {"original": original}
    for number in range(resolved.request.oracle_seeds):
        models[f"retrain {number}" if number else "retrain"] = retrained[number]
    inputs = {**data, "sids": sids, **models, "row": row}
    for role, model in models.items():
        inputs[f"scores of {role}"] = shared(role, evaluate_stage, resolved, data, sids, model)
    if resolved.with_sasrec:
        inputs[SASREC] = shared(SASREC, sasrec_stage, resolved, data)
    own = resolved.entry.name == "retrain-full"
    inputs["scores of row"] = evaluate_stage(resolved, data, sids, row, own_tokenizer=own, label="evaluation")
    inputs |= steps
    if resolved.suite.measurements:
        for role, model in models.items():
            inputs |= shared(f"measured {role}", measured, role, model)
        inputs |= measured("row", row)
        inputs |= shared("untrained", measured, "untrained", original, True)
    if resolved.request.shadows:
        inputs["shadows"] = shadow_stage(resolved, data, sids, original)
    # Two rows may share an evaluation (the oracle is its own reference) and still be two results; so may two rulesets
    # that came to the same configuration.
    config = {"cell": resolved.cell.model_dump(mode="json"), "source": resolved.source.name}
    if steps:
        # Results of streams without exposed scores are not found again; all others are as they were.
        config["stream"] = "exposed"
    return Stage(RESULT, 1, config, inputs)


def recommender_stages(
    resolved: ResolvedRequest, progress: Progress | None = None, *, download: bool = True
) -> tuple[dict[str, Stage], Stage, Stage, list[Stage]]:
    """The stages that a cell shares with all methods on its task, backbone and seed: data, SIDs, original, oracles.

    At least one oracle is built, as the row ``retrain`` is one; ``build_result`` refers to those that are asked for.
    """
    data = data_stages(resolved, progress, download=download)
    training, cleaned = TrainingStages(resolved, data), TrainingStages(resolved, data, cleaned=True)
    sids = training.sids()
    original = training.fit("original", sids)
    if resolved.backbone.joint:
        # Oracles and measurements are in the IDs that the original serves with, here those it was trained with.
        sids = replace(original, load=lambda inputs, folder: load_table(folder / MODEL / "sids"), keep=True)
    numbers = range(max(1, resolved.request.oracle_seeds))
    return data, sids, original, [cleaned.fit("retrain", sids, number=number) for number in numbers]


def _row(
    resolved: ResolvedRequest, data: Mapping[str, Stage], sids: Stage, original: Stage, retrained: list[Stage]
) -> tuple[Stage, dict[str, Stage]]:
    """The stage of the row itself, and the models and evaluations of a stream by role."""
    if resolved.method is not None and resolved.request.requests > 1:
        row, evaluations = stream_stages(resolved, data, sids, original)
        steps = {f"step {number}": stage for number, stage in enumerate(row.inputs.values(), start=1)}
        return row, steps | {f"scores of step {n}": stage for n, stage in enumerate(evaluations, start=1)}
    if resolved.method is not None:
        return unlearn_stage(resolved, data, sids, original), {}
    whole, cleaned = TrainingStages(resolved, data), TrainingStages(resolved, data, cleaned=True)
    rows = {
        "original": lambda: original,
        "retrain": lambda: retrained[0],
        "retrain-full": lambda: cleaned.fit("retrain-full", cleaned.sids()),
        "popularity": whole.popularity,
        "sasrec": whole.sasrec,
    }
    return rows[resolved.entry.name](), {}
