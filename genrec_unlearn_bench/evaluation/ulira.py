"""U-LiRA: membership inference by shadow models that unlearned.

Hayes et al. 2024 (arXiv 2403.01218), after Kurmanji et al. 2023 (arXiv 2302.09880) and the likelihood-ratio attack of
Carlini et al. 2022 (arXiv 2112.03570). Shadow models are trained with and without each example, and all unlearn what
they were given; two Gaussians, of the confidence in an example under models that have forgotten it and that never saw
it, classify a further model. Every shadow takes its turn as that model.

Deviations: one variance a side for all examples (Carlini et al. do so too where shadows are few); shadows come in pairs
with complementary halves, and both means leave out the tested shadow's whole pair: were only the tested one left out,
its side would have the noisier mean, and examples that no model can tell apart would be separated below chance.
"""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray
from genrec_unlearn_bench.evaluation.catalogue import metric_spec
from genrec_unlearn_bench.evaluation.measurement import FloatArray, NotMeasurable, number, unmeasured
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.seeding import numpy_generator

LEAST = 4
"""Fewest shadows: the tested one's pair left out, each side of each example has one left."""
DRAWS = 1000
"""Resamples of the bootstrap."""
_ONE_IN = 100
_SURE = -(2.0**-24)
"""Largest log-probability that float32 tells from 0; beyond it, the odds would be infinite."""

SPECS = tuple(metric_spec(f"membership.{name}.u-lira") for name in ("auc", "tpr", "accuracy"))


def confidence(log_probs: FloatArray) -> FloatArray:
    """log(p / (1 - p)) of a target's probability p, from its log [...]; 0 counts as the largest below it in float32."""
    kept = np.minimum(log_probs, _SURE)
    return np.asarray(kept - np.log(-np.expm1(kept)))


def halves(shadows: int, units: int, generator: np.random.Generator) -> BoolArray:
    """[N, U] which of U units each of N shadows is trained on: shadows 2j and 2j + 1 share them out, half and half.
    Raises ValueError for an odd number of shadows."""
    if shadows % 2:
        raise ValueError(f"{shadows} shadows are no pairs")
    places = np.argsort(generator.random((shadows // 2, units)), axis=1)
    first = places < units // 2
    return np.asarray(np.stack([first, ~first], axis=1).reshape(shadows, units))


def likelihood_ratios(confidences: FloatArray, included: BoolArray) -> FloatArray:
    """[N, T] log N(x; in) - log N(x; out) of each shadow's confidence in each example: above 0, in is the likelier.

    The means of an example leave out the tested shadow and its partner; the variance of each side is shared by all
    examples and leaves out the tested shadow alone, which is what makes four shadows enough. ``included`` [N, T] is in
    complementary pairs (``halves``).
    """
    shadows = len(confidences)
    out = np.empty_like(confidences)
    for tested in range(shadows):
        apart = np.arange(shadows) // 2 == tested // 2
        others = np.arange(shadows) != tested
        densities = []
        for side in (included, ~included):
            means = np.mean(confidences[~apart], axis=0, where=side[~apart])
            variance = _shared_variance(confidences[others], side[others])
            densities.append(-0.5 * (np.log(variance) + (confidences[tested] - means) ** 2 / variance))
        out[tested] = densities[0] - densities[1]
    return out


def _shared_variance(confidences: FloatArray, side: BoolArray) -> float:
    """Variance around each example's own mean over the chosen shadows, pooled over examples; never 0."""
    counts = side.sum(axis=0)
    rows = counts > 1
    chosen, where = confidences[:, rows], side[:, rows]
    means = np.mean(chosen, axis=0, where=where)
    squares = float(np.sum((chosen - means) ** 2, where=where))
    return max(squares / max(int((counts[rows] - 1).sum()), 1), 1e-12)


def rates(scores: FloatArray, members: BoolArray) -> dict[str, float]:
    """``auc``, ``tpr`` (false-positive rate of at most 1 %) and balanced ``accuracy`` of scores [M] and members [M]."""
    from sklearn.metrics import auc, roc_curve

    false, true, _ = roc_curve(members, scores, drop_intermediate=False)
    said = scores > 0
    return {
        "auc": float(auc(false, true)),
        "tpr": float(true[false <= 1 / _ONE_IN].max()),
        "accuracy": float((said[members].mean() + (~said[~members]).mean()) / 2),
    }


def ulira_values(confidences: FloatArray, included: BoolArray) -> tuple[MetricValue, ...]:
    """The three metrics, from confidences [N, T] and who was trained on what [N, T]; ``n`` counts judgements.

    None with the reason where a shadow's confidences are not finite, and for the rate where there are too few
    judgements to see one false positive in a hundred. Raises NotMeasurable for too few examples to resample.
    """
    shadows, examples = confidences.shape
    if examples < 2:
        raise NotMeasurable(f"there are {examples} forget train interactions to tell")
    broken = np.flatnonzero(~np.isfinite(confidences).all(axis=1))
    if len(broken):
        return unmeasured(SPECS, f"the weights of shadow {int(broken[0]) + 1} of {shadows} came to nothing finite")
    scores = likelihood_ratios(confidences, included)
    found = rates(scores.ravel(), included.ravel())
    generator = numpy_generator(0, "u-lira", shadows, examples)
    resampled = [
        # All judgements of an example go together: they share its two Gaussians.
        rates(scores[:, drawn].ravel(), included[:, drawn].ravel())
        for drawn in generator.integers(examples, size=(DRAWS, examples))
    ]
    out: list[MetricValue] = []
    outside = int((~included).sum())
    for spec in SPECS:
        name = spec.name.split(".")[1]
        if name == "tpr" and outside < _ONE_IN:
            out += unmeasured([spec], f"one false positive in {_ONE_IN} cannot be resolved with {outside} judgements")
            continue
        value = found[name]
        low, high = np.quantile([one[name] for one in resampled], [0.025, 0.975])
        interval = (min(float(low), value), max(float(high), value))
        out.append(number(spec.name, Group.FORGET, value, n=confidences.size, interval=interval))
    return tuple(out)
