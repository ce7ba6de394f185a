"""The blocks of the data block: rows, values by seed, provenance of every run, and reported numbers.

Commands differ in names and seeds alone, so each is kept as a pattern that the page fills in again. Numbers are
packed as base64 of float32, which keeps the six significant digits of reports in 5.3 characters where text takes nine.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.html.payload_model import (
    BlockData,
    MeasureData,
    ProtocolData,
    Reported,
    RunColumns,
)
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.reported import ReportedCell
from genrec_unlearn_bench.reporting.results import Result, Source
from genrec_unlearn_bench.reporting.statistics.equivalence import LEVEL
from genrec_unlearn_bench.reporting.statistics.paired import paired_tests, t_interval
from genrec_unlearn_bench.reporting.tables import decimals
from genrec_unlearn_bench.reporting.wording import six

__all__ = [
    "KEY_DIGITS",
    "Ledger",
    "Table",
    "block_data",
    "block_values",
    "measure_data",
    "packed",
    "pattern_of",
    "protocol_data",
    "published_beside",
    "run_columns",
    "seconds_of",
    "uniform",
]

KEY_DIGITS = 16
_SLOTS = ("task", "backbone", "method", "seed", "scale")


class Ledger:
    """Strings, configurations and environments that runs share, each once."""

    def __init__(self) -> None:
        self.strings: Table[str] = Table([""])
        self.configs: Table[str] = Table()
        self.environments: Table[str] = Table()

    def environment(self, result: Result) -> int:
        """The number of a run's machine and packages."""
        fields = result.environment.model_dump(mode="json", exclude={"git_commit", "git_dirty"})
        return self.environments.number(json.dumps(fields, sort_keys=True))

    def commit(self, result: Result) -> int:
        """The number of a run's commit."""
        found = result.environment
        return self.strings.number(f"{found.git_commit}{'+' if found.git_dirty else ''}" if found.git_commit else "")

    def parsed(self, table: Table[str]) -> tuple[dict[str, Any], ...]:
        """Canonical JSON as what it says."""
        return tuple(json.loads(text) for text in table.things)


def run_columns(block: Block, ledger: Ledger, *, since: int) -> RunColumns:
    """The runs of a block, row by row, by ascending seed."""
    runs = list(_runs(block))
    strings = ledger.strings
    return RunColumns(
        have="".join("1" if seed in row.results else "0" for row in block.rows for seed in block.seeds),
        key="".join(run.key[:KEY_DIGITS].ljust(KEY_DIGITS) for run in runs),
        created=uniform([seconds_of(run.created) - since for run in runs]),
        environment=uniform([ledger.environment(run) for run in runs]),
        commit=uniform([ledger.commit(run) for run in runs]),
        command=uniform([strings.number(pattern_of(run)) for run in runs]),
        notes=uniform([strings.number("\n".join(run.notes)) for run in runs]),
        suite=uniform([strings.number(run.suite) for run in runs]),
        version=uniform([strings.number(run.suite_version) for run in runs]),
        per_user="".join("1" if run.per_user_digest else "0" for run in runs),
    )


def pattern_of(result: Result) -> str:
    """The command with ``{task}``, ``{seed}`` … for what the cell says; as it is where it has braces of its own."""
    command = result.command
    if "{" in command or "}" in command:
        return command
    words = command.split(" ")
    facts = _facts(result)
    for place, word in enumerate(words[1:], start=1):
        slot = words[place - 1].removeprefix("--")
        if slot in facts and words[place - 1].startswith("--") and word == facts[slot]:
            words[place] = f"{{{slot}}}"
    return " ".join(words)


def seconds_of(created: str) -> int:
    """Seconds since 1970 of a record's time; 0 for what is no time."""
    try:
        found = datetime.fromisoformat(created)
    except ValueError:
        return 0
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())


def _facts(result: Result) -> dict[str, str]:
    values = (result.task, result.backbone_label, result.method, str(result.seed), result.scale)
    return dict(zip(_SLOTS, values, strict=True))


def _runs(block: Block) -> Iterator[Result]:
    for row in block.rows:
        for seed in block.seeds:
            if seed in row.results:
                yield row.results[seed]


