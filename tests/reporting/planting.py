"""Results whose every number is chosen by a test, for planted cases with answers known by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.reporting.board import Board, make_board
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.results import OWN, Result, Source, result_of
from tests.reporting.boards import make_records

__all__ = ["FORGET", "RETAIN", "board_of", "measure", "plant", "planted_record", "rows"]


def measure(text: str, *, beam: int = 10) -> Measure:
    """``forget:hr@10`` as a measure."""
    return Measure.parse(text, beam=beam)


FORGET = measure("forget:hr@10")
RETAIN = measure("retain:ndcg@10")


def planted_record(
    method: str, seed: int, numbers: Mapping[str, float | None], *, examples: int | None = None, **changes: Any
) -> RunRecord:
    """A record with these measures alone.

    Args:
        changes: Fields of the record; those of its cell (task, backbone, scale, ruleset, suite) by their names.
    """
    base = make_records(
        tasks=("industrial-brand",), backbones=("tiger",), methods={method: (0.5, 0.9)}, references={}, seeds=(seed,)
    )[0]
    cell = {name: changes.pop(name) for name in ("task", "backbone", "scale", "ruleset") if name in changes}
    if "backbone" in cell:
        changes.setdefault("backbone_label", cell["backbone"])
    metrics = tuple(
        MetricValue(
            metric=found.metric,
            group=found.group,
            value=value,
            beam=found.beam,
            n=examples,
            note=None if value is not None else "not measured",
        )
        for found, value in ((measure(text), value) for text, value in numbers.items())
    )
    key = changes.pop("key", f"{method}-{seed}-{sorted(cell.items())}-{changes.get('method_digest', '')}")
    fields: dict[str, Any] = {"key": key, "metrics": metrics, "method_config": {}, "diverged": False, **changes}
    return base.model_copy(update={"cell": base.cell.model_copy(update=cell), **fields})


def plant(
    method: str,
    numbers: Mapping[str, Sequence[float | None]],
    *,
    source: Source = OWN,
    first_seed: int = 0,
    **changes: Any,
) -> list[Result]:
    """Results of one method: for every measure one number a seed."""
    seeds = len(next(iter(numbers.values())))
    return [
        result_of(
            planted_record(method, first_seed + seed, {text: each[seed] for text, each in numbers.items()}, **changes),
            folder=Path("results") / method / str(first_seed + seed),
            root=Path("results"),
            source=source,
        )
        for seed in range(seeds)
    ]


def rows(**methods: Sequence[float]) -> list[Result]:
    """Methods with forget HR@10 by seed, the retain side the same for all; ``_`` in names stands for ``-``."""
    return [
        result
        for name, numbers in methods.items()
        for result in plant(name.replace("_", "-"), {"forget:hr@10": numbers, "retain:ndcg@10": [0.1] * len(numbers)})
    ]


def board_of(*groups: Sequence[Result]) -> Board:
    """The board of some results under the protocol that ships."""
    return make_board([result for group in groups for result in group], statistics_protocol(1))
