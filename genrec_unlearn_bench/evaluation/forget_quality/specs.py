"""What forget quality reports, declared."""

from __future__ import annotations

from genrec_unlearn_bench.evaluation.metric import Better, Group, Level, MetricSpec

__all__ = ["AVERAGE_GAP", "CEILING_D", "CEILING_P", "KS_D", "KS_P", "SPECS", "SPLIT_P", "TOW", "TRUTH_RATIO"]

_TOFU = "TOFU, Maini et al. 2024, arXiv 2401.06121"
_EACH = "each under its own semantic IDs"


def _spec(
    name: str,
    title: str,
    better: dict[Group, Better],
    description: str,
    source: str,
    unit: str = "fraction",
) -> MetricSpec:
    return MetricSpec(
        name=f"forget-quality.{name}",
        title=title,
        better=better,
        range=(0.0, 1.0),
        unit=unit,
        level=Level.MODEL,
        description=description,
        source=source,
    )


KS_P = _spec(
    "ks.p",
    "KS p",
    {Group.FORGET: Better.HIGHER},
    "p-value of the two-sample Kolmogorov-Smirnov test between the truth ratios of the run and of the retrained model "
    f"on the same 400 forget train examples, {_EACH}. It falls with the number of examples, and is too high for two "
    "independent samples, as the examples are the same: read it beside the ceiling.",
    f"{_TOFU}, eq. 1 and sec. 3.2",
    "probability",
)
KS_D = _spec(
    "ks.d",
    "KS D",
    {Group.FORGET: Better.LOWER},
    "Largest distance between the distributions of the truth ratios of the run and of the retrained model on the same "
    f"400 forget train examples, {_EACH}. 95 % interval by paired bootstrap over examples.",
    f"{_TOFU}, eq. 1 and sec. 3.2",
    "probability",
)
SPLIT_P = _spec(
    "ks.split-p",
    "KS p, split",
    {Group.FORGET: Better.HIGHER},
    "As forget-quality.ks.p, with the retrained model's truth ratios from 400 other forget train examples: two "
    "independent samples, so that p is uniform where both models answer alike.",
    f"ours, after {_TOFU}",
    "probability",
)
CEILING_P = _spec(
    "ceiling.p",
    "KS p, ceiling",
    {Group.FORGET: Better.NONE},
    "forget-quality.ks.p between two retrained models of different seeds: as good as it gets.",
    "protocol sec. 4",
    "probability",
)
CEILING_D = _spec(
    "ceiling.d",
    "KS D, ceiling",
    {Group.FORGET: Better.NONE},
    "forget-quality.ks.d between two retrained models of different seeds: as good as it gets.",
    "protocol sec. 4",
    "probability",
)
TRUTH_RATIO = _spec(
    "truth-ratio",
    "truth ratio",
    # Neither way on forget examples: a retrained model may be surer of wrong items than one that is undecided.
    {Group.FORGET: Better.NONE, Group.RETAIN: Better.HIGHER},
    "With TR the mean likelihood by token of an item's five semantic neighbours over its own: mean of min(TR, 1/TR) on "
    "forget train examples (1: right and wrong items are equally likely), of max(0, 1 - TR) on retain train examples "
    "(1: the right item is certain). The target is the retrained model's. 95 % t interval.",
    f"{_TOFU}, sec. 3.1, with items for answers: no paraphrase, semantic neighbours as perturbed answers",
)
TOW = _spec(
    "tow",
    "ToW-rel",
    {Group.ALL: Better.HIGHER},
    "Product over forget test, retain train and retain test of 1 - |a(run) - a(retrained)|, with a the HR@10 (beam 10) "
    "as a share of the original's and differences cut at 1; 1 is the retrained model. 95 % interval by paired "
    "bootstrap.",
    "Zhao et al. 2024, arXiv 2406.01257; relative accuracies and forget test in place of the forget set are ours",
)
AVERAGE_GAP = _spec(
    "average-gap",
    "average gap",
    {Group.ALL: Better.LOWER},
    "Mean over forget test, retain train and retain test of |HR@10 of the run - HR@10 of the retrained model| (beam "
    "10). 95 % interval by paired bootstrap.",
    "after SalUn, Fan et al. 2024, arXiv 2310.12508",
)

SPECS = (KS_P, KS_D, SPLIT_P, CEILING_P, CEILING_D, TRUTH_RATIO, TOW, AVERAGE_GAP)
