"""Truth ratios and hits of one model: what forget quality compares between a run and the retrained model."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.evaluation.forget_quality.truth_ratio import log_truth_ratios
from genrec_unlearn_bench.evaluation.group_lists import decode
from genrec_unlearn_bench.evaluation.likelihoods.reading import Part, scored
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable, Subject
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BEAM", "ForgetQualityConfig", "Hits", "Ratios", "answered"]

FloatArray = NDArray[np.float64]

QUANTILES = np.arange(1, 50) / 50
"""Where the published distributions are given."""
BEAM = 10
"""Beam of the hits, and length of the lists."""


class Ratios(StrEnum):
    """Samples of log truth ratios."""

    FORGET = "ratios.forget"
    SECOND = "ratios.forget-second"
    """Further forget examples, none of them among the first."""
    RETAIN = "ratios.retain"


class Hits(StrEnum):
    """Samples of hits among the first ten, 1 or 0."""

    FORGET = "hits.forget-test"
    RETAIN = "hits.retain-train"
    TEST = "hits.retain-test"


class ForgetQualityConfig(StrictModel):
    """On how many examples forget quality is measured."""

    examples: int = Field(default=400, ge=20, le=400)
    """Truth ratios a sample; fixed, as the p-value of a difference falls with it."""
    least: int = Field(default=50, ge=2)
    """With fewer forget train examples than that, nothing is measured."""
    decoded: int = Field(default=1000, ge=10)
    """Most examples of each group that are decoded."""


def answered(subject: Subject, config: ForgetQualityConfig, progress: Progress) -> Measured:
    """Log truth ratios of forget and retain train examples, and hits@10 on forget test, retain train, retain test.

    Raises NotMeasurable where there are too few forget train examples.
    """
    forget = log_truth_ratios(scored(subject.pass_arrays, Part.FORGET_TRAIN))
    retain = log_truth_ratios(scored(subject.pass_arrays, Part.RETAIN_TRAIN))
    if len(forget) < config.least:
        raise NotMeasurable(f"there are {len(forget)} forget train interactions, and {config.least} are needed")
    if not np.isfinite(forget).all():
        raise NotMeasurable("some forgotten item has no other item in the catalogue that could be a wrong answer to it")
    samples: dict[str, NDArray[np.generic]] = {
        Ratios.FORGET: forget[: config.examples],
        Ratios.SECOND: forget[config.examples :][: config.examples],
        Ratios.RETAIN: retain[np.isfinite(retain)][: config.examples],
    }
    for name, examples in _decoded(subject).items():
        samples[name] = _hits(subject, name, examples, config.decoded, progress)
    return Measured(
        curve=_distributions({"forget": samples[Ratios.FORGET], "retain": samples[Ratios.RETAIN]}), samples=samples
    )


def _distributions(ratios: Mapping[str, NDArray[np.generic]]) -> pd.DataFrame:
    """Quantiles of the truth ratios by group: ``group``, ``quantile``, ``truth_ratio``. The ends are left out, as they
    are single examples."""
    import pandas as pd

    there = {group: values.astype(np.float64) for group, values in ratios.items() if len(values)}
    found = {group: np.exp(np.quantile(values, QUANTILES)) for group, values in there.items()}
    return pd.DataFrame(
        {
            "group": np.repeat(list(found), len(QUANTILES)),
            "quantile": np.tile(QUANTILES, len(found)),
            "truth_ratio": np.concatenate(list(found.values())),
        }
    )


def _decoded(subject: Subject) -> Mapping[Hits, Examples]:
    split = subject.split
    return {Hits.FORGET: split.test.forget, Hits.RETAIN: split.train.retain, Hits.TEST: split.test.retain}


def _hits(subject: Subject, name: Hits, examples: Examples, most: int, progress: Progress) -> FloatArray:
    """[n] hits of at most ``most`` examples as the model is served; the same examples for every model of a seed."""
    model = subject.recommender
    order = numpy_generator(subject.seed, "forget-quality", name.value).permutation(len(examples))
    chosen = examples.subset(order[:most])
    # A served model that drops items from histories is given the whole history, as it drops before it cuts.
    histories = chosen.histories(model.history_limit if model.serving.ignored is None else None)
    lists = decode(model, histories, beam=BEAM, label=f"forget quality, {name.value}", progress=progress)
    return np.asarray(lists.ranks(chosen.targets) > 0, dtype=np.float64)
