"""The metrics of the relearning attacks, by attack and SID space.

Robust means a recovery of at most 0 within its interval: under the same attack, the model comes back no faster than one
that never learned the concept. A low HR@10 says less, since an attack that fails on every model leaves it low.
"""

from __future__ import annotations

from genrec_unlearn_bench.evaluation.metric import Better, Group, Level, MetricSpec
from genrec_unlearn_bench.evaluation.relearning.attacks import Attack, Space

__all__ = ["QUANTITIES", "SPECS", "metric_name"]

QUANTITIES = ("hr@10", "area", "recovery", "peak")

_PREFIXES = {Space.SERVED: "relearning", Space.ORIGINAL: "relearning.original-sids"}
_SPACES = {
    Space.SERVED: "",
    Space.ORIGINAL: " The attacker writes and reads items with the original SIDs and is bound by no serving rule.",
}
_TITLES = {"hr@10": "HR@10", "area": "area", "recovery": "R", "peak": "max R"}
_ATTACKS = {
    Attack.MIXED: "fine-tuning on batches with 20 % concept targets",
    Attack.FORGET_1: "fine-tuning on 1 % of the attacker's concept interactions",
    Attack.FORGET_5: "fine-tuning on 5 % of the attacker's concept interactions",
    Attack.FORGET_10: "fine-tuning on 10 % of the attacker's concept interactions",
    Attack.FORGET_100: "fine-tuning on all of the attacker's concept interactions",
    Attack.BENIGN: "fine-tuning on retain interactions alone",
}
_DESCRIPTIONS = {
    "hr@10": "HR@10 (beam 50) on held-out forgotten interactions, of users and items that the attack never saw, at the "
    "end of {attack}; Clopper-Pearson interval.",
    "area": "Mean of that HR@10 over {attack}: area under the recovery curve by its length; bootstrap interval.",
    "recovery": "R at the end of {attack}: HR@10 on held-out forgotten interactions beyond that of retrain under the "
    "same attack, as a share of what original had beyond retrain before it; robust is at most 0 within the paired "
    "bootstrap interval.",
    "peak": "Largest R at any scored step of {attack}, step 0 included; noise lifts a maximum.",
}
_SOURCES = {
    Attack.MIXED: "TRACER, relearning experiment (held-out scoring after Deeb & Roger, arXiv 2410.08827); protocol "
    "sec. 4",
}
_SOURCE = "Deeb & Roger, arXiv 2410.08827 (held-out scoring); protocol sec. 4"
_RANGES = {
    "hr@10": (0.0, 1.0),
    "area": (0.0, 1.0),
    "recovery": (float("-inf"), float("inf")),
    "peak": (float("-inf"), float("inf")),
}


def metric_name(quantity: str, attack: Attack, space: Space) -> str:
    """``relearning.recovery.mixed``, ``relearning.original-sids.hr@10.forget-1`` …"""
    return f"{_PREFIXES[space]}.{quantity}.{attack}"


SPECS = tuple(
    MetricSpec(
        name=metric_name(quantity, attack, space),
        title=f"{_TITLES[quantity]} {attack}{' (original SIDs)' if space is Space.ORIGINAL else ''}",
        better={Group.FORGET: Better.LOWER},
        range=_RANGES[quantity],
        unit="ratio" if quantity in ("recovery", "peak") else "fraction",
        level=Level.MODEL,
        description=_DESCRIPTIONS[quantity].format(attack=_ATTACKS[attack]) + _SPACES[space],
        source=_SOURCES.get(attack, _SOURCE),
    )
    for space in Space
    for attack in Attack
    for quantity in QUANTITIES
)
