"""The metrics of quantisation. Imports neither torch nor pandas."""

from __future__ import annotations

import math
from collections.abc import Iterable

from genrec_unlearn_bench.evaluation.metric import Better, Group, Level, MetricSpec
from genrec_unlearn_bench.evaluation.quantisation.schemes import SCHEMES

__all__ = ["SPECS", "names"]

_SOURCE = (
    "Zhang et al. 2024 (arXiv 2410.16454): what unlearning hides can come back with fewer bits; the recovery's "
    "definition is the suite's own"
)


def _spec(
    name: str,
    title: str,
    better: dict[Group, Better],
    description: str,
    *,
    low: float = 0.0,
    high: float = 1.0,
    unit: str = "fraction",
) -> MetricSpec:
    return MetricSpec(
        name=f"quantisation.{name}",
        title=title,
        better=better,
        range=(low, high),
        unit=unit,
        level=Level.MODEL,
        description=description,
        source=_SOURCE,
    )


def _specs(scheme: str, meaning: str) -> Iterable[MetricSpec]:
    retain = {Group.RETAIN: Better.HIGHER}
    yield _spec(
        f"hr@10.{scheme}",
        f"HR@10 ({scheme})",
        {Group.FORGET: Better.LOWER, **retain},
        f"HR@10 at beam 50 with {meaning}; on the forget test, and on a sample of the retain test. Interval: "
        "Clopper-Pearson.",
    )
    yield _spec(
        f"ndcg@10.{scheme}",
        f"NDCG@10 ({scheme})",
        retain,
        f"NDCG@10 at beam 50 with {meaning}, on a sample of the retain test. Interval: Student's t.",
    )
    yield _spec(
        f"recovery.{scheme}",
        f"Recovery ({scheme})",
        {Group.FORGET: Better.LOWER},
        f"What of the forgotten comes back with {meaning}: (HR@10 of the quantised model - its HR@10 unquantised) / "
        "(HR@10 of the quantised original - its HR@10 unquantised); 1 is all of it. Interval: paired bootstrap over "
        "examples.",
        low=-math.inf,
        high=math.inf,
        unit="ratio",
    )
    for name, whose, wanted in (
        ("damage", "the model", Better.HIGHER),
        ("damage-original", "the original recommender", Better.NONE),
    ):
        yield _spec(
            f"{name}.{scheme}",
            f"Damage{'' if name == 'damage' else ', original'} ({scheme})",
            {Group.RETAIN: wanted},
            f"Relative change of retain NDCG@10 of {whose} with {meaning}: -0.1 is a tenth lost. Interval: paired "
            "bootstrap over examples.",
            low=-1.0,
            high=math.inf,
            unit="ratio",
        )


SPECS = tuple(spec for scheme, meaning in SCHEMES.items() for spec in _specs(scheme, meaning))


def names(scheme: str) -> tuple[MetricSpec, ...]:
    """The metrics of one way to quantise."""
    return tuple(spec for spec in SPECS if spec.name.endswith(f".{scheme}"))
