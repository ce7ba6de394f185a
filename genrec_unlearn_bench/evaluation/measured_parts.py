"""Run, store and compare measurements: all parts of one measurement on one model are one stage, in one folder.

The folder holds ``parts.json`` (part -> subfolder and the reason why it could not be measured, or "") and a subfolder
for each part with ``outcome.json``, ``curve.parquet`` and ``samples.safetensors``, the latter two where there are some.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genrec_unlearn_bench.evaluation.measurement import Measured, Measurement, NotMeasurable, References, Subject
from genrec_unlearn_bench.files import write_json

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.evaluation.metric import MetricValue
    from genrec_unlearn_bench.progress import Progress

CURVE, SAMPLES, OUTCOME, INDEX = "curve.parquet", "samples.safetensors", "outcome.json", "parts.json"
MODEL_COLUMN = "model"
"""First column of a published table: run, original, retrain, retrain 1 … or untrained."""

Parts = Mapping[str, Measured]


def run_parts(
    measurement: Measurement,
    subject: Subject,
    config: Any,
    progress: Progress,
    folder: Path,
    *,
    passes: Mapping[str, Measured],
    work: Path | None = None,
    reseed: Callable[[], None] = lambda: None,
) -> None:
    """Measure one model part by part and write all parts to ``folder``, as ``StoredParts`` reads them.

    Args:
        progress: Its ``work`` is set to a folder of the part's own while a part is measured, where ``work`` is given.
        passes: Outcomes of the declared passes. The reason of one that could not be taken stands for all parts.
        work: Folder that survives a kill: finished parts are kept there and not measured again. The caller removes it.
        reseed: Called before each part, so that none depends on which others were measured before it.
    """
    found = {declared.name: passes[declared.name] for declared in measurement.passes}
    reason = next((outcome.reason for outcome in found.values() if outcome.reason), "")
    if reason:
        write_parts({"": Measured(reason=reason)}, folder)
        return
    arrays = {name: outcome.samples for name, outcome in found.items()}
    subject = replace(subject, pass_arrays={**subject.pass_arrays, **arrays})
    parts: dict[str, Measured] = {}
    for part in measurement.parts(subject):
        kept = None if work is None else work / _folder_name(part)
        outcome = None if kept is None else _finished(kept)
        if outcome is None:
            reseed()
            outer, progress.work = progress.work, None if kept is None else kept / "state"
            try:
                outcome = measurement.measure(subject, part, config, progress)
            except NotMeasurable as fault:
                outcome = Measured(reason=fault.what)
            finally:
                progress.work = outer
            if kept is not None:
                shutil.rmtree(kept, ignore_errors=True)
                write_measured(outcome, kept)
        parts[part] = outcome
    write_parts(parts, folder)


def _finished(folder: Path) -> Measured | None:
    """The outcome of a part that an interrupted process finished; None where there is no whole one."""
    from pyarrow.lib import ArrowException
    from safetensors import SafetensorError

    try:
        return read_measured(folder)
    except (OSError, ValueError, KeyError, TypeError, ArrowException, SafetensorError):
        return None


def write_parts(parts: Parts, folder: Path) -> None:
    """Write all parts of a measurement on one model to ``folder``, which is created if need be."""
    for part, outcome in parts.items():
        write_measured(outcome, folder / _folder_name(part))
    index = {part: {"folder": _folder_name(part), "reason": outcome.reason} for part, outcome in parts.items()}
    write_json(folder / INDEX, index)


class StoredParts(dict[str, Measured]):
    """The parts of one measurement on one model, by name; two of the same ``folder`` are of the same model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        index: dict[str, dict[str, str]] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        super().__init__({part: read_measured(folder / entry["folder"]) for part, entry in index.items()})


def write_measured(measured: Measured, folder: Path) -> None:
    """Write one outcome (a part's or a pass's) to ``folder``, which is created if need be."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    if measured.curve is not None:
        measured.curve.to_parquet(folder / CURVE, engine="pyarrow", compression="zstd", index=False)
    if measured.samples:
        arrays = {name: np.ascontiguousarray(array) for name, array in measured.samples.items()}
        save_file(arrays, folder / SAMPLES)
    # Last: a folder with it is whole.
    write_json(folder / OUTCOME, {"reason": measured.reason})


def read_measured(folder: Path) -> Measured:
    import pandas as pd
    from safetensors.numpy import load_file

    curve, samples = folder / CURVE, folder / SAMPLES
    return Measured(
        curve=pd.read_parquet(curve, engine="pyarrow") if curve.is_file() else None,
        samples=load_file(samples) if samples.is_file() else {},
        reason=json.loads((folder / OUTCOME).read_text(encoding="utf-8"))["reason"],
    )


@dataclass(frozen=True, eq=False)
class ExtraMetrics:
    """Metrics beyond the core of the run and of each oracle; ``tables`` has the curves of all models by measurement."""

    values: tuple[MetricValue, ...] = ()
    oracles: tuple[tuple[MetricValue, ...], ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def compare_measurements(measured: Sequence[tuple[Measurement, Parts, References]], oracles: int) -> ExtraMetrics:
    """Turn what was measured on all models, the run's parts and the references of each measurement, into metric values
    and published tables. ``oracles``: how many the run has.

    A model that is the run and a reference at once is the same object or read from the same folder.
    """
    values: list[MetricValue] = []
    retrained: list[list[MetricValue]] = [[] for _ in range(oracles)]
    tables: dict[str, pd.DataFrame] = {}
    for measurement, own, given in measured:
        references = replace(given, oracles=[own if _same_model(own, parts) else parts for parts in given.oracles])
        values += measurement.compare(own, references)
        for number, parts in enumerate(references.oracles):
            retrained[number] += measurement.compare(parts, replace(references, row="retrain"))
        table = _table(own, references)
        if table is not None:
            tables[measurement.name] = table
    return ExtraMetrics(tuple(values), tuple(tuple(found) for found in retrained), tables)


def _same_model(one: Parts, other: Parts) -> bool:
    if isinstance(one, StoredParts) and isinstance(other, StoredParts):
        return one.folder == other.folder
    return one is other


def _table(own: Parts, references: References) -> pd.DataFrame | None:
    """The curves of all models, concatenated; a reference that is the run itself is repeated."""
    import pandas as pd

    named: list[tuple[str, Parts]] = [("run", own), ("original", references.original)]
    named += [(f"retrain {number}" if number else "retrain", parts) for number, parts in enumerate(references.oracles)]
    if references.untrained is not None:
        named.append(("untrained", references.untrained))
    frames = []
    for model, parts in named:
        curves = [part.curve for part in parts.values() if part.curve is not None and len(part.curve)]
        if curves:
            frame = pd.concat(curves, ignore_index=True)
            frame.insert(0, MODEL_COLUMN, model)
            frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else None


def _folder_name(part: str) -> str:
    """``mixed/served`` -> ``mixed.served``; the part without a name is ``all``."""
    return part.replace("/", ".") or "all"
