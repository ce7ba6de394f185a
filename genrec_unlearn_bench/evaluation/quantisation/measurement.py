"""Does the forgotten come back when the model is served with fewer bits?

Zhang et al. 2024, "Catastrophic failure of LLM unlearning via robust quantization" (arXiv 2410.16454): methods that
move weights by less than half a quantisation step are undone by rounding. Measured on lists as they are served, so
that what a method changes beside the weights (SIDs, trie, histories) stays changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    NotMeasurable,
    References,
    Subject,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricSpec, MetricValue
from genrec_unlearn_bench.evaluation.quantisation.paired_ratio import paired_ratio
from genrec_unlearn_bench.evaluation.quantisation.schemes import FULL, SCHEMES
from genrec_unlearn_bench.evaluation.quantisation.scores import curve, ranks_of, scores
from genrec_unlearn_bench.evaluation.quantisation.specs import SPECS, names
from genrec_unlearn_bench.evaluation.ranking import rank_metric

if TYPE_CHECKING:
    from genrec_unlearn_bench.progress import Progress

__all__ = ["Quantisation", "QuantisationConfig"]

_PACKAGE = "genrec_unlearn_bench.evaluation.quantisation"
_NO_PART = "this way of quantising is there for decoder-only models alone"
_RETAIN_EXAMPLES = {"smoke": 400, "small": 1500}


class QuantisationConfig(StrictModel):
    """What is decoded, and how the weights may be quantised."""

    retain_examples: int | None = Field(default=5000, ge=2)
    """Retain test examples that are decoded, drawn at random, the same for all models of a seed; null takes all."""
    nf4: bool = False
    """Causal models: quantise with bitsandbytes' 4-bit NormalFloat as well. Needs that library and a CUDA device."""


class Quantisation(Measurement):
    """HR@10 and NDCG@10 with 8 and 4 bits a weight; recovery on the forget test, damage on the retain test."""

    name: ClassVar[str] = "quantisation"
    specs: ClassVar[tuple[MetricSpec, ...]] = SPECS
    modules: ClassVar[tuple[str, ...]] = (f"{_PACKAGE}.ranks", f"{_PACKAGE}.scores")

    def config(self, scale: str) -> QuantisationConfig:
        """The retain sample shrinks with the scale."""
        return QuantisationConfig(retain_examples=_RETAIN_EXAMPLES.get(scale, 5000))

    def parts(self, subject: Subject) -> tuple[str, ...]:
        """All bits, 8 and 4; for causal models, NF4 as well."""
        from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender

        causal = isinstance(subject.recommender, CausalRecommender)
        return (FULL, "int8", "int4", *(("nf4",) if causal else ()))

    def measure(self, subject: Subject, part: str, config: QuantisationConfig, progress: Progress) -> Measured:
        """Ranks of the test targets with the bits that ``part`` names."""
        from genrec_unlearn_bench.evaluation.quantisation.ranks import quantised_ranks

        if part == "nf4" and not config.nf4:
            raise NotMeasurable("NF4 was not asked for (--set-measure quantisation.nf4=true)")
        found = quantised_ranks(subject, part, retain_examples=config.retain_examples, progress=progress)
        return Measured(curve=curve(part, found), samples=found)

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        """Values of every scheme; NF4 says why it was not measured where it was no part of the measurement."""
        return tuple(value for scheme in SCHEMES for value in _values(scheme, own, references))


def _values(scheme: str, own: Mapping[str, Measured], references: References) -> list[MetricValue]:
    # A ranker without a network is one part without a name.
    here = own.get(scheme, own.get(""))
    if here is None or here.reason:
        return list(unmeasured(names(scheme), here.reason if here else _NO_PART))
    out = scores(f".{scheme}", here.samples)
    recovery, damage, of_original = (
        next(spec for spec in names(scheme) if spec.name == f"quantisation.{name}.{scheme}")
        for name in ("recovery", "damage", "damage-original")
    )
    out.append(_recovery(recovery, scheme, own, references))
    out.append(_damage(damage, scheme, own))
    out.append(_damage(of_original, scheme, references.original))
    return out


def _recovery(spec: MetricSpec, scheme: str, own: Mapping[str, Measured], references: References) -> MetricValue:
    if references.row == "original":
        return unmeasured([spec], "the original recommender has forgotten nothing that could come back")[0]
    parts = {"model": own.get(FULL), "quantised original": references.original.get(scheme)}
    if (reason := _lacking(parts)) is not None:
        return unmeasured([spec], reason)[0]
    hit = rank_metric("hr@10").of
    rounded, before, target = (
        hit(ranks_of(part[name].samples, Group.FORGET))
        for part, name in ((own, scheme), (own, FULL), (references.original, scheme))
    )
    if len(before) != len(target):
        return unmeasured([spec], "the original was measured on other forget examples")[0]
    return _ratio(
        spec,
        rounded - before,
        target - before,
        what="what the quantised original finds beyond the unlearned model (HR@10)",
    )


def _damage(spec: MetricSpec, scheme: str, parts: Mapping[str, Measured]) -> MetricValue:
    whose = "model" if spec.name.startswith("quantisation.damage.") else "original"
    if (reason := _lacking({whose: parts.get(FULL), f"quantised {whose}": parts.get(scheme)})) is not None:
        return unmeasured([spec], reason)[0]
    gain = rank_metric("ndcg@10").of
    before, after = (gain(ranks_of(parts[name].samples, Group.RETAIN)) for name in (FULL, scheme))
    return _ratio(spec, after - before, before, what="the retain NDCG@10 without quantisation")


def _ratio(
    spec: MetricSpec, numerators: NDArray[np.float64], denominators: NDArray[np.float64], *, what: str
) -> MetricValue:
    (group,) = spec.better
    try:
        ratio = paired_ratio(numerators, denominators, what=what)
    except NotMeasurable as fault:
        return unmeasured([spec], fault.what)[0]
    return number(spec.name, group, ratio.value, n=ratio.n, interval=(ratio.low, ratio.high))


def _lacking(parts: Mapping[str, Measured | None]) -> str | None:
    """Why a comparison cannot be made; None where it can."""
    for whose, part in parts.items():
        if part is None or part.reason:
            return f"the {whose} was not measured" + (f": {part.reason}" if part is not None else "")
    return None
