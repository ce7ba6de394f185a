"""Curves of a block from the tables beside its results (``measurements/<name>.csv``), seed by seed, then over seeds.

A table says in its column ``model`` which model a row is of: the run itself, or one that it is held against. So the
original's and the oracle's curves are there beside every method's, whether or not they have results of their own.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.pipeline.results import MEASUREMENTS
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.model import Estimate
from genrec_unlearn_bench.reporting.figures.request import FLOOR_LABEL
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.paired import t_interval

__all__ = ["Tables", "estimates", "mean_of", "read_tables"]

Record = Mapping[str, str]
_OWN, _ORIGINAL, _ORACLE, _FLOOR = "run", "original", "retrain", "untrained"


@dataclass(frozen=True, eq=False)
class Tables:
    """One measurement's tables in a block.

    Attributes:
        own: By label and seed, the rows of the run's own model.
        given: By reference (original, oracle, floor) and seed, the rows of that model in any run's table.
    """

    own: Mapping[str, Mapping[int, Sequence[Record]]]
    given: Mapping[str, Mapping[int, Sequence[Record]]]

    def of(self, label: str) -> Mapping[int, Sequence[Record]]:
        """By seed, what was measured on a row or a reference: in its own results, else beside those of others."""
        return {**self.given.get(label, {}), **self.own.get(label, {})}


def read_tables(block: Block, name: str, protocol: StatisticsProtocol) -> Tables:
    """A measurement's tables of all runs of a block; empty where none were written.

    Raises CorruptArtefact for a table that cannot be read.
    """
    own: dict[str, dict[int, Sequence[Record]]] = {}
    given: dict[str, dict[int, Sequence[Record]]] = {}
    labels = {_ORIGINAL: protocol.baseline, _ORACLE: protocol.oracle, _FLOOR: FLOOR_LABEL}
    for row in block.rows:
        for seed, result in row.results.items():
            for model, records in _by_model(result.folder / MEASUREMENTS / f"{name}.csv").items():
                if model == _OWN:
                    own.setdefault(row.label, {})[seed] = records
                elif model in labels:
                    given.setdefault(labels[model], {}).setdefault(seed, records)
    return Tables(own, given)


def estimates(
    seeds: Mapping[int, Sequence[Record]],
    key: Sequence[str],
    value: str,
    protocol: StatisticsProtocol,
    *,
    interval: tuple[str, str] | None = None,
    where: Mapping[str, str] | None = None,
) -> dict[tuple[str, ...], Estimate]:
    """Means over seeds, by the values of the columns in ``key``, in the order of the tables.

    Args:
        value: Column of the number.
        interval: Columns of the measurement's own interval, taken where there is one seed alone.
        where: Columns with the text that they must have; a column that is not there is no hindrance.
    """
    found: dict[tuple[str, ...], list[Record]] = {}
    for records in seeds.values():
        for record in records:
            if all(record.get(name, text) == text for name, text in (where or {}).items()):
                found.setdefault(tuple(record.get(name, "") for name in key), []).append(record)
    return {place: _estimate(records, value, protocol, interval) for place, records in found.items()}


def mean_of(numbers: Iterable[float], protocol: StatisticsProtocol) -> Estimate:
    """Mean and t interval over seeds; NaN are left out."""
    values = [number for number in numbers if math.isfinite(number)]
    if not values:
        return Estimate(math.nan, seeds=0)
    summary = t_interval(np.array([values]), confidence=protocol.confidence)
    low, high = float(summary.low[0]), float(summary.high[0])
    return Estimate(float(summary.mean[0]), low, high, len(values), "t over seeds" if len(values) > 1 else "")


def _estimate(
    records: Sequence[Record], value: str, protocol: StatisticsProtocol, interval: tuple[str, str] | None
) -> Estimate:
    numbers = [_number(record, value) for record in records]
    found = mean_of(numbers, protocol)
    if found.seeds != 1 or interval is None:
        return found
    record = records[[math.isfinite(number) for number in numbers].index(True)]
    low, high = (_number(record, name) for name in interval)
    if not (math.isfinite(low) and math.isfinite(high)):
        return found
    return Estimate(found.mean, low, high, 1, "of the measurement")


def _number(record: Record, name: str) -> float:
    text = record.get(name) or ""
    try:
        return float(text) if text else math.nan
    except ValueError:
        raise CorruptArtefact(
            f"{text!r} in the column {name!r} of a measurement is no number", hint="run that cell again (bench run)"
        ) from None


def _by_model(path: Path) -> dict[str, list[Record]]:
    if not path.is_file():
        return {}
    try:
        with path.open(encoding="utf-8", newline="") as handle:
            records = list(csv.DictReader(handle))
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise CorruptArtefact(
            f"the table of a measurement cannot be read: {fault}",
            where=str(path),
            hint="run that cell again (bench run)",
        ) from None
    out: dict[str, list[Record]] = {}
    for record in records:
        # Surplus cells have no column; a table of a stream has one model alone and need not name it.
        clean = {name: text or "" for name, text in record.items() if isinstance(name, str)}
        out.setdefault(clean.get("model", _OWN), []).append(clean)
    return out