def published_beside(
    cells: Sequence[ReportedCell], blocks: Sequence[BlockData], numbers: Mapping[Measure, int]
) -> tuple[Reported, ...]:
    """The cells of these blocks' tasks and backbones whose measure is on the page, run here or not."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, block in enumerate(blocks):
        if block.regime:
            # What is reported was measured after one request.
            continue
        places.setdefault((block.task, block.backbone), []).append(place)
    return tuple(
        Reported(
            block=place,
            method=cell.method,
            measure=numbers[cell.measure],
            value=six(cell.value) or 0.0,
            sd=six(cell.sd),
            broken=cell.broken,
        )
        for cell in cells
        for place in places.get((cell.task, cell.backbone), ())
        if cell.measure in numbers
    )


DIGEST_DIGITS = 12


def block_data(
    block: Block, ledger: Ledger, sources: Table[Source], *, since: int, baseline: str, dataset: str
) -> BlockData:
    """A block without its values and statistics."""
    rows = block.rows
    first = rows[0].first
    labels = [row.label for row in rows]
    return BlockData(
        **vars(block.key),
        dataset=dataset,
        seeds=block.seeds,
        oracle=rows.index(block.oracle) if block.oracle is not None else None,
        baseline=labels.index(baseline) if baseline in labels else None,
        encoder=first.encoder,
        backbone_config=ledger.configs.number(first.backbone_config),
        sid_config=ledger.configs.number(first.sid_config),
        dataset_digest=first.dataset_digest,
        task_digest=first.task_digest,
        label=tuple(labels),
        method=tuple(row.method for row in rows),
        kind="".join(row.kind[0] for row in rows),
        source=uniform([sources.number(row.first.source) for row in rows]),
        config=uniform([ledger.configs.number(row.first.method_config) for row in rows]),
        digest=tuple(row.first.method_digest[:DIGEST_DIGITS] for row in rows),
        diverged={place: row.diverged for place, row in enumerate(rows) if row.diverged},
        runs=run_columns(block, ledger, since=since),
        values={},
        views={},
    )


def block_values(block: Block, measures: Iterable[Measure], numbers: Mapping[Measure, int]) -> dict[int, str]:
    """Packed values by measure, [rows, seeds] row by row; measures without any are left out."""
    out = {}
    for measure in measures:
        column = packed(float(value) for value in block.values(measure).ravel())
        if column:
            out[numbers[measure]] = column
    return out


def measure_data(measure: Measure, protocol: StatisticsProtocol) -> MeasureData:
    """A measure as the page shows it."""
    spec = measure.spec
    low, high = spec.range
    primary = measure in protocol.primary_measures(measure.beam)
    return MeasureData(
        id=measure.text,
        title=spec.title,
        side=measure.side,
        arrow=measure.arrow,
        better=measure.better.value,
        unit=spec.unit,
        decimals=decimals(spec),
        beam=measure.beam,
        about=spec.description,
        low=low if math.isfinite(low) else None,
        high=high if math.isfinite(high) else None,
        primary=primary,
    )


def protocol_data(protocol: StatisticsProtocol, *, baseline: str, most_seeds: int) -> ProtocolData:
    """The protocol, with the constants that turn values by seed into intervals and effect sizes."""
    counts = range(most_seeds + 1)
    return ProtocolData(
        **protocol.model_dump(include={"alpha", "confidence", "seeds", "oracle", "beam", "equivalence_quantile"}),
        name=protocol.name,
        baseline=baseline,
        t=tuple(_quantile(n, protocol.confidence) for n in counts),
        t90=tuple(_quantile(n, 1.0 - 2.0 * LEVEL) for n in counts),
        hedges=tuple(_correction(n) for n in counts),
    )


def _quantile(n: int, confidence: float) -> float:
    """Read off the interval of numbers whose standard error is known, so that there is one t in the suite."""
    if n < 2:
        return 0.0
    found = t_interval([_ladder(n)], confidence=confidence)
    return float((found.high[0] - found.mean[0]) / (found.sd[0] / math.sqrt(n)))


def _correction(n: int) -> float:
    if n < 3:
        return 0.0
    found = paired_tests([_ladder(n)])
    summary = t_interval([_ladder(n)])
    return float(found.effect[0] * summary.sd[0] / summary.mean[0])


def _ladder(n: int) -> list[float]:
    return [1.0 + step for step in range(n)]


T = TypeVar("T", bound=Hashable)
TINY = 1.2e-38
"""Smallest normal float32: a p-value is never 0, not even here."""


class Table(Generic[T]):
    """Things by number, each once, in the order in which they came."""

    def __init__(self, first: Iterable[T] = ()) -> None:
        self._places: dict[T, int] = {thing: number for number, thing in enumerate(first)}

    def number(self, thing: T) -> int:
        """Its number; a new one if it was not there."""
        return self._places.setdefault(thing, len(self._places))

    def __len__(self) -> int:
        return len(self._places)

    def cut(self, length: int) -> None:
        """Forget what came after the first ``length`` things."""
        self._places = {thing: number for thing, number in self._places.items() if number < length}

    @property
    def things(self) -> tuple[T, ...]:
        """All of them."""
        return tuple(self._places)


def uniform(numbers: Sequence[int]) -> int | tuple[int, ...]:
    """The number that all of them are, or all of them."""
    return numbers[0] if numbers and len(set(numbers)) == 1 else tuple(numbers)


def packed(values: Iterable[float | None]) -> str:
    """Base64 of little-endian float32, each rounded to six significant digits first; None becomes NaN. Empty where no
    value is a number."""
    import numpy as np

    rounded = [_single(six(value)) for value in values]
    column = np.array(rounded, dtype="<f4")
    if not np.isfinite(column).any():
        return ""
    # One NaN, whatever machine made it.
    column[np.isnan(column)] = np.frombuffer(b"\x00\x00\xc0\x7f", dtype="<f4")[0]
    return base64.b64encode(column.tobytes()).decode("ascii").rstrip("=")


def _single(value: float | None) -> float:
    if value is None:
        return float("nan")
    if value and abs(value) < TINY:
        return TINY if value > 0 else -TINY
    return max(-3.4e38, min(3.4e38, value))
