"""Every declared metric by name. Imports neither torch nor pandas, so that listing metrics is quick."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.evaluation import (
    collapse,
    collateral,
    concept,
    cost,
    forget_quality,
    gap,
    history_influence,
    membership,
    overlap_change,
    quantisation,
    ranking,
    similarity,
    stream,
    ulira,
)
from genrec_unlearn_bench.evaluation.probing import specs as probing_specs
from genrec_unlearn_bench.evaluation.relearning import specs as relearning_specs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genrec_unlearn_bench.evaluation.metric import MetricSpec

__all__ = ["metric_spec", "metric_specs"]


@cache
def _table() -> Mapping[str, MetricSpec]:
    modules = (
        ranking,
        similarity,
        concept,
        history_influence,
        overlap_change,
        collateral,
        collapse,
        cost,
        gap,
        stream,
        probing_specs,
        membership,
        ulira,
        forget_quality,
        quantisation,
        relearning_specs,
    )
    return MappingProxyType({spec.name: spec for module in modules for spec in module.SPECS})


def metric_specs() -> dict[str, MetricSpec]:
    """All declared metrics, in the order in which reports list them."""
    return dict(_table())


def metric_spec(name: str) -> MetricSpec:
    """The declaration of one metric. Raises UnknownName, with the nearest names there are."""
    table = _table()
    if name not in table:
        raise UnknownName("metric", name, table)
    return table[name]
