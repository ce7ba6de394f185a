"""What probing reports. Imports neither torch nor pandas."""

from __future__ import annotations

from types import MappingProxyType

from genrec_unlearn_bench.evaluation.metric import Better, Group, Level, MetricSpec

__all__ = ["COLUMNS", "FIRST_LAYER", "NUMBERS", "SITES", "SPECS"]

SITES = MappingProxyType(
    {
        "prompt": "the state that predicts the first token of the answer, target not given",
        "pooled": "the mean state of the input positions, target not given",
        "history": "the mean state of one concept item's positions in a history",
        "embedding": "the mean token embedding of an item",
    }
)
"""Where probes look, and what they see there."""

FIRST_LAYER = MappingProxyType({"prompt": 1, "pooled": 0, "history": 0, "embedding": 0})
"""By site, its lowest layer. 0 is the input embeddings, l is behind block l (the last one also behind the final norm).
``prompt`` has no layer 0: there its one token is the same for all."""

COLUMNS = (
    "site",
    "layer",
    "auroc",
    "auroc_low",
    "auroc_high",
    "accuracy",
    "accuracy_low",
    "accuracy_high",
    "control_accuracy",
    "selectivity",
    "selectivity_low",
    "selectivity_high",
    "validation_auroc",
    "n",
    "note",
)
"""Of the curve: a row for each site and layer. A site that cannot be probed has one row with layer -1, n = 0 and the
reason as its note."""

NUMBERS = COLUMNS[2:-1]
"""The columns that are numbers."""

_MEASURES = MappingProxyType(
    {
        "auroc": ("AUROC", Better.LOWER, 0.0, "AUROC of logistic probes that tell forget from retain by {what}"),
        "accuracy": (
            "accuracy",
            Better.LOWER,
            0.0,
            "Accuracy of logistic probes that tell forget from retain by {what}",
        ),
        "selectivity": (
            "selectivity",
            Better.LOWER,
            -1.0,
            "Accuracy less that of the same probes on random retain items called the concept (control task), by {what}",
        ),
        "floor": (
            "AUROC, random weights",
            Better.NONE,
            0.0,
            "AUROC of the same probes on a model of the same shape and table with random weights, by {what}",
        ),
    }
)
_PROTOCOL = (
    "mean over random divisions that are disjoint in items and users and balanced by level-1 code, "
    "each at the layer with the best AUROC on its validation part."
)

SPECS = tuple(
    MetricSpec(
        name=f"probing.{measure}.{site}",
        title=f"Probe {title} ({site})",
        better={Group.ALL: better},
        range=(low, 1.0),
        unit="fraction",
        level=Level.MODEL,
        description=f"{text.format(what=what)}; {_PROTOCOL}",
        source="protocol sec. 4; Alain & Bengio 2016, arXiv 1610.01644; control tasks: Hewitt & Liang 2019, "
        "arXiv 1909.03368",
    )
    for measure, (title, better, low, text) in _MEASURES.items()
    for site, what in SITES.items()
)
