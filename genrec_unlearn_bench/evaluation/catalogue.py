"""Every declared metric by name. Imports neither torch nor pandas, so that listing metrics is quick."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.evaluation import (
    collateral,
    concept,
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
from genrec_unlearn_bench.evaluation.metric import MetricSpec
from genrec_unlearn_bench.evaluation.probing import measurement as probing
from genrec_unlearn_bench.evaluation.relearning import measurement as relearning

_MODULES = (
    *(ranking, similarity, concept, history_influence, overlap_change, collateral, gap, stream),
    *(probing, membership, ulira, forget_quality, quantisation, relearning),
)
_SPECS: Mapping[str, MetricSpec] = MappingProxyType({spec.name: spec for module in _MODULES for spec in module.SPECS})


def metric_specs() -> dict[str, MetricSpec]:
    return dict(_SPECS)


def metric_spec(name: str) -> MetricSpec:
    """The declaration of one metric. Raises UnknownName, with the nearest names there are."""
    if name not in _SPECS:
        raise UnknownName("metric", name, _SPECS)
    return _SPECS[name]
